package catalog

import (
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/store"
)

// PendingCondition is the SQL condition by which a row of this pipeline is pending, or "" if the table's columns do not say that.
func (t *Table) PendingCondition(alias string) string {
	own := t.Table
	columns.DropMissing(&own, func(name string) bool { _, ok := t.Column(name); return ok })
	pending := columns.Pending(&own, reference(alias), func(status string) string { return columns.IsPending(&own, status, quote.Text) }, equals)
	if pending == "" {
		return ""
	}
	return pending + Ours(&own, alias)
}

// NotDead is the further condition that a row does not look dead by a column of the application's own; "" if no such column tells.
func NotDead(t *outbox.Table, alias string) string {
	return columns.NotDead(t.DeadFlag(), reference(alias), equals)
}

// Unlabelled is the condition by which a row whose status is NULL is pending.
func Unlabelled(t *outbox.Table, alias string) string {
	return columns.Unlabelled(t, reference(alias), equals)
}

func reference(alias string) func(name string) string {
	return func(name string) string { return alias + "." + quote.Ident(name) }
}

func equals(column, value string) string { return column + " = " + SetValue(value) }

// SetValue is the SQL of a value that the configuration gives a column: true and false are 1 and 0.
func SetValue(value string) string {
	if value == "true" || value == "false" {
		return strings.ToUpper(value)
	}
	return quote.Text(value)
}

// PendingRows is the SQL condition by which a table's rows are pending at a new position; "" = none is. With a fix, nothing
// tells: if there are such rows at all, an operator has to do what it says.
func (t *Table) PendingRows(start string, known source.Known) (where, fix string) {
	if where := t.PendingCondition("t"); where != "" {
		return where, ""
	}
	sweep, fix := store.Unmarked(&t.Table, start, known)
	if !sweep {
		return "", ""
	}
	return "TRUE", fix
}

// Order is the ORDER BY of a sweep.
func (t *Table) Order(alias string) string {
	id := alias + "." + quote.Ident(t.Columns.ID)
	if by := t.placedBy(alias); by != "" {
		return by + ", " + id
	}
	return id
}

// Place is the text of what a sweep orders rows by, before their ids.
func (t *Table) Place(alias string) string {
	if by := t.placedBy(alias); by != "" {
		return "CAST(" + by + " AS CHAR)"
	}
	return "''"
}

// placedBy is the column that tells the order in which rows were written; "" if there is none.
func (t *Table) placedBy(alias string) string {
	for _, name := range []string{t.Columns.Seq, t.Columns.CreatedAt} {
		if c, ok := t.Column(name); ok && name != "" {
			return alias + "." + quote.Ident(c.Name)
		}
	}
	return ""
}

// Ours is the further condition by which a row is this pipeline's; "" if all are. Tenants are compared as bytes, as
// the log has them; NULL is written "".
func Ours(t *outbox.Table, alias string) string {
	if len(t.Tenants) == 0 || t.Columns.Tenant == "" {
		return ""
	}
	var quoted []string
	for _, tenant := range t.Tenants {
		quoted = append(quoted, "_binary"+quote.Text(tenant))
	}
	return " AND CAST(CONVERT(COALESCE(" + alias + "." + quote.Ident(t.Columns.Tenant) + ", '') USING utf8mb4) AS BINARY) IN (" + strings.Join(quoted, ", ") + ")"
}
