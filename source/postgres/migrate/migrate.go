// Package migrate names the relay's own tables, tailbox_checkpoint, tailbox_parked and tailbox_request, and brings them up to date.
package migrate

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/store/migration"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// All make the relay's tables, and bring those of an earlier version up to date.
func All() []migration.Step { return migration.Read(migrationFiles) }

// Script is a script that runs all migrations. It can be run on tables of whatever age.
func (n Tables) Script() string { return n.ScriptOf(All()) }

// ScriptOf returns a script that runs the migrations in list, and records the last one there is: in the rows, and in the column's default, which
// later rows get and every role can read.
func (n Tables) ScriptOf(list []migration.Step) string {
	var b strings.Builder
	for _, m := range list {
		b.WriteString("-- " + m.Name + "\n" + n.Expand(m.Text) + "\n")
	}
	fmt.Fprintf(&b, "ALTER TABLE %[1]s ALTER COLUMN migration SET DEFAULT %[2]d;\nUPDATE %[1]s SET migration = %[2]d WHERE migration OPERATOR(pg_catalog.<>) %[2]d;\n",
		n.Checkpoint, len(All()))
	return b.String()
}

// Last returns the number of the last migration that was run on the relay's tables, which are there.
func (n Tables) Last(ctx context.Context, conn *pgx.Conn) (number int, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(min(pg_get_expr(d.adbin, d.adrelid)::int), 0) FROM pg_attribute a
		JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = to_regclass($1) AND a.attname = 'migration' AND NOT a.attisdropped`, n.Checkpoint).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("look for the last migration of table %s: %w", n.Checkpoint, err)
	}
	return max(number, 1), nil
}

// State returns what was done to the relay's tables, which are there.
func (n Tables) State(ctx context.Context, conn *pgx.Conn) (s migration.State, err error) {
	if s.Migration, err = n.Last(ctx, conn); err != nil {
		return s, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(schema_version), 0) FROM "+n.Checkpoint).Scan(&s.Version)
	if err != nil {
		return s, pgerr.Fault("look at the version of table "+n.Checkpoint, err)
	}
	return s, nil
}
