package setup

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/migration"
)

// Script is what Init creates, as one script for a migration tool: the relay's tables, the outbox tables whose shape is
// ours, and the publication. It can be run again. The slot is no part of it: it is made by `tailbox init`, after the
// publication, because the log knows a publication only from its creation on.
func Script(cfg session.Config) (string, error) {
	var b strings.Builder
	b.WriteString(migration.GrantsComment("--", RoleSQL(cfg, "tailbox"), ClientSQL(cfg, "support")))
	b.WriteString(migrate.TablesIn(cfg.Schema).Script())
	for i := range cfg.Tables {
		sql, err := ddl.Outbox(&cfg.Tables[i])
		if err != nil {
			return "", err
		}
		if sql != "" { // no DO block: tools for migrations split a script at its semicolons
			sql = "-- An outbox table and its indexes. If you have this table already, leave these statements out.\n" + sql
		}
		b.WriteString("\n" + sql)
		if cfg.Poll {
			b.WriteString(ddl.SeqIndex(&cfg.Tables[i]))
		}
	}
	if cfg.Poll {
		b.WriteString("\n-- source.read is poll: neither a publication nor a slot is needed.\n")
		return b.String(), nil
	}
	b.WriteString("\n" + ddl.Publication(cfg))
	return b.String(), nil
}

// ClientSQL grants a role what it needs to ask for verbs in plain SQL, and no more. The role cannot write who asked, when, or the result.
func ClientSQL(cfg session.Config, role string) string {
	return "GRANT INSERT (pipeline, verb, selection, reason), SELECT (id) ON " + migrate.TablesIn(cfg.Schema).Request +
		" TO " + sqltext.Ident(role) + ";\n"
}

// RoleSQL grants a role what it needs to run the relay, and no more. The role must exist, with LOGIN. Reading the log takes REPLICATION; polling
// takes SELECT on the sequence. If rows are deleted, the relay still needs UPDATE on one column: Postgres requires it for FOR UPDATE SKIP LOCKED, by
// which the relay passes over rows that the application has locked. The relay writes nothing there.
func RoleSQL(cfg session.Config, role string) string {
	var b strings.Builder
	r := sqltext.Ident(role)
	n := migrate.TablesIn(cfg.Schema)
	if !cfg.Poll {
		b.WriteString("ALTER ROLE " + r + " WITH REPLICATION;\n")
	}
	schemas := []string{""}
	if cfg.Schema != "" {
		schemas = append(schemas, cfg.Schema)
		b.WriteString("GRANT USAGE ON SCHEMA " + sqltext.Ident(cfg.Schema) + " TO " + r + ";\n")
	}
	for _, g := range n.Grants() {
		b.WriteString("GRANT " + strings.Join(g.Privileges, ", ") + " ON " + g.Table + " TO " + r + ";\n")
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if !slices.Contains(schemas, t.Schema) {
			schemas = append(schemas, t.Schema)
			b.WriteString("GRANT USAGE ON SCHEMA " + sqltext.Ident(t.Schema) + " TO " + r + ";\n")
		}
		b.WriteString("GRANT " + strings.Join(ddl.Privileges(t), ", ") + " ON " + sqltext.Table(t) + " TO " + r + ";\n")
		b.WriteString(prepare.FeedbackNote(t))
		if cfg.Poll && ddl.OwnShape(t.Shape) {
			seq := *t
			seq.Name += "_" + t.Columns.Seq + "_seq" // the server's own name for it
			b.WriteString("GRANT SELECT ON SEQUENCE " + sqltext.Table(&seq) + " TO " + r + ";\n")
		}
	}
	return b.String()
}
