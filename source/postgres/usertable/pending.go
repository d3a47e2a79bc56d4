package usertable

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Old is the condition by which a row was delivered longer ago than the table's retention.
func (t *Table) Old(prefix string) string {
	cond := "coalesce(" + prefix + sqltext.Ident(t.Columns.DeliveredAt) + " OPERATOR(pg_catalog.<) (pg_catalog.now() OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => " +
		strconv.FormatInt(int64(t.Retention.Seconds()), 10) + ")), false)"
	if t.Columns.Status != "" {
		cond += " AND coalesce(" + prefix + sqltext.Ident(t.Columns.Status) + "::pg_catalog.text OPERATOR(pg_catalog.=) " + sqltext.Literal(t.Words.Delivered) + ", false)"
	}
	return cond + catalog.NotDead(&t.Table, prefix) + t.ours(prefix)
}

// ours is the further condition by which a row is this pipeline's; "" if all are.
func (t *Table) ours(prefix string) string { return catalog.Ours(&t.Table, prefix) }

// Nameless is the condition by which a row has no id; "" if the column rules that out.
func (t *Table) Nameless(prefix string) string {
	id := prefix + sqltext.Ident(t.Columns.ID)
	var conds []string
	if !t.required[t.Columns.ID] {
		conds = append(conds, id+" IS NULL")
	}
	switch {
	case t.ID.Wire == "text" && t.ID.Exact:
		conds = append(conds, notIndexed(id))
	case t.ID.Wire == "text":
		conds = append(conds, notIndexed(id+"::text"))
	}
	return strings.Join(conds, " OR ")
}

// notIndexed is the condition by which a text is no id: it is empty, or too long.
func notIndexed(text string) string {
	return fmt.Sprintf("octet_length(%s) NOT BETWEEN 1 AND %d", text, outbox.MaxIndexed)
}

// PendingSQL reads a window of rows. It returns missing rows (pending, and no parked delivery has row_settled or unfinished set), rows that were
// reset, and the last row, where the next window begins. If an index leads to the pending rows, the window consists of those.
func (t *Table) PendingSQL(after bool) string {
	id := "t." + sqltext.Ident(t.Columns.ID)
	inner, outer := "true", t.Pending("t.")
	if t.PendingIndex || outer == "true" {
		inner, outer = outer, "true"
	}
	if nameless := t.Nameless("t."); nameless != "" {
		inner += " AND NOT (" + nameless + ")"
	}
	if after {
		inner += " AND " + id + t.ID.Above + "$4::text::" + t.Types[t.Columns.ID]
	}
	reset := "false"
	if t.Columns.Status != "" && !t.DeadLooksPending() {
		reset = `EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = w.id AND p.source_table = $2
			AND p.state = 'dead' AND p.row_settled AND NOT p.unfinished AND NOT p.in_table)`
	}
	return `
SELECT id, missing, reset, n FROM (
	SELECT w.id, w.pending AND NOT EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = w.id AND p.source_table = $2
		AND (p.row_settled OR p.unfinished)) AS missing,
		w.pending AND ` + reset + ` AS reset, count(*) OVER () AS n, w.rank, count(*) OVER () = w.rank AS last
	FROM (SELECT ` + id + `::text AS id, ` + outer + ` AS pending, row_number() OVER (ORDER BY ` + id + `) AS rank
		FROM ` + t.SQL + ` AS t WHERE ` + inner + ` ORDER BY ` + id + ` LIMIT $3) w
) r WHERE missing OR reset OR last ORDER BY rank`
}

// Pending is the condition by which a row waits for its first delivery. A status that is NULL counts, unless another
// column shows that the row is delivered or dead.
func (t *Table) Pending(prefix string) string {
	cond := catalog.Pending(&t.Table, prefix)
	if t.Columns.Status != "" && !t.required[t.Columns.Status] {
		cond = "(" + cond + " OR " + catalog.Unlabelled(&t.Table, prefix) + ")"
	}
	return cond + catalog.NotDead(&t.Table, prefix) + t.ours(prefix)
}
