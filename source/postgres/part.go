package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
)

// A tablePart is a partition or an inheritance child of a table, at any depth.
type tablePart struct {
	oid  uint32
	name string // quoted, with its schema
	// logged: it holds rows, and these are in the log once they are published.
	logged bool
}

// readParts lists all partitions and children, for rows that the log names by their leaf.
func (t *tableInfo) readParts(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := queryText(ctx, conn, `WITH RECURSIVE p AS (`+
		`SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = `+strconv.FormatUint(uint64(t.oid), 10)+
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
		t.parts = append(t.parts, tablePart{oid, quoteIdent(r[1]) + "." + quoteIdent(r[2]), r[3] == "t"})
	}
	return nil
}

// oids are those of the table and its parts.
func (t *tableInfo) oids() []uint32 {
	list := []uint32{t.oid}
	for i := range t.parts {
		list = append(list, t.parts[i].oid)
	}
	return list
}

// unpublished are the inheritance children that a publication does not hold: it takes a table with the children that there are at that
// time. Partitions are published by their root.
func (t *tableInfo) unpublished(published published) (names []string) {
	for i := range t.parts {
		if p := &t.parts[i]; !t.partitioned && p.logged && !published.holds(p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// unpublishedChild tells what is wrong where the publication lacks an inheritance child, and its cure.
func (c *Config) unpublishedChild(t *tableInfo, child string) (what, cure string) {
	pub := quoteIdent(c.Publication)
	return fmt.Sprintf("publication %s does not hold table %s, which inherits from %s, so its rows would come late and out of order", c.Publication, child, t),
		fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s, or tailbox init; or ALTER TABLE %s NO INHERIT %s, if its rows are no messages", pub, child, child, tableName(&t.Table))
}

// childrenHeld refuses a publication that lacks an inheritance child of a table.
func (c *Config) childrenHeld(t *tableInfo, published published) error {
	for _, child := range t.unpublished(published) {
		what, cure := c.unpublishedChild(t, child)
		return fmt.Errorf("check tables: %s: %s: %w", what, cure, source.ErrStop)
	}
	return nil
}
