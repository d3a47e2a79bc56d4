package postgres

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store"
)

// names are the relay's own tables, qualified and quoted.
type names struct{ checkpoint, parked, request string }

// tableNames qualifies the relay's tables; schema "" leaves them to the search path.
func tableNames(schema string) names {
	q := func(name string) string {
		if schema == "" {
			return name
		}
		return quoteIdent(schema) + "." + name
	}
	return names{q("tailbox_checkpoint"), q("tailbox_parked"), q("tailbox_request")}
}

// A grant is what a role may do with a table.
type grant struct {
	table      string
	privileges []string
}

// grants are what the relay does with its own tables. What it knows, and what was asked for, only the owner removes.
func (n names) grants() []grant {
	return []grant{{n.checkpoint, []string{"SELECT", "INSERT", "UPDATE"}}, {n.parked, []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{n.request, []string{"SELECT", "INSERT", "UPDATE"}}}
}

// expand puts the tables in the place of {checkpoint}, {parked} and {request} in a statement.
func (n names) expand(sql string) string {
	return strings.NewReplacer("{checkpoint}", n.checkpoint, "{parked}", n.parked, "{request}", n.request).Replace(sql)
}

// SetupScript is what Init creates, as one script for a migration tool: the relay's tables, the outbox tables whose shape is
// ours, and the publication. It can be run again. The slot is no part of it: it is made by `tailbox init`, after the
// publication, because the log knows a publication only from its creation on.
func (cfg Config) SetupScript() (string, error) {
	var b strings.Builder
	b.WriteString(store.GrantsComment("--", RoleSQL(cfg, "tailbox"), ClientSQL(cfg, "support")))
	b.WriteString(tableNames(cfg.Schema).ownTables())
	for i := range cfg.Tables {
		sql, err := outboxSQL(&cfg.Tables[i])
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + sql)
		if cfg.Poll {
			b.WriteString(seqIndexSQL(&cfg.Tables[i]))
		}
	}
	if cfg.Poll {
		b.WriteString("\n-- source.read is poll: neither a publication nor a slot is needed.\n")
		return b.String(), nil
	}
	b.WriteString("\n" + publicationSQL(cfg))
	return b.String(), nil
}

// ClientSQL is what a role needs to ask for verbs in plain SQL, and no more: who asked, when, and what came of it, is not its to write.
func ClientSQL(cfg Config, role string) string {
	return "GRANT INSERT (pipeline, verb, selection, reason), SELECT (id) ON " + tableNames(cfg.Schema).request +
		" TO " + quoteIdent(role) + ";\n"
}

// RoleSQL is what a role needs that does nothing but run the relay. The role exists already, with LOGIN; REPLICATION is
// what reading the log takes; polling takes to read the
// sequence instead. UPDATE on a table whose rows are deleted serves to pass over rows that the application
// has locked (FOR UPDATE SKIP LOCKED); Postgres asks for it on any one column, and nothing is written there.
func RoleSQL(cfg Config, role string) string {
	var b strings.Builder
	r := quoteIdent(role)
	n := tableNames(cfg.Schema)
	if !cfg.Poll {
		b.WriteString("ALTER ROLE " + r + " WITH REPLICATION;\n")
	}
	schemas := []string{""}
	if cfg.Schema != "" {
		schemas = append(schemas, cfg.Schema)
		b.WriteString("GRANT USAGE ON SCHEMA " + quoteIdent(cfg.Schema) + " TO " + r + ";\n")
	}
	for _, g := range n.grants() {
		b.WriteString("GRANT " + strings.Join(g.privileges, ", ") + " ON " + g.table + " TO " + r + ";\n")
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if !slices.Contains(schemas, t.Schema) {
			schemas = append(schemas, t.Schema)
			b.WriteString("GRANT USAGE ON SCHEMA " + quoteIdent(t.Schema) + " TO " + r + ";\n")
		}
		b.WriteString("GRANT " + strings.Join(tablePrivileges(t), ", ") + " ON " + quoteTable(t) + " TO " + r + ";\n")
		b.WriteString(feedbackNote(t))
		if cfg.Poll && ownShape(t.Shape) {
			seq := *t
			seq.Name += "_" + t.Columns.Seq + "_seq" // the server's own name for it
			b.WriteString("GRANT SELECT ON SEQUENCE " + quoteTable(&seq) + " TO " + r + ";\n")
		}
	}
	return b.String()
}
