package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A tableInfo is what the catalog says about a configured table now.
type tableInfo struct {
	outbox.Table        // with its Schema resolved
	oid          uint32 // of the table, or of the root of the partitions
	table        bool   // not a view, for one
	partitioned  bool
	permanent    bool // neither unlogged nor temporary: those are not in the log
	columns      []tableColumn
	// intact: no column was ever dropped from among them, and none is generated. So where the log announced no more columns
	// than these, and no column list left some out, they were the first of these, whatever their names were.
	intact bool
	// parts are all partitions and inheritance children.
	parts []tablePart
}

type tableColumn struct {
	column
	typeOID   uint32 // as declared; a domain has its own, kind is that of its base type
	generated bool
	modifier  int // of kind; of a domain, that of its base type
}

// column finds a column by name.
func (t *tableInfo) column(name string) (tableColumn, bool) {
	for _, c := range t.columns {
		if c.name == name {
			return c, true
		}
	}
	return tableColumn{}, false
}

// plainColumns lists the columns for newPlan.
func (t *tableInfo) plainColumns() []column {
	cols := make([]column, len(t.columns))
	for i, c := range t.columns {
		cols[i] = c.column
	}
	return cols
}

// tableName is the quoted name of a table as configured: without schema where none is, for the search path to find.
func tableName(t *outbox.Table) string {
	if t.Schema == "" {
		return quoteIdent(t.Name)
	}
	return quoteIdent(t.Schema) + "." + quoteIdent(t.Name)
}

// describeTable looks a configured table up. It runs on any kind of connection. A missing table is an error that matches
// source.ErrStop.
func describeTable(ctx context.Context, conn *pgconn.PgConn, t *outbox.Table) (*tableInfo, error) {
	rows, err := queryText(ctx, conn, `SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence FROM pg_catalog.pg_class c `+
		`JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = `+rolePathOf(conn).find(t))
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", tableName(t), err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("look up table %s: it does not exist (dropped or renamed?): "+
			"restore it, or change source.tables and run tailbox init: %w", tableName(t), source.ErrNoTable)
	}
	kind := rows[0][3]
	info := &tableInfo{Table: *t, table: kind == "r" || kind == "p", partitioned: kind == "p", permanent: rows[0][4] == "p"}
	info.Schema, info.Name = rows[0][1], rows[0][2]
	if info.oid, err = parseOID(rows[0][0]); err != nil {
		return nil, err
	}
	if err := info.readColumns(ctx, conn); err != nil {
		return nil, err
	}
	return info, info.readParts(ctx, conn)
}

// readColumns lists the columns with the base types of their domains.
func (t *tableInfo) readColumns(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := queryText(ctx, conn, `WITH RECURSIVE c AS (`+
		`SELECT a.attnum, a.attname, a.atttypid, t.oid, t.typtype, t.typbasetype, t.typsend, a.attgenerated, a.atttypmod AS modifier, t.typtypmod FROM pg_catalog.pg_attribute a `+
		`JOIN pg_catalog.pg_type t ON t.oid = a.atttypid `+
		`WHERE a.attrelid = `+strconv.FormatUint(uint64(t.oid), 10)+` AND a.attnum > 0 AND NOT a.attisdropped `+
		`UNION ALL SELECT c.attnum, c.attname, c.atttypid, t.oid, t.typtype, t.typbasetype, t.typsend, c.attgenerated, greatest(c.modifier, c.typtypmod), t.typtypmod FROM c `+
		`JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype WHERE c.typtype = 'd') `+
		`SELECT attname, atttypid, oid, typtype, typsend, attnum, attgenerated, modifier FROM c WHERE typtype <> 'd' ORDER BY attnum`)
	if err != nil {
		return fmt.Errorf("look up columns of %s: %w", t, err)
	}
	t.intact = true
	for i, r := range rows {
		t.intact = t.intact && r[5] == strconv.Itoa(i+1) && r[6] == ""
		declared, err1 := parseOID(r[1])
		base, err2 := parseOID(r[2])
		modifier, err3 := strconv.Atoi(r[7])
		if err1 != nil || err2 != nil || err3 != nil {
			return fmt.Errorf("look up columns of %s: a type has the oid %q, %q and the modifier %q", t, r[1], r[2], r[7])
		}
		t.columns = append(t.columns, tableColumn{newColumn(r[0], kindOf(base, r[3], r[4]), modifier), declared, r[6] != "", modifier})
	}
	return nil
}

// kindOf is the kind of a type that is no domain: by its oid, or, for types of the database's own, by how it is sent.
// Enums and types like citext are sent as their text.
func kindOf(oid uint32, typtype, send string) kind {
	if k, ok := builtinKind(oid); ok {
		return k
	}
	if typtype == "e" || send == "textsend" || send == "citextsend" || strings.HasSuffix(send, ".citextsend") {
		return kindText
	}
	return kindOther
}

// describeType finds the kind of a type by its oid, and the modifier that a domain gives it, or -1. A type that is gone is kindOther.
func describeType(ctx context.Context, conn *pgconn.PgConn, oid uint32) (k kind, modifier int, err error) {
	rows, err := queryText(ctx, conn, `WITH RECURSIVE c AS (`+
		`SELECT oid, typtype, typbasetype, typsend, -1 AS modifier, typtypmod FROM pg_catalog.pg_type WHERE oid = `+strconv.FormatUint(uint64(oid), 10)+
		` UNION ALL SELECT t.oid, t.typtype, t.typbasetype, t.typsend, greatest(c.modifier, c.typtypmod), t.typtypmod FROM c `+
		`JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype WHERE c.typtype = 'd') `+
		`SELECT oid, typtype, typsend, modifier FROM c WHERE typtype <> 'd'`)
	if err != nil {
		return kindOther, -1, fmt.Errorf("look up type %d: %w", oid, err)
	}
	if len(rows) == 0 {
		return kindOther, -1, nil
	}
	base, err := parseOID(rows[0][0])
	if err == nil {
		modifier, err = strconv.Atoi(rows[0][3])
	}
	if err != nil {
		return kindOther, -1, err
	}
	return kindOf(base, rows[0][1], rows[0][2]), modifier, nil
}

func parseOID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read oid %q: %w", s, err)
	}
	return uint32(n), nil
}
