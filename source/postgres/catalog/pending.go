package catalog

import (
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Pending is the SQL condition by which a row of this pipeline is pending, or "" if the table's columns do not say that.
func (t *Table) Pending(alias string) string {
	own := t.Table
	columns.DropMissing(&own, func(name string) bool { _, ok := t.Column(name); return ok })
	pending := columns.Pending(&own, reference(alias+"."), func(status string) string { return isPending(&own, status) }, equals)
	if pending == "" {
		return ""
	}
	return pending + Ours(&own, alias+".")
}

// NotDead returns the further condition that a row does not look dead by a column of the application's own; "" if no such column tells. prefix
// qualifies its columns.
func NotDead(t *outbox.Table, prefix string) string {
	return columns.NotDead(t.DeadFlag(), reference(prefix), equals)
}

// Unlabelled returns the condition by which a row whose status is NULL is pending.
func Unlabelled(t *outbox.Table, prefix string) string {
	return columns.Unlabelled(t, reference(prefix), equals)
}

func reference(prefix string) func(name string) string {
	return func(name string) string { return prefix + sqltext.Ident(name) }
}

func equals(column, value string) string { return column + sqltext.Equals + sqltext.Literal(value) }

// Ours returns the further condition that a row is this pipeline's; "" if all are. prefix qualifies its columns. A tenant that is NULL is written "".
func Ours(t *outbox.Table, prefix string) string {
	if len(t.Tenants) == 0 || t.Columns.Tenant == "" {
		return ""
	}
	return " AND coalesce(" + prefix + sqltext.Ident(t.Columns.Tenant) + "::pg_catalog.text, '')" + sqltext.Equals + "ANY (ARRAY[" + sqltext.Literals(t.Tenants) + "]::pg_catalog.text[])"
}

// Pending returns the condition under which a row waits for its first delivery; "true" if no column tells, because then every row does. prefix
// qualifies its columns. Unlike Table.Pending, it has no condition on the tenant and none for a NULL status: the caller knows whether the status can
// be NULL. Status values stand in it as literals, not parameters, so that an index on pending rows can be used.
func Pending(t *outbox.Table, prefix string) string {
	switch {
	case t.Columns.Status != "":
		return isPending(t, prefix+sqltext.Ident(t.Columns.Status))
	case t.Columns.DeliveredAt != "":
		return prefix + sqltext.Ident(t.Columns.DeliveredAt) + " IS NULL"
	default:
		return "true"
	}
}

// isPending is the condition that a status is a word for pending.
func isPending(t *outbox.Table, column string) string {
	words := t.PendingWords()
	conds := make([]string, len(words))
	for i, word := range words { // a list would have to be of the column's type
		conds[i] = column + sqltext.Equals + sqltext.Literal(word)
	}
	if len(conds) == 1 {
		return conds[0]
	}
	return "(" + strings.Join(conds, " OR ") + ")"
}
