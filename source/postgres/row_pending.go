package postgres

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// pendingCondition is the SQL condition by which a row of this pipeline is pending, or "" if the table's columns do not say that.
func (t *tableInfo) pendingCondition(alias string) string {
	pending := columns.Pending(&t.Table, func(name string) (string, bool) {
		c, ok := t.column(name)
		return alias + "." + quoteIdent(c.name), ok
	}, func(status string) string { return isPending(&t.Table, status) })
	if pending == "" {
		return ""
	}
	return pending + oursCondition(&t.Table, alias+".")
}

// oursCondition is the further condition by which a row is this pipeline's, with its columns qualified by prefix; "" where all
// are. A tenant that is NULL is written "".
func oursCondition(t *outbox.Table, prefix string) string {
	if len(t.Tenants) == 0 || t.Columns.Tenant == "" {
		return ""
	}
	return " AND coalesce(" + prefix + quoteIdent(t.Columns.Tenant) + "::pg_catalog.text, '')" + equals + "ANY (ARRAY[" + listLiterals(t.Tenants) + "]::pg_catalog.text[])"
}
