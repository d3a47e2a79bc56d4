package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// A View is what the server said about the configured tables and the publication at one time. Immutable.
type View struct {
	Tables    []*Table
	ByName    map[string]*Table // schema.name, quoted
	ByOID     map[uint32]*Table // of tables, their partitions and children
	published published
}

// Read reads the catalog, and checks that the log holds the inserts into all configured tables. What an operator has to mend
// is an error that matches source.ErrStop.
func Read(ctx context.Context, c *session.Config, conn *pgconn.PgConn) (*View, error) {
	cat := &View{ByName: map[string]*Table{}, ByOID: map[uint32]*Table{}}
	viaRoot, err := readPublication(ctx, c, conn)
	if err != nil {
		return nil, err
	}
	if cat.published, err = ReadPublished(ctx, c, conn); err != nil {
		return nil, err
	}
	for i := range c.Tables {
		info, err := Describe(ctx, conn, &c.Tables[i])
		if err != nil {
			return nil, err
		}
		name := sqltext.Table(&info.Table)
		if err := inLog(c, info, viaRoot, cat.published); err != nil {
			return nil, err
		}
		cat.Tables = append(cat.Tables, info)
		cat.ByName[name] = info
		for _, oid := range info.OIDs() {
			cat.ByOID[oid] = info
		}
	}
	return cat, nil
}

// inLog refuses a table whose rows are not in the log, or not whole.
func inLog(c *session.Config, t *Table, viaRoot bool, published published) error {
	if err := Publishable(c, t, viaRoot); err != nil {
		return err
	}
	name := sqltext.Table(&t.Table)
	if !published.Holds(name) {
		return fmt.Errorf("check publication %q: it does not hold table %s (dropped, renamed or removed?), so the log lacks its rows: "+
			"ALTER PUBLICATION %s ADD TABLE %s, or tailbox init: %w", c.Publication, name, sqltext.Ident(c.Publication), name, source.ErrStop)
	}
	for _, column := range t.Generated(published) {
		return t.generatedColumn(column)
	}
	return childrenHeld(c, t, published)
}

// Publishable refuses a table that the publication cannot hold, because of what the table is or because of the publication's options.
func Publishable(c *session.Config, t *Table, viaRoot bool) error {
	switch {
	case !t.IsTable:
		return fmt.Errorf("check table %s: it is no table, so it is not in the log: name the table itself in source.tables: %w", sqltext.Table(&t.Table), source.ErrStop)
	case !t.Permanent:
		return fmt.Errorf("check table %s: it is unlogged or temporary, so it is not in the log: ALTER TABLE %[1]s SET LOGGED: %w",
			sqltext.Table(&t.Table), source.ErrStop)
	case t.Partitioned && !viaRoot:
		return fmt.Errorf("check publication %q: it publishes the partitions of %s as tables of their own: "+
			"ALTER PUBLICATION %s SET (publish_via_partition_root = true): %w", c.Publication, sqltext.Table(&t.Table), sqltext.Ident(c.Publication), source.ErrStop)
	}
	return nil
}

// TextOnly reports whether a column that messages are made of has no binary form that is known.
func (cat *View) TextOnly() bool {
	for _, t := range cat.Tables {
		for _, name := range columns.Configured(&t.Table) {
			if c, ok := t.Column(name); ok && c.Kind.TextOnly() {
				return true
			}
		}
	}
	return false
}

// Kind is the kind of a type that a column of a configured table has now, and the modifier that a domain gives it, or -1.
func (cat *View) Kind(typeOID uint32) (k Kind, modifier int, ok bool) {
	if k, ok := BuiltinKind(typeOID); ok {
		return k, -1, true
	}
	for _, t := range cat.Tables {
		for _, c := range t.Cols {
			if c.typeOID == typeOID {
				return c.Kind, c.modifier, true
			}
		}
	}
	return KindOther, -1, false
}
