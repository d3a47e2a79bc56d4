package usertable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store"
)

// A Table is an outbox table as the database has it.
type Table struct {
	outbox.Table // Schema is set
	// SQL is the quoted name.
	SQL string
	// ID tells how the id column is compared.
	ID idType
	// Types are the columns' types, with their length limits, as format_type says, by name.
	Types map[string]string
	// Bases are the columns' types without length limits; for a domain, its base type.
	Bases map[string]string
	// required columns cannot be NULL.
	required map[string]bool
	// View is what its columns and configuration let the relay do with its rows.
	View store.TableView
	// PendingIndex: an index leads to pending rows without reading the others.
	PendingIndex bool
}

// Tables by their qualified name, as Message.Table has it; order is that of the configuration.
type Tables struct {
	ByName map[string]*Table
	Order  []*Table
}

// tablesQuery finds a table and its columns. Domains are followed to their base type, which is what ids are compared
// as. The type modifier -1 asks for the name of the type without any length: "character" alone would mean one character.
const tablesQuery = `
WITH RECURSIVE rel AS (
	SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {table}
), col AS (
	SELECT a.attname, a.atttypid AS typ, a.attnotnull, format_type(a.atttypid, a.atttypmod) AS full_type
	FROM rel JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
), base AS (
	SELECT attname, attnotnull, full_type, typ FROM col
	UNION ALL
	SELECT b.attname, b.attnotnull, b.full_type, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typ AND t.typtype = 'd'
)
SELECT rel.nspname, rel.relname, b.attname, b.full_type, format_type(b.typ, -1), b.attnotnull
FROM rel JOIN base b ON NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = b.typ AND t.typtype = 'd')`

// PendingIndexQuery reports whether an index leads to the pending rows of a table: one that starts with the column that
// says so, or that is limited by it.
const PendingIndexQuery = `
SELECT EXISTS (
	SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = $2
	WHERE i.indrelid = to_regclass($1) AND i.indisvalid
		AND (i.indkey[0] = a.attnum OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || quote_ident($2) || '%'))`

// ResolveAll finds the configured tables. A missing one is an error only an operator can mend.
func ResolveAll(ctx context.Context, conn *pgx.Conn, cfg *session.Config) (Tables, error) {
	ts := Tables{ByName: make(map[string]*Table, len(cfg.Tables))}
	var missing []error
	for i := range cfg.Tables {
		t, err := Resolve(ctx, conn, cfg.Tables[i])
		if err != nil {
			return Tables{}, err
		}
		if t == nil {
			missing = append(missing, store.NoTable(sqltext.Table(&cfg.Tables[i])))
			continue
		}
		if !cfg.Poll {
			if u, err := t.Moved(ctx, conn); err != nil {
				return Tables{}, err
			} else if u != nil {
				return Tables{}, u
			}
		}
		ts.ByName[t.String()] = t
		ts.Order = append(ts.Order, t)
	}
	return ts, errors.Join(missing...)
}

// Resolve looks a table up; nil if it does not exist.
func Resolve(ctx context.Context, conn *pgx.Conn, conf outbox.Table) (*Table, error) {
	t := &Table{Table: conf, Types: make(map[string]string), Bases: make(map[string]string), required: make(map[string]bool)}
	rows, err := conn.Query(ctx, strings.Replace(tablesQuery, "{table}", session.PathOf(conn.PgConn()).Find(&conf), 1))
	if err != nil {
		return nil, pgerr.Fault("look up table "+conf.Name, err)
	}
	var column, full, base, idBase string
	var required bool
	if _, err = pgx.ForEachRow(rows, []any{&t.Schema, &t.Name, &column, &full, &base, &required}, func() error {
		t.Types[column], t.Bases[column], t.required[column] = full, base, required
		if column == conf.Columns.ID {
			idBase = base
		}
		return nil
	}); err != nil {
		return nil, pgerr.Fault("look up table "+conf.Name, err)
	}
	if len(t.Types) == 0 {
		return nil, nil
	}
	if idBase == "" {
		return nil, fmt.Errorf("%w: table %s has no column %q for the message's id: correct columns.id", source.ErrStop, t, conf.Columns.ID)
	}
	t.ID, t.SQL = idTypeOf(idBase), sqltext.Table(&t.Table)
	if err := t.ID.findOperators(ctx, conn, idBase); err != nil {
		return nil, pgerr.Fault("look at the id of table "+conf.Name, err)
	}
	if err := t.identifies(ctx, conn, idBase); err != nil {
		return nil, err
	}
	t.Words = columns.Words(&t.Table)
	if err := columns.Unfound(&t.Table, slices.Collect(maps.Keys(t.Types)), func(a, b string) bool { return a == b }); err != nil {
		return nil, err
	}
	columns.DropMissing(&t.Table, func(name string) bool { return t.Types[name] != "" })
	if faults, err := WordFaults(ctx, conn, &t.Table, t.Types[t.Columns.Status]); err != nil {
		return nil, pgerr.Fault("look at words of table "+conf.Name, err)
	} else if len(faults) > 0 {
		return nil, fmt.Errorf("%w: table %s: %s", source.ErrStop, t, strings.Join(faults, "; "))
	}
	if err := t.settable(ctx, conn); err != nil {
		return nil, err
	}
	t.View = store.ViewOf(&t.Table)
	if base := t.Types[conf.Columns.Receipt]; t.View.Receipts && base != "text" && !strings.HasPrefix(base, "character") {
		return nil, fmt.Errorf("%w: table %s has no column %q of type text for receipts: ALTER TABLE %s ADD COLUMN %s text, or correct columns.receipt",
			source.ErrStop, t, conf.Columns.Receipt, t.SQL, sqltext.Ident(conf.Columns.Receipt))
	}
	if column = t.Columns.Status; column == "" {
		column = t.Columns.DeliveredAt
	}
	if column != "" {
		if err := conn.QueryRow(ctx, PendingIndexQuery, t.SQL, column).Scan(&t.PendingIndex); err != nil {
			return nil, pgerr.Fault("look up indexes of table "+conf.Name, err)
		}
	}
	return t, nil
}

// col is the quoted name of a configured column that the table has; "" if it has none.
func (t *Table) col(name string) string {
	if _, ok := t.Types[name]; !ok {
		return ""
	}
	return sqltext.Ident(name)
}
