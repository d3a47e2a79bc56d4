package mysql

import "github.com/tailbox/tailbox/source/columns"

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
			return "(" + columns.IsPending(&t.Table, ref, quoteLiteral) + " OR " + null + ")" + oursCondition(&t.Table, alias)
		}
	}
	if name := t.Columns.DeliveredAt; name != "" {
		if c, ok := t.column(name); ok {
			return alias + "." + quoteIdent(c.name) + " IS NULL" + oursCondition(&t.Table, alias)
		}
	}
	return ""
}
