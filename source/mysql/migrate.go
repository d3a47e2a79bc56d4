package mysql

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations make the relay's tables, and bring those of an earlier version up to date.
func migrations() []store.Migration { return store.ReadMigrations(migrationFiles) }

// record notes the last migration: in the rows that are there, and, when all is done, in the column's default, which rows that come later
// get.
func record() store.Migration {
	return store.Migration{Name: "record", Text: fmt.Sprintf("UPDATE {checkpoint} SET migration = %[1]d WHERE migration <> %[1]d;\n"+
		"ALTER TABLE {checkpoint} ALTER COLUMN migration SET DEFAULT %[1]d;\n", len(migrations()))}
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
func statementsOf(m store.Migration) (list []statement) {
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

// statementsIn are the statements of a migration on the tables of a schema, each without a look whether it was run before.
func statementsIn(m store.Migration, schema string) (list []string) {
	for _, s := range statementsOf(m) {
		list = append(list, tableNames(schema).expand(s.sql))
	}
	return list
}

// made counts what the statement makes.
func (s *statement) made(schema string) string {
	return "FROM information_schema." + s.view + " WHERE TABLE_SCHEMA = " + inSchema(schema) + " AND TABLE_NAME = " + quoteLiteral(s.table) +
		" AND " + s.column + " = " + quoteLiteral(s.thing)
}

// script is the statement as one that can be repeated.
func (s *statement) script(schema string) string {
	sql := tableNames(schema).expand(s.sql)
	if s.view == "" {
		return s.comment + sql + ";\n\n"
	}
	return s.comment + "SET @tailbox = (SELECT IF(COUNT(*) > 0, 'DO 0', " + quoteLiteral(sql) + ") " + s.made(schema) + ");\n" +
		"PREPARE tailbox FROM @tailbox;\nEXECUTE tailbox;\nDEALLOCATE PREPARE tailbox;\n\n"
}

// migrationScript runs all migrations. It can be run on tables of whatever age.
func migrationScript(schema string) string {
	var b strings.Builder
	for _, m := range append(migrations(), record()) {
		b.WriteString("-- " + m.Name + "\n")
		for _, s := range statementsOf(m) {
			b.WriteString(s.script(schema))
		}
	}
	return b.String()
}

// inSchema is the relay's database in a condition; "" stands for that of the connection.
func inSchema(schema string) string {
	if schema == "" {
		return "DATABASE()"
	}
	return quoteLiteral(schema)
}

// migrate runs the migrations that are missing, and returns what it did. One init at a time does: another one waits, and finds them done.
func migrate(ctx context.Context, c *config, s *session) (done []string, err error) {
	database := c.Schema
	if a, err := parseURL(c.URL); err == nil {
		database = cmp.Or(c.Schema, a.database)
	}
	locked, err := s.texts(ctx, "SELECT GET_LOCK("+quoteLiteral(lockName(strings.ToLower(database), ""))+", 5)")
	if err != nil {
		return nil, fmt.Errorf("lock the tables tailbox_* against another init: %w", err)
	}
	if locked[0][0] != "1" {
		return nil, fmt.Errorf("lock the tables tailbox_* against another init: one is running: try again when it has ended")
	}
	list := migrations()
	var made []string
	for _, name := range []string{"tailbox_checkpoint", "tailbox_parked", "tailbox_request"} {
		missing, err := tableMissing(ctx, s, c.Schema, name)
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
		if list = (store.Schema{Migration: number}).Pending(list); len(list) == 0 {
			return nil, nil
		}
		made = []string{"updated tables tailbox_*: " + store.MigrationNames(list)}
	}
	for _, m := range append(list, record()) {
		for _, step := range statementsOf(m) {
			if err := step.run(ctx, s, c.Schema); err != nil {
				return nil, fmt.Errorf("update tables tailbox_* (%s): %w%s", m.Name, err, ddlCure(err))
			}
		}
	}
	return made, nil
}

func (s *statement) run(ctx context.Context, conn *session, schema string) error {
	if s.view != "" {
		if there, err := conn.texts(ctx, "SELECT 1 "+s.made(schema)); err != nil || len(there) > 0 {
			return err
		}
	}
	_, err := conn.exec(ctx, tableNames(schema).expand(s.sql))
	return err
}

// lastMigration returns the number of the last migration that was run on the relay's tables.
func lastMigration(ctx context.Context, s *session, schema string) (int, error) {
	rows, err := s.texts(ctx, "SELECT COALESCE(MAX(COLUMN_DEFAULT), '0') FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "+inSchema(schema)+
		" AND TABLE_NAME = 'tailbox_checkpoint' AND COLUMN_NAME = 'migration'")
	if err != nil {
		return 0, fmt.Errorf("look for the last migration of the tables tailbox_*: %w", err)
	}
	number, err := strconv.Atoi(rows[0][0])
	return max(number, 1), err
}

// schemaOf returns what was done to the relay's tables, which are there.
func schemaOf(ctx context.Context, s *session, schema string) (state store.Schema, err error) {
	if state.Migration, err = lastMigration(ctx, s, schema); err != nil {
		return state, err
	}
	rows, err := s.texts(ctx, "SELECT COALESCE(MAX(schema_version), 0) FROM "+tableNames(schema).checkpoint)
	if err != nil {
		return state, storeFault("look at the version of the tables tailbox_*", err)
	}
	state.Version, err = strconv.Atoi(rows[0][0])
	return state, err
}

// current refuses tables that lack migrations, whose columns and indexes statements name, and tables that mean something else.
func current(ctx context.Context, s *session, schema string) error {
	state, err := schemaOf(ctx, s, schema)
	if err != nil {
		return err
	}
	if err := state.Refusal(migrations()); err != nil {
		return fmt.Errorf("%w: database %s: %w", source.ErrStop, schema, err)
	}
	return nil
}
