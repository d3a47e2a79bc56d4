package postgres

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations make the relay's tables, and bring those of an earlier version up to date.
func migrations() []store.Migration { return store.ReadMigrations(migrationFiles) }

// ownTables is a script that runs all migrations. It can be run on tables of whatever age.
func (n names) ownTables() string { return n.script(migrations()) }

// script runs migrations up to the last one there is, and records it: in the column's default, which every role can read and which
// rows that come later get, and in the rows that are there.
func (n names) script(list []store.Migration) string {
	var b strings.Builder
	for _, m := range list {
		b.WriteString("-- " + m.Name + "\n" + n.expand(m.Text) + "\n")
	}
	fmt.Fprintf(&b, "ALTER TABLE %[1]s ALTER COLUMN migration SET DEFAULT %[2]d;\nUPDATE %[1]s SET migration = %[2]d WHERE migration OPERATOR(pg_catalog.<>) %[2]d;\n",
		n.checkpoint, len(migrations()))
	return b.String()
}

// lastMigration returns the number of the last migration that was run on the relay's tables, which are there.
func (n names) lastMigration(ctx context.Context, conn *pgx.Conn) (number int, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(min(pg_get_expr(d.adbin, d.adrelid)::int), 0) FROM pg_attribute a
		JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = to_regclass($1) AND a.attname = 'migration' AND NOT a.attisdropped`, n.checkpoint).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("look for the last migration of table %s: %w", n.checkpoint, err)
	}
	return max(number, 1), nil
}

// stateOf returns what was done to the relay's tables, which are there.
func (n names) stateOf(ctx context.Context, conn *pgx.Conn) (s store.Schema, err error) {
	if s.Migration, err = n.lastMigration(ctx, conn); err != nil {
		return s, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(schema_version), 0) FROM "+n.checkpoint).Scan(&s.Version)
	if err != nil {
		return s, storeFault("look at the version of table "+n.checkpoint, err)
	}
	return s, nil
}

// current refuses tables that lack migrations, whose columns statements name, and tables that mean something else.
func (s *stateStore) current(ctx context.Context) error {
	state, err := s.names.stateOf(ctx, s.conn)
	if err != nil {
		return err
	}
	if err := state.Refusal(migrations()); err != nil {
		return fmt.Errorf("%w: schema %q: %w", source.ErrStop, s.schema, err)
	}
	return nil
}
