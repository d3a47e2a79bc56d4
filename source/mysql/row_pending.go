package mysql

import "github.com/tailbox/tailbox/source/columns"

// pendingCondition is the SQL condition by which a row of this pipeline is pending, or "" if the table's columns do not say that.
func (t *tableInfo) pendingCondition(alias string) string {
	pending := columns.Pending(&t.Table, func(name string) (string, bool) {
		c, ok := t.column(name)
		return alias + "." + quoteIdent(c.name), ok
	}, func(status string) string { return columns.IsPending(&t.Table, status, quoteLiteral) })
	if pending == "" {
		return ""
	}
	return pending + oursCondition(&t.Table, alias)
}
