package postgres

import (
	"github.com/tailbox/tailbox/outbox"
)

// pendingCondition is the SQL condition by which a table's own columns say that a row is pending, or "" where they do not: the
// status is the word for pending, or it is NULL, as in rows from before the column was added, and so is delivered_at; or without a status column,
// delivered_at is NULL. The columns of a shape may be missing in the table.
func (t *tableInfo) pendingCondition(alias string) string {
	if name := t.Columns.Status; name != "" {
		if c, ok := t.column(name); ok {
			ref := alias + "." + quoteIdent(c.name)
			null := ref + " IS NULL"
			if delivered, ok := t.column(t.Columns.DeliveredAt); ok {
				null += " AND " + alias + "." + quoteIdent(delivered.name) + " IS NULL"
			}
			return "(" + isPending(&t.Table, ref) + " OR " + null + ")" + oursCondition(&t.Table, alias+".")
		}
	}
	if name := t.Columns.DeliveredAt; name != "" {
		if c, ok := t.column(name); ok {
			return alias + "." + quoteIdent(c.name) + " IS NULL" + oursCondition(&t.Table, alias+".")
		}
	}
	return ""
}

// oursCondition is the further condition by which a row is this pipeline's, with its columns qualified by prefix; "" where all
// are. A tenant that is NULL is written "".
func oursCondition(t *outbox.Table, prefix string) string {
	if len(t.Tenants) == 0 || t.Columns.Tenant == "" {
		return ""
	}
	return " AND coalesce(" + prefix + quoteIdent(t.Columns.Tenant) + "::pg_catalog.text, '')" + equals + "ANY (ARRAY[" + listLiterals(t.Tenants) + "]::pg_catalog.text[])"
}
