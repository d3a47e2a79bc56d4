package catalog

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// A part is a partition or an inheritance child of a table, at any depth.
type part struct {
	oid  uint32
	name string // quoted, with its schema
	// logged: it holds rows, and these are in the log once they are published.
	logged bool
}

// readParts lists all partitions and children, for rows that the log names by their leaf.
func (t *Table) readParts(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := session.Query(ctx, conn, `WITH RECURSIVE p AS (`+
		`SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = `+strconv.FormatUint(uint64(t.OID), 10)+
		` UNION SELECT i.inhrelid FROM p JOIN pg_catalog.pg_inherits i ON i.inhparent = p.inhrelid) `+
		`SELECT c.oid, n.nspname, c.relname, c.relkind = 'r' AND c.relpersistence = 'p' FROM p JOIN pg_catalog.pg_class c ON c.oid = p.inhrelid `+
		`JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY 2, 3`)
	if err != nil {
		return fmt.Errorf("look up partitions of %s: %w", t, err)
	}
	for _, r := range rows {
		oid, err := parseOID(r[0])
		if err != nil {
			return err
		}
		t.parts = append(t.parts, part{oid, sqltext.Ident(r[1]) + "." + sqltext.Ident(r[2]), r[3] == "t"})
	}
	return nil
}

// OIDs are those of the table and its parts.
func (t *Table) OIDs() []uint32 {
	list := []uint32{t.OID}
	for i := range t.parts {
		list = append(list, t.parts[i].oid)
	}
	return list
}
