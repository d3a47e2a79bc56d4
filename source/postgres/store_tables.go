package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A table is an outbox table as the database has it.
type table struct {
	outbox.Table // Schema is set
	// sql is the quoted name.
	sql string
	// id tells how the id column is compared.
	id idType
	// types are the columns' types, with their length limits, as format_type says, by name.
	types map[string]string
	// bases are the columns' types without length limits, a domain's own type for it.
	bases map[string]string
	// required columns cannot be NULL.
	required map[string]bool
	// view is what its columns and configuration let the relay do with its rows.
	view store.TableView
	// pendingIndex: an index leads to pending rows without reading the others.
	pendingIndex bool
}

// tables by their qualified name, as Message.Table has it; order is that of the configuration.
type tables struct {
	byName map[string]*table
	order  []*table
}

// An idType says how ids travel: as uuid, as bigint (for all integers), or as text that the server casts.
type idType struct {
	wire string // uuid, int8 or text
	cast string // the array's type in SQL
	// exact: two ids are equal if and only if their texts are (or, for integers and uuids, what these stand for).
	exact bool
	// equals and above are the operators of the type, with their schema: an extension has its own.
	equals, above string
}

// idTypeOf chooses the type by the base type of the column.
func idTypeOf(base string) idType {
	switch base {
	case "uuid":
		return idType{"uuid", "pg_catalog.uuid[]", true, equals, above}
	case "smallint", "integer", "bigint":
		return idType{"int8", "pg_catalog.int8[]", true, equals, above}
	case "text", "character varying":
		return idType{"text", "pg_catalog.text[]", true, equals, above}
	default:
		return idType{"text", "pg_catalog.text[]::" + pgType(base) + "[]", false, equals, above}
	}
}

// findOperators finds those of a type that is not the server's own, by which its btree indexes are ordered.
func (t *idType) findOperators(ctx context.Context, conn *pgx.Conn, base string) error {
	if !strings.Contains(base, ".") {
		return nil
	}
	rows, err := conn.Query(ctx, `SELECT ' OPERATOR(' || quote_ident(n.nspname) || '.' || o.oprname || ') ', a.amopstrategy = 3
		FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
		JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype AND a.amopstrategy IN (3, 5)
		JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
		WHERE c.opcdefault AND c.opcintype = to_regtype($1)`, base)
	if err != nil {
		return err
	}
	var operator string
	var equality bool
	_, err = pgx.ForEachRow(rows, []any{&operator, &equality}, func() error {
		if equality {
			t.equals = operator
		} else {
			t.above = operator
		}
		return nil
	})
	return err
}

// array is the ids as a parameter of the type.
func (t idType) array(ids []string) (any, error) {
	switch t.wire {
	case "uuid":
		out := make(uuids, len(ids))
		for i, id := range ids {
			u, err := parseUUID(id)
			if err != nil {
				return nil, err
			}
			out[i] = u
		}
		return out, nil
	case "int8":
		out := make([]int64, len(ids))
		for i, id := range ids {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read id as bigint: %w", err)
			}
			out[i] = n
		}
		return out, nil
	default:
		return ids, nil
	}
}

// fits tells whether an id can be one of the column's. Where the column's type was changed, ids from before may be none.
func (t idType) fits(id string) bool {
	var err error
	switch t.wire {
	case "uuid":
		_, err = parseUUID(id)
	case "int8":
		_, err = strconv.ParseInt(id, 10, 64)
	}
	return err == nil
}

// findable tells whether the row of a message can be in the table under its id.
func (t *table) findable(id string) bool { return !outbox.IsStandInID(id) && t.id.fits(id) }

// binary is the id as the server sends it.
func (t idType) binary(id string) (string, error) {
	switch t.wire {
	case "uuid":
		u, err := parseUUID(id)
		return string(u[:]), err
	case "int8":
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return "", fmt.Errorf("read id as bigint: %w", err)
		}
		return string(binary.BigEndian.AppendUint64(nil, uint64(n))), nil
	default:
		return id, nil
	}
}

func parseUUID(id string) ([16]byte, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return u, fmt.Errorf("read id %q as uuid: %w", id, err)
	}
	return u, nil
}

// uuids are a parameter of type uuid[], which is encoded without garbage.
type uuids [][16]byte

// Dimensions implements pgtype.ArrayGetter.
func (u uuids) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(u)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (u uuids) Index(i int) any { return (*uuidValue)(&u[i]) }

// IndexType implements pgtype.ArrayGetter.
func (uuids) IndexType() any { return (*uuidValue)(nil) }

type uuidValue [16]byte

// UUIDValue implements pgtype.UUIDValuer.
func (u *uuidValue) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: *u, Valid: true}, nil }

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

// pendingIndexQuery tells whether an index leads to the pending rows of a table: one that starts with the column that
// says so, or that is limited by it.
const pendingIndexQuery = `
SELECT EXISTS (
	SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = $2
	WHERE i.indrelid = to_regclass($1) AND i.indisvalid
		AND (i.indkey[0] = a.attnum OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || quote_ident($2) || '%'))`

// resolveTables finds the configured tables. A missing one is an error only an operator can mend.
func resolveTables(ctx context.Context, conn *pgx.Conn, cfg *Config) (tables, error) {
	ts := tables{byName: make(map[string]*table, len(cfg.Tables))}
	var missing []error
	for i := range cfg.Tables {
		t, err := resolveTable(ctx, conn, cfg.Tables[i])
		if err != nil {
			return tables{}, err
		}
		if t == nil {
			missing = append(missing, fmt.Errorf("%w: table %s does not exist: create it (tailbox init does where the shape is "+
				"debezium or tailbox), or correct source.tables", source.ErrNoTable, quoteTable(&cfg.Tables[i])))
			continue
		}
		if !cfg.Poll {
			if u, err := t.moved(ctx, conn); err != nil {
				return tables{}, err
			} else if u != nil {
				return tables{}, u
			}
		}
		ts.byName[t.String()] = t
		ts.order = append(ts.order, t)
	}
	return ts, errors.Join(missing...)
}

// resolveTable looks a table up; nil if it does not exist.
func resolveTable(ctx context.Context, conn *pgx.Conn, conf outbox.Table) (*table, error) {
	t := &table{Table: conf, types: make(map[string]string), bases: make(map[string]string), required: make(map[string]bool)}
	rows, err := conn.Query(ctx, strings.Replace(tablesQuery, "{table}", rolePathOf(conn.PgConn()).find(&conf), 1))
	if err != nil {
		return nil, storeFault("look up table "+conf.Name, err)
	}
	var column, full, base, idBase string
	var required bool
	if _, err = pgx.ForEachRow(rows, []any{&t.Schema, &t.Name, &column, &full, &base, &required}, func() error {
		t.types[column], t.bases[column], t.required[column] = full, base, required
		if column == conf.Columns.ID {
			idBase = base
		}
		return nil
	}); err != nil {
		return nil, storeFault("look up table "+conf.Name, err)
	}
	if len(t.types) == 0 {
		return nil, nil
	}
	if idBase == "" {
		return nil, fmt.Errorf("%w: table %s has no column %q for the message's id: correct columns.id", source.ErrStop, t, conf.Columns.ID)
	}
	t.id, t.sql = idTypeOf(idBase), quoteTable(&t.Table)
	if err := t.id.findOperators(ctx, conn, idBase); err != nil {
		return nil, storeFault("look at the id of table "+conf.Name, err)
	}
	if err := t.identifies(ctx, conn, idBase); err != nil {
		return nil, err
	}
	if t.Words == (outbox.Words{}) {
		t.Words = outbox.DefaultWords()
	}
	t.dropMissing()
	if faults, err := wordFaults(ctx, conn, &t.Table, t.types[t.Columns.Status]); err != nil {
		return nil, storeFault("look at words of table "+conf.Name, err)
	} else if len(faults) > 0 {
		return nil, fmt.Errorf("%w: table %s: %s", source.ErrStop, t, strings.Join(faults, "; "))
	}
	t.view = store.TableView{OnDelivered: t.OnDelivered, Words: t.Words, HasStatus: t.col(t.Columns.Status) != "",
		View: hasView(&t.Table), Viewable: t.viewable(), Updatable: t.updatable(), Receipts: conf.Columns.Receipt != ""}
	if base := t.types[conf.Columns.Receipt]; t.view.Receipts && base != "text" && !strings.HasPrefix(base, "character") {
		return nil, fmt.Errorf("%w: table %s has no column %q of type text for receipts: ALTER TABLE %s ADD COLUMN %s text, or correct columns.receipt",
			source.ErrStop, t, conf.Columns.Receipt, t.sql, quoteIdent(conf.Columns.Receipt))
	}
	if column = t.Columns.Status; column == "" {
		column = t.Columns.DeliveredAt
	}
	if column != "" {
		if err := conn.QueryRow(ctx, pendingIndexQuery, t.sql, column).Scan(&t.pendingIndex); err != nil {
			return nil, storeFault("look up indexes of table "+conf.Name, err)
		}
	}
	return t, nil
}

// dropMissing forgets the columns of the shape that this table has not, of those that only the relay writes: it does
// without them.
func (t *table) dropMissing() {
	c := &t.Columns
	for _, name := range []*string{&c.Status, &c.Attempts, &c.LastAttemptAt, &c.NextAttemptAt, &c.LastError, &c.DeliveredAt,
		&c.CreatedAt, &c.Seq, &c.Failures, &c.UpdatedAt} {
		if t.types[*name] == "" {
			*name = ""
		}
	}
}

// pending is the condition by which a row waits for its first delivery. A status that is NULL counts, unless delivered_at is set.
func (t *table) pending(prefix string) string {
	cond := pendingCondition(&t.Table, prefix)
	if t.Columns.Status != "" && !t.required[t.Columns.Status] {
		null := prefix + quoteIdent(t.Columns.Status) + " IS NULL"
		if delivered := t.col(t.Columns.DeliveredAt); delivered != "" {
			null += " AND " + prefix + delivered + " IS NULL"
		}
		cond = "(" + cond + " OR " + null + ")"
	}
	return cond + t.ours(prefix)
}

// col is the quoted name of a configured column that the table has; "" if it has none.
func (t *table) col(name string) string {
	if _, ok := t.types[name]; !ok {
		return ""
	}
	return quoteIdent(name)
}
