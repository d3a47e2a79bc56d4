package catalog

import (
	"strings"

	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Sequenced tells whether numbers tell the order in which rows were written.
func (t *Table) Sequenced() bool {
	if _, ok := t.Column(t.Columns.Seq); ok && t.Columns.Seq != "" {
		return true
	}
	id, ok := t.Column(t.Columns.ID)
	return ok && (id.Kind == KindInt2 || id.Kind == KindInt4 || id.Kind == KindInt8)
}

// Order is the ORDER BY of a sweep. A row whose commit time the server does not know any more is older than those it
// knows.
func (t *Table) Order(alias string, commitTimes bool) string {
	var by []string
	at := "pg_catalog.pg_xact_commit_timestamp(" + alias + ".xmin)"
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
	// Places in a table that is deleted from do not: they are used again. The transaction's own count of its commands does. Subtransactions have
	// numbers of their own, so the number is asked only where nothing tells the transactions apart.
	began := "pg_catalog.age(" + alias + ".xmin) DESC"
	if commitTimes {
		began = "CASE WHEN " + at + " IS NULL THEN pg_catalog.age(" + alias + ".xmin) END DESC"
	}
	return strings.Join(append(by, began, alias+".cmin::text::bigint", alias+".tableoid", alias+".ctid"), ", ")
}
