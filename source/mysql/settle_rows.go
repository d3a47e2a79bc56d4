package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// rowChunk is the most rows of one statement.
const rowChunk = 250

// A rowChange is what is to happen to one row of the user's table.
type rowChange struct {
	id    string
	index int // in Settlement.Rows; -1 for a message whose row was settled before
	msg   *store.Message
	store.RowChange
}

// rowWork is what happens to rows of one table.
type rowWork struct {
	table  *table
	delete bool
	// alike: all rows get the same, in one statement.
	alike bool
	rows  []rowChange
	// done counts the rows that statements found. There are, after a look, the ids that are there and locked by this
	// transaction.
	done  int
	there map[string]bool
	// locked: this transaction has locked all of the rows, and passed over those that others have locked.
	locked bool
}

// plainRows are the rows of messages without parked deliveries, table by table.
func (a *attempt) plainRows() []*rowWork {
	byTable := make(map[*table][]rowChange, len(a.s.tables.order))
	for i := range a.In.Rows {
		r := &a.In.Rows[i]
		t := a.s.tables.byName[r.Table]
		if t == nil || r.Parked || !t.findable(r.ID) {
			continue // a table that left the configuration is left alone, and a row without an id cannot be found
		}
		c := rowChange{id: r.ID, index: i, RowChange: store.RowChange{Attempts: 1}}
		if t.view.Receipts {
			c.Receipt = r.Receipt
		}
		if _, touch := t.view.Delivered(&c.RowChange, false); touch {
			byTable[t] = append(byTable[t], c)
		}
	}
	var work []*rowWork
	for _, t := range a.s.tables.order {
		work = append(work, a.workOf(t, t.OnDelivered == outbox.Delete, !t.view.Receipts, byTable[t])...)
	}
	return work
}

// workOf cuts rows of one table into statements. Their ids are in order, so that their locks are taken in one order.
func (a *attempt) workOf(t *table, del, alike bool, rows []rowChange) (work []*rowWork) {
	slices.SortStableFunc(rows, func(x, y rowChange) int {
		if t.id.form == idInt && len(x.id) != len(y.id) {
			return len(x.id) - len(y.id)
		}
		return strings.Compare(x.id, y.id)
	})
	for chunk := range slices.Chunk(rows, rowChunk) {
		work = append(work, &rowWork{table: t, delete: del, alike: alike || del, rows: chunk})
	}
	return work
}

// doPlain sends a batch with what is to happen to rows of messages without parked deliveries. As a rule all of them are
// there. Where some are not, the application has removed them, or the statement has passed over them because their
// transaction is not over: a locking read passes over none, it waits, and then they are there.
func (a *attempt) doPlain(ctx context.Context, b *batch, work []*rowWork) error {
	if a.passLocked {
		return a.doKnown(ctx, b, work)
	}
	for _, w := range work {
		if err := w.queue(b); err != nil {
			return err
		}
	}
	if err := a.s.send(ctx, b); err != nil {
		return err
	}
	var short []*rowWork
	for _, w := range work {
		if w.done >= len(w.rows) {
			continue
		}
		short = append(short, w)
		if err := w.queueLook(b, "FOR UPDATE"); err != nil {
			return err
		}
	}
	if err := a.s.send(ctx, b); err != nil || len(short) == 0 {
		return err
	}
	for _, w := range short {
		found := w.done
		if w.delete {
			found += len(w.there)
		} else {
			found = len(w.there)
		}
		a.Out.Gone += max(len(w.rows)-found, 0)
		if found > w.done {
			if err := w.queue(b); err != nil {
				return err
			}
		}
	}
	return a.s.send(ctx, b)
}

// doKnown sends a batch, and deals with rows of which it finds out first whether they are there.
func (a *attempt) doKnown(ctx context.Context, b *batch, work []*rowWork) error {
	how := "FOR UPDATE"
	if a.passLocked {
		how = "FOR UPDATE SKIP LOCKED"
	}
	for _, w := range work {
		if a.lockedTables[w.table.String()] {
			continue
		}
		if err := w.queueLook(b, how); err != nil {
			return err
		}
	}
	if err := a.s.send(ctx, b); err != nil {
		return err
	}
	unjudged := &unjudgedRows{ids: make(map[*table][]string)}
	for _, w := range work {
		a.sort(w, unjudged)
		w.locked = true
	}
	if len(unjudged.ids) > 0 {
		return unjudged
	}
	for _, w := range work {
		if err := w.queue(b); err != nil {
			return err
		}
	}
	return a.s.send(ctx, b)
}

// sort leaves those rows in the work that are there, and deals with the others: gone, or locked and to be tried again.
func (a *attempt) sort(w *rowWork, unjudged *unjudgedRows) {
	tableLocked := a.lockedTables[w.table.String()]
	w.rows = slices.DeleteFunc(w.rows, func(r rowChange) bool {
		if w.there[r.id] {
			return false
		}
		verdict, judged := a.verdicts[store.MessageKey{Table: w.table.String(), ID: r.id}]
		switch {
		case tableLocked, a.passLocked && judged && verdict == verdictThere:
			a.metLocked = true
			if r.index < 0 {
				r.msg.Locked = true
			} else {
				a.Skipped[r.index] = true
			}
		case a.passLocked && !judged:
			unjudged.ids[w.table] = append(unjudged.ids[w.table], r.id)
		case r.index >= 0:
			a.Out.Gone++
		}
		return true
	})
}

// ids are those of the rows.
func (w *rowWork) ids() []string {
	ids := make([]string, len(w.rows))
	for i := range w.rows {
		ids[i] = w.rows[i].id
	}
	return ids
}

// queueLook asks which rows are there, and locks them.
func (w *rowWork) queueLook(b *batch, how string) error {
	return w.table.queueLook(b, w.ids(), how, func(id string) {
		if w.there == nil {
			w.there = make(map[string]bool, len(w.rows))
		}
		w.there[id] = true
	})
}

func (t *table) queueLook(b *batch, ids []string, how string, on func(id string)) error {
	picks, err := t.picks(ids)
	if err != nil {
		return err
	}
	for _, p := range picks {
		b.each(func(r row) error {
			id, err := t.id.read(r, 0)
			on(id)
			return err
		}, "SELECT "+t.id.selected("t.")+" FROM ? WHERE ? "+how, p.from, p.where)
	}
	return nil
}

// queue adds the statements for the rows.
func (w *rowWork) queue(b *batch) error {
	if len(w.rows) == 0 {
		return nil
	}
	count := func(a answer) error {
		w.done += a.affected
		return nil
	}
	if w.alike {
		return w.queueAll(b, w.ids(), &w.rows[0].RowChange, count)
	}
	for i := range w.rows {
		if err := w.queueAll(b, []string{w.rows[i].id}, &w.rows[i].RowChange, count); err != nil {
			return err
		}
	}
	return nil
}

// queueAll adds the statements for rows that all get the same.
func (w *rowWork) queueAll(b *batch, ids []string, r *store.RowChange, count func(answer) error) error {
	if w.delete && !w.locked {
		if sql, err := w.table.deletion(ids); err != nil {
			return err
		} else if sql != "" {
			b.queue(count, "?", sql)
			return nil
		}
	}
	picks, err := w.table.picks(ids)
	if err != nil {
		return err
	}
	for _, p := range picks {
		if w.delete {
			b.queue(count, "DELETE t FROM ? WHERE ?", p.from, p.where)
		} else {
			b.queue(count, "UPDATE ? SET ? WHERE ?", p.from, w.table.assignments(r), p.where)
		}
	}
	return nil
}

// assignments are a change of a row t as a statement has it.
func (t *table) assignments(r *store.RowChange) raw {
	set := t.sets(r)
	if len(set) == 0 { // delivered_at alone, of a message that is not delivered
		return raw("t." + t.id.column + " = t." + t.id.column)
	}
	var b []byte
	for i, s := range set {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(append(append(b, "t."...), s.column...), " = "...), s.to...)
	}
	return raw(b)
}

// An assignment is what a column is set to: its quoted name, and SQL that may look at the row t.
type assignment struct {
	column string
	to     raw
}

// sets are the columns that the table has of those that a change sets. The server may make them in this order, each with what the
// ones before have set: what looks at counts comes before they are changed. A column that cannot be NULL keeps what it has where
// there is nothing to show.
func (t *table) sets(r *store.RowChange) (set []assignment) {
	c := &t.Columns
	assign := func(column string, v any) {
		text, ok := v.(raw)
		if !ok {
			text = raw(appendLiteral(nil, v))
		}
		set = append(set, assignment{column, text})
	}
	if t.view.Receipts {
		assign(t.col(c.Receipt), t.receiptExpr(r.Receipt))
	}
	if t.OnDelivered == outbox.Keep {
		return set
	}
	const now = raw("UTC_TIMESTAMP(6)")
	counts := []struct {
		col string
		typ *tableColumnType
		n   int
	}{{t.col(c.Failures), t.column(c.Failures), r.Failures}, {t.col(c.Attempts), t.column(c.Attempts), r.Attempts}}
	if col := t.col(c.LastAttemptAt); col != "" {
		more := ""
		for _, count := range counts {
			if count.col != "" {
				more = fmt.Sprintf("IF(%d > COALESCE(t.%s, 0), %s, t.%s)", count.n, count.col, now, col)
			}
		}
		switch {
		case r.Delivered:
			assign(col, now)
		case more != "":
			assign(col, raw(more))
		}
	}
	if col := t.col(c.Status); col != "" {
		assign(col, r.Word)
	}
	for _, count := range counts {
		switch {
		case count.col == "":
		case r.Delivered:
			assign(count.col, raw(fmt.Sprintf("GREATEST(COALESCE(t.%s, 0), %d)", count.col, count.typ.countOf(count.n))))
		default:
			assign(count.col, count.typ.countOf(count.n))
		}
	}
	if col := t.col(c.NextAttemptAt); col != "" {
		switch {
		case r.Next != nil:
			assign(col, t.column(c.NextAttemptAt).timeOf(*r.Next))
		case !t.column(c.NextAttemptAt).required:
			assign(col, time.Time{})
		}
	}
	if col := t.col(c.LastError); col != "" {
		text := t.column(c.LastError).fit(r.Err)
		if text == nil && t.column(c.LastError).required {
			text = ""
		}
		assign(col, text)
	}
	if col := t.col(c.DeliveredAt); col != "" && r.Delivered {
		assign(col, now)
	}
	if col := t.col(c.UpdatedAt); col != "" {
		assign(col, now)
	}
	return set
}

// countOf is a count as the column can hold it: one that is full stays there, because the row must be written.
func (c *tableColumnType) countOf(n int) int {
	_, most := integerBounds(c.typ, strings.Contains(c.full, "unsigned"))
	var digits, scale int
	if c.typ == "decimal" {
		if found, _ := fmt.Sscanf(c.full, "decimal(%d,%d)", &digits, &scale); found == 2 && digits-scale < 18 {
			most = 1
			for range digits - scale {
				most *= 10
			}
			most--
		}
	}
	return int(min(int64(n), most))
}

// lastTimestamp is the end of TIMESTAMP; that of MariaDB from 11.5 on is later. It has no fraction, which a column without one
// would round up.
var lastTimestamp = time.Date(2038, 1, 19, 3, 14, 7, 0, time.UTC)

// timeOf is a time as the column can hold it: one that is too far away is shown as the last one that there is.
func (c *tableColumnType) timeOf(v time.Time) time.Time {
	if c.typ == "timestamp" && v.After(lastTimestamp) {
		return lastTimestamp
	}
	return v
}

// fit is a text as the column can hold it; NULL for none.
func (c *tableColumnType) fit(text string) any {
	if text == "" {
		return nil
	}
	if strings.HasSuffix(c.typ, "text") || strings.HasSuffix(c.typ, "blob") || strings.HasSuffix(c.typ, "binary") {
		for c.length > 0 && len(text) > c.length {
			_, n := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-n]
		}
	} else if c.length > 0 && utf8.RuneCountInString(text) > c.length {
		text = string([]rune(text)[:c.length])
	}
	if c.charset == "" || strings.HasPrefix(c.charset, "utf8mb4") {
		return text
	}
	return raw("CONVERT(" + string(appendLiteral(nil, text)) + " USING " + c.charset + ")")
}
