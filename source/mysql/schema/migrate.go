package schema

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/migration"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations make the relay's tables, and bring those of an earlier version up to date.
func Migrations() []migration.Step { return migration.Read(migrationFiles) }

// Record notes the last migration: in the rows that are there, and, when all is done, in the column's default, which rows that come later
// get.
func Record() migration.Step {
	return migration.Step{Name: "record", Text: fmt.Sprintf("UPDATE {checkpoint} SET migration = %[1]d WHERE migration <> %[1]d;\n"+
		"ALTER TABLE {checkpoint} ALTER COLUMN migration SET DEFAULT %[1]d;\n", len(Migrations()))}
}

// A statement is one of a migration. DDL is no part of transactions, and the server knows no ADD COLUMN IF NOT EXISTS: so a statement may
// name what it makes, and is left out if that is there.
type statement struct {
	comment, sql string
	// view and column of information_schema list what the statement makes: the thing of a table. view is "" for a statement that can be repeated.
	view, column, thing, table string
}

var unless = regexp.MustCompile(`(?m)^-- unless (column|index) (\w+) of (\w+)\n`)

// statementsOf splits a migration. A statement ends with a semicolon at the end of a line.
func statementsOf(m migration.Step) (list []statement) {
	for text := range strings.SplitSeq(m.Text, ";\n") {
		var s statement
		if found := unless.FindStringSubmatch(text); found != nil {
			s.view, s.column, s.thing, s.table = "COLUMNS", "COLUMN_NAME", found[2], found[3]
			if found[1] == "index" {
				s.view, s.column = "STATISTICS", "INDEX_NAME"
			}
			text = strings.Replace(text, found[0], "", 1)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "--") {
				s.comment += line
			} else {
				s.sql += line
			}
		}
		if s.sql = strings.TrimSpace(s.sql); s.sql != "" {
			list = append(list, s)
		}
	}
	return list
}

// Statements are the statements of a migration on the tables of a schema, each without a look whether it was run before.
func Statements(m migration.Step, schema string) (list []string) {
	for _, s := range statementsOf(m) {
		list = append(list, NamesIn(schema).expand(s.sql))
	}
	return list
}

// made counts what the statement makes.
func (s *statement) made(schema string) string {
	return "FROM information_schema." + s.view + " WHERE TABLE_SCHEMA = " + InSchema(schema) + " AND TABLE_NAME = " + quote.Text(s.table) +
		" AND " + s.column + " = " + quote.Text(s.thing)
}

// script is the statement as one that can be repeated.
func (s *statement) script(schema string) string {
	sql := NamesIn(schema).expand(s.sql)
	if s.view == "" {
		return s.comment + sql + ";\n\n"
	}
	return s.comment + "SET @tailbox = (SELECT IF(COUNT(*) > 0, 'DO 0', " + quote.Text(sql) + ") " + s.made(schema) + ");\n" +
		"PREPARE tailbox FROM @tailbox;\nEXECUTE tailbox;\nDEALLOCATE PREPARE tailbox;\n\n"
}

// Script runs all migrations. It can be run on tables of whatever age.
func Script(schema string) string {
	var b strings.Builder
	for _, m := range append(Migrations(), Record()) {
		b.WriteString("-- " + m.Name + "\n")
		for _, s := range statementsOf(m) {
			b.WriteString(s.script(schema))
		}
	}
	return b.String()
}

// Migrate runs the migrations that are missing, and returns what it did. One init at a time does: another one waits, and finds them done.
func Migrate(ctx context.Context, c *server.Config, s *server.Conn) (done []string, err error) {
	database := c.Schema
	if a, err := server.ParseURL(c.URL); err == nil {
		database = cmp.Or(c.Schema, a.Database)
	}
	locked, err := s.Texts(ctx, "SELECT GET_LOCK("+quote.Text(LockName(strings.ToLower(database), ""))+", 5)")
	if err != nil {
		return nil, fmt.Errorf("lock the tables tailbox_* against another init: %w", err)
	}
	if locked[0][0] != "1" {
		return nil, fmt.Errorf("lock the tables tailbox_* against another init: one is running: try again when it has ended")
	}
	list := Migrations()
	var made []string
	for _, name := range []string{"tailbox_checkpoint", "tailbox_parked", "tailbox_request"} {
		missing, err := Missing(ctx, s, c.Schema, name)
		if err != nil {
			return nil, err
		}
		if missing {
			made = append(made, "created table "+name)
		}
	}
	if len(made) == 0 {
		number, err := lastMigration(ctx, s, c.Schema)
		if err != nil {
			return nil, err
		}
		if list = (migration.State{Migration: number}).Pending(list); len(list) == 0 {
			return nil, nil
		}
		made = []string{"updated tables tailbox_*: " + migration.Names(list)}
	}
	for _, m := range append(list, Record()) {
		for _, step := range statementsOf(m) {
			if err := step.run(ctx, s, c.Schema); err != nil {
				return nil, fmt.Errorf("update tables tailbox_* (%s): %w%s", m.Name, err, Fix(err))
			}
		}
	}
	return made, nil
}

func (s *statement) run(ctx context.Context, conn *server.Conn, schema string) error {
	if s.view != "" {
		if there, err := conn.Texts(ctx, "SELECT 1 "+s.made(schema)); err != nil || len(there) > 0 {
			return err
		}
	}
	_, err := conn.Exec(ctx, NamesIn(schema).expand(s.sql))
	return err
}

// lastMigration returns the number of the last migration that was run on the relay's tables.
func lastMigration(ctx context.Context, s *server.Conn, schema string) (int, error) {
	rows, err := s.Texts(ctx, "SELECT COALESCE(MAX(COLUMN_DEFAULT), '0') FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "+InSchema(schema)+
		" AND TABLE_NAME = 'tailbox_checkpoint' AND COLUMN_NAME = 'migration'")
	if err != nil {
		return 0, fmt.Errorf("look for the last migration of the tables tailbox_*: %w", err)
	}
	number, err := strconv.Atoi(rows[0][0])
	return max(number, 1), err
}

// Of returns what was done to the relay's tables, which are there.
func Of(ctx context.Context, s *server.Conn, schema string) (state migration.State, err error) {
	if state.Migration, err = lastMigration(ctx, s, schema); err != nil {
		return state, err
	}
	rows, err := s.Texts(ctx, "SELECT COALESCE(MAX(schema_version), 0) FROM "+NamesIn(schema).Checkpoint)
	if err != nil {
		return state, server.Fault("look at the version of the tables tailbox_*", err)
	}
	state.Version, err = strconv.Atoi(rows[0][0])
	return state, err
}

// Current refuses tables that lack migrations, whose columns and indexes statements name, and tables that mean something else.
func Current(ctx context.Context, s *server.Conn, schema string) error {
	state, err := Of(ctx, s, schema)
	if err != nil {
		return err
	}
	if err := state.Refusal(Migrations()); err != nil {
		return fmt.Errorf("%w: database %s: %w", source.ErrStop, schema, err)
	}
	return nil
}

// Fix is what can be done about a refusal.
func Fix(err error) string {
	switch server.Code(err) {
	case 1044, 1142, server.CodeNeedPrivilege:
		return ": run the SQL of `tailbox init --print` as an account that may create tables, then tailbox init"
	case 1205, 1213:
		return ": another transaction holds the table: try again when it has ended"
	case 1046, 1049:
		return ": name a database that exists in source.url, or in source.schema"
	}
	return ""
}
