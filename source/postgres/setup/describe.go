package setup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store/report"
)

const (
	// describeColumns reads the columns of a table. A domain is what its base type is. A sequence with a cache gives each session numbers of its own, which do
	// not grow with time.
	describeColumns = `
SELECT a.attname, format_type(a.atttypid, a.atttypmod), b.typname, b.typcategory::text, a.attgenerated <> '', a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
	(a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid), '') LIKE 'nextval(%') AND NOT EXISTS (SELECT FROM pg_sequence s JOIN pg_depend u
		ON u.classid = 'pg_attrdef'::regclass AND u.objid = d.oid AND u.refobjid = s.seqrelid
		OR u.classid = 'pg_class'::regclass AND u.objid = s.seqrelid AND u.refobjid = a.attrelid AND u.refobjsubid = a.attnum WHERE s.seqcache > 1),
	ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]),
	ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = b.oid ORDER BY e.enumsortorder)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`
	// describeChecks reads the CHECK constraints of several columns.
	describeChecks = `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1 AND contype = 'c' AND cardinality(conkey) > 1 ORDER BY conname`
	// describeUnique reads the unique indexes of all rows.
	describeUnique = `
SELECT i.indisprimary, ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (n, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
	WHERE k.place <= i.indnkeyatts ORDER BY k.place)
FROM pg_index i WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL ORDER BY i.indisprimary DESC, i.indexrelid`
)

// Describe reads what the server says about a table, and some of its rows.
func Describe(ctx context.Context, cfg session.Config, schema, name string) (t *report.Table, err error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	if err := session.Exec(ctx, conn.PgConn(), session.AllRows); err != nil {
		return nil, fmt.Errorf("set up session: %w", err)
	}
	t = &report.Table{Name: name, Quote: `"`}
	var id uint32
	err = conn.QueryRow(ctx, `SELECT c.oid, n.nspname, coalesce((SELECT inhparent::regclass::text FROM pg_inherits WHERE c.relispartition AND inhrelid = c.oid), '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND c.oid = `+
		session.PathOf(conn.PgConn()).Find(&outbox.Table{Schema: schema, Name: name})).Scan(&id, &t.Schema, &t.Parent)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, columns.Unknown(&outbox.Table{Schema: schema, Name: name}, "this role must not see it: write the name as it is in the database, with its schema and capitals",
			func(t *outbox.Table) ([]string, error) { return tablesBeside(ctx, conn, t) })
	case err != nil:
		return nil, fmt.Errorf("look for table %s: %w", name, err)
	}
	if err = readColumns(ctx, conn, t, id); err == nil {
		err = readRows(ctx, conn, t)
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s.%s: %w", t.Schema, t.Name, err)
	}
	return t, nil
}

func readColumns(ctx context.Context, conn *pgx.Conn, t *report.Table, id uint32) error {
	rows, err := conn.Query(ctx, describeColumns, id)
	if err != nil {
		return err
	}
	var c report.Column
	var base, category string
	if _, err := pgx.ForEachRow(rows, []any{&c.Name, &c.Type, &base, &category, &c.Generated, &c.NotNull, &c.Default, &c.Numbered, &c.Checks, &c.Labels}, func() error {
		if c.Class = classOf(base, category); c.Generated { // the log does not hold it
			c.Class, c.Labels, c.Type = report.Other, nil, c.Type+" GENERATED"
		}
		t.Columns = append(t.Columns, c)
		c.Checks, c.Labels = nil, nil
		return nil
	}); err != nil {
		return err
	}
	if rows, err = conn.Query(ctx, describeChecks, id); err != nil {
		return err
	}
	if t.Checks, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	if rows, err = conn.Query(ctx, describeUnique, id); err != nil {
		return err
	}
	var primary bool
	var names []string
	_, err = pgx.ForEachRow(rows, []any{&primary, &names}, func() error {
		t.Primary = t.Primary || primary
		t.Unique = append(t.Unique, names)
		names = nil
		return nil
	})
	return err
}

func classOf(base, category string) report.Class {
	switch base {
	case "json", "jsonb":
		return report.JSON
	case "bytea":
		return report.Binary
	case "uuid":
		return report.UUID
	case "timestamptz":
		return report.Time
	case "timestamp":
		return report.LocalTime
	case "oid":
		return report.Other
	}
	switch category {
	case "N":
		return report.Number
	case "S":
		return report.Text
	case "B":
		return report.Bool
	}
	return report.Other
}

// readRows looks at some rows, and counts the values of columns that have few.
func readRows(ctx context.Context, conn *pgx.Conn, t *report.Table) error {
	from := sqltext.Ident(t.Schema) + "." + sqltext.Ident(t.Name)
	var texts, ahead []string
	for i := range t.Columns {
		name, later := sqltext.Ident(t.Columns[i].Name), "false"
		text := fmt.Sprintf("left(%s::text, %d)", name, report.SampleLength)
		switch c := t.Columns[i].Class; {
		case c == report.Binary:
			text = fmt.Sprintf("encode(substring(%s::bytea, 1, %d), 'hex')", name, report.SampleLength)
		case c == report.Other && len(t.Columns[i].Labels) == 0:
			text = fmt.Sprintf("CASE WHEN %s IS NOT NULL THEN '' END", name)
		case c == report.Time:
			later = name + " > now()"
		case c == report.LocalTime:
			later = fmt.Sprintf("%s > now() + interval '%d hours'", name, report.HoursAhead)
		}
		texts, ahead = append(texts, text), append(ahead, later)
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT ARRAY[%s]::text[], ARRAY[%s]::bool[] FROM %s LIMIT %d", strings.Join(texts, ", "), strings.Join(ahead, ", "), from, report.SampleRows))
	if err != nil {
		return err
	}
	var row []*string
	var later []*bool
	if _, err := pgx.ForEachRow(rows, []any{&row, &later}, func() error {
		t.Rows++
		for i := range min(len(row), len(t.Columns)) {
			c := &t.Columns[i]
			if row[i] == nil {
				c.Nulls++
				continue
			}
			if c.Ahead = c.Ahead || later[i] != nil && *later[i]; c.Class == report.Other && len(c.Labels) == 0 {
				continue
			}
			text := *row[i]
			if c.Class == report.Binary {
				b, err := hex.DecodeString(text)
				if err != nil {
					return fmt.Errorf("read column %s: %w", c.Name, err)
				}
				text = string(b)
			}
			c.Look(text)
		}
		return nil
	}); err != nil {
		return err
	}
	return t.Count(func(c *report.Column) ([]report.Value, error) {
		rows, err := conn.Query(ctx, fmt.Sprintf("SELECT left(v, %d), count(*) FROM (SELECT %s::text AS v FROM %s LIMIT %d) s WHERE v IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %d",
			report.SampleLength, sqltext.Ident(c.Name), from, report.CountedRows, report.FewValues+1))
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToStructByPos[report.Value])
	})
}
