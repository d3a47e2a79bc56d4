package mysql

import "strings"

// names are the relay's own tables, qualified and quoted.
type names struct{ checkpoint, parked, request string }

// tableNames qualifies the relay's tables; schema "" leaves them to the default database.
func tableNames(schema string) names {
	q := func(name string) string {
		if schema == "" {
			return quoteIdent(name)
		}
		return quoteIdent(schema) + "." + quoteIdent(name)
	}
	return names{q("tailbox_checkpoint"), q("tailbox_parked"), q("tailbox_request")}
}

// expand puts the tables in the place of {checkpoint}, {parked} and {request} in a statement.
func (n names) expand(sql string) string {
	return strings.NewReplacer("{checkpoint}", n.checkpoint, "{parked}", n.parked, "{request}", n.request).Replace(sql)
}
