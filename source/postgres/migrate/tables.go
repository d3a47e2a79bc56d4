package migrate

import (
	"strings"

	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Tables are the relay's own tables, qualified and quoted.
type Tables struct{ Checkpoint, Parked, Request string }

// TablesIn qualifies the relay's tables; schema "" leaves them to the search path.
func TablesIn(schema string) Tables {
	q := func(name string) string {
		if schema == "" {
			return name
		}
		return sqltext.Ident(schema) + "." + name
	}
	return Tables{q("tailbox_checkpoint"), q("tailbox_parked"), q("tailbox_request")}
}

// A Grant is what a role may do with a table.
type Grant struct {
	Table      string
	Privileges []string
}

// Grants are the relay's privileges on its own tables. It may not delete checkpoints and requests: only the owner can.
func (n Tables) Grants() []Grant {
	return []Grant{{n.Checkpoint, []string{"SELECT", "INSERT", "UPDATE"}}, {n.Parked, []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{n.Request, []string{"SELECT", "INSERT", "UPDATE"}}}
}

// Expand puts the tables in the place of {checkpoint}, {parked} and {request} in a statement.
func (n Tables) Expand(sql string) string {
	return strings.NewReplacer("{checkpoint}", n.Checkpoint, "{parked}", n.Parked, "{request}", n.Request).Replace(sql)
}
