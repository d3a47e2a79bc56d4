package catalog

import (
	"strings"

	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Sequenced reports whether numbers tell the order in which rows were written.
func (t *Table) Sequenced() bool {
	if _, ok := t.Column(t.Columns.Seq); ok && t.Columns.Seq != "" {
		return true
	}
	id, ok := t.Column(t.Columns.ID)
	return ok && (id.Kind == KindInt2 || id.Kind == KindInt4 || id.Kind == KindInt8)
}

// tried is the condition by which a row shows that a program before has already tried to deliver it; "" if no column would.
func (t *Table) tried(alias string) string {
	var conds []string
	for _, name := range []string{t.Columns.Attempts, t.Columns.Failures} {
		if c, ok := t.Column(name); ok && name != "" {
			conds = append(conds, alias+"."+sqltext.Ident(c.Name)+" OPERATOR(pg_catalog.>) 0")
		}
	}
	if c, ok := t.Column(t.Columns.LastAttemptAt); ok && t.Columns.LastAttemptAt != "" {
		conds = append(conds, alias+"."+sqltext.Ident(c.Name)+" IS NOT NULL")
	}
	return strings.Join(conds, " OR ")
}

// Order is the ORDER BY of a sweep. A row whose commit time the server does not know any more is older than those it
// knows. So is one that was tried before: its commit time is that of its last change.
func (t *Table) Order(alias string, commitTimes bool) string {
	var by []string
	at := "pg_catalog.pg_xact_commit_timestamp(" + alias + ".xmin)"
	tried := t.tried(alias)
	if tried != "" {
		at = "CASE WHEN " + tried + " THEN NULL ELSE " + at + " END"
	}
	if commitTimes {
		by = append(by, at+" NULLS FIRST")
	}
	for _, name := range []string{t.Columns.Seq, t.Columns.CreatedAt} {
		if c, ok := t.Column(name); ok && name != "" {
			by = append(by, alias+"."+sqltext.Ident(c.Name))
			break
		}
	}
	// Rows of one transaction, or of a table without any of these: numbered ids tell the order.
	if c, ok := t.Column(t.Columns.ID); ok && (c.Kind == KindInt2 || c.Kind == KindInt4 || c.Kind == KindInt8) {
		by = append(by, alias+"."+sqltext.Ident(c.Name))
	}
	// If nothing tells the commit time, the age of xmin is that of the last change, too.
	if tried != "" && !commitTimes {
		by = append(by, "CASE WHEN "+tried+" THEN 0 ELSE 1 END")
	}
	// The place of a row (ctid) does not tell the order: Postgres uses places again. cmin does, within a transaction. A subtransaction has an xid of
	// its own, so the age of xmin comes in only if no commit time tells transactions apart.
	began := "pg_catalog.age(" + alias + ".xmin) DESC"
	if commitTimes {
		began = "CASE WHEN " + at + " IS NULL THEN pg_catalog.age(" + alias + ".xmin) END DESC"
	}
	return strings.Join(append(by, began, alias+".cmin::text::bigint", alias+".tableoid", alias+".ctid"), ", ")
}
