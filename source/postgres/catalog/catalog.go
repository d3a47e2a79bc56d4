// Package catalog is the model of a user's outbox tables: what the server's catalog and the publication say about them, which of their rows are
// pending, and how values of their columns are decoded, whether these come from the log or from a query.
package catalog

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// A Table is what the catalog says about a configured table now.
type Table struct {
	outbox.Table        // with its Schema resolved
	OID          uint32 // of the table, or of the root of the partitions
	IsTable      bool   // not a view, for one
	Partitioned  bool
	Permanent    bool // neither unlogged nor temporary: those are not in the log
	Cols         []TableColumn
	// intact: no column was ever dropped, and none is generated. Then, if no column list leaves some out and the log announces no more columns than
	// Cols has, the log's columns are the first of Cols, even if renamed.
	intact bool
	// parts are all partitions and inheritance children.
	parts []part
}

// A TableColumn is a column as the catalog describes it.
type TableColumn struct {
	Column
	typeOID   uint32 // as declared; a domain has its own, kind is that of its base type
	Generated bool
	modifier  int // of kind; of a domain, that of its base type
}

// Column finds a column by name.
func (t *Table) Column(name string) (TableColumn, bool) {
	for _, c := range t.Cols {
		if c.Name == name {
			return c, true
		}
	}
	return TableColumn{}, false
}

// Unfound returns an error that matches source.ErrStop if the configuration names a column for the relay to write that the table has not.
func (t *Table) Unfound() error {
	names := make([]string, len(t.Cols))
	for i := range t.Cols {
		names[i] = t.Cols[i].Name
	}
	return columns.Unfound(&t.Table, names, func(a, b string) bool { return a == b })
}

// PlainColumns lists the columns for NewPlan.
func (t *Table) PlainColumns() []Column {
	cols := make([]Column, len(t.Cols))
	for i, c := range t.Cols {
		cols[i] = c.Column
	}
	return cols
}

// Describe looks a configured table up. It runs on any kind of connection. A missing table is an error that matches
// source.ErrStop.
func Describe(ctx context.Context, conn *pgconn.PgConn, t *outbox.Table) (*Table, error) {
	rows, err := session.Query(ctx, conn, `SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence FROM pg_catalog.pg_class c `+
		`JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = `+session.PathOf(conn).Find(t))
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", sqltext.Table(t), err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("look up table %s: it does not exist (dropped or renamed?): "+
			"restore it, or change source.tables and run tailbox init: %w", sqltext.Table(t), source.ErrNoTable)
	}
	kind := rows[0][3]
	info := &Table{Table: *t, IsTable: kind == "r" || kind == "p", Partitioned: kind == "p", Permanent: rows[0][4] == "p"}
	info.Schema, info.Name = rows[0][1], rows[0][2]
	if info.OID, err = parseOID(rows[0][0]); err != nil {
		return nil, err
	}
	if err := info.readColumns(ctx, conn); err != nil {
		return nil, err
	}
	return info, info.readParts(ctx, conn)
}

// readColumns lists the columns with the base types of their domains.
func (t *Table) readColumns(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := session.Query(ctx, conn, `WITH RECURSIVE c AS (`+
		`SELECT a.attnum, a.attname, a.atttypid, t.oid, t.typtype, t.typbasetype, t.typsend, a.attgenerated, a.atttypmod AS modifier, t.typtypmod FROM pg_catalog.pg_attribute a `+
		`JOIN pg_catalog.pg_type t ON t.oid = a.atttypid `+
		`WHERE a.attrelid = `+strconv.FormatUint(uint64(t.OID), 10)+` AND a.attnum > 0 AND NOT a.attisdropped `+
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
		t.Cols = append(t.Cols, TableColumn{NewColumn(r[0], kindOf(base, r[3], r[4]), modifier), declared, r[6] != "", modifier})
	}
	return nil
}

// kindOf is the kind of a type that is no domain: by its oid, or, for types of the database's own, by how it is sent.
// Enums and types like citext are sent as their text.
func kindOf(oid uint32, typtype, send string) Kind {
	if k, ok := BuiltinKind(oid); ok {
		return k
	}
	if typtype == "e" || send == "textsend" || send == "citextsend" || strings.HasSuffix(send, ".citextsend") {
		return KindText
	}
	return KindOther
}

// DescribeType finds the kind of a type by its oid, and the modifier that a domain gives it, or -1. A type that is gone is KindOther.
func DescribeType(ctx context.Context, conn *pgconn.PgConn, oid uint32) (k Kind, modifier int, err error) {
	rows, err := session.Query(ctx, conn, `WITH RECURSIVE c AS (`+
		`SELECT oid, typtype, typbasetype, typsend, -1 AS modifier, typtypmod FROM pg_catalog.pg_type WHERE oid = `+strconv.FormatUint(uint64(oid), 10)+
		` UNION ALL SELECT t.oid, t.typtype, t.typbasetype, t.typsend, greatest(c.modifier, c.typtypmod), t.typtypmod FROM c `+
		`JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype WHERE c.typtype = 'd') `+
		`SELECT oid, typtype, typsend, modifier FROM c WHERE typtype <> 'd'`)
	if err != nil {
		return KindOther, -1, fmt.Errorf("look up type %d: %w", oid, err)
	}
	if len(rows) == 0 {
		return KindOther, -1, nil
	}
	base, err := parseOID(rows[0][0])
	if err == nil {
		modifier, err = strconv.Atoi(rows[0][3])
	}
	if err != nil {
		return KindOther, -1, err
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
