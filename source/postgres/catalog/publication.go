package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Unpublished returns the inheritance children that a publication lacks: it took only those that existed when the table was added. Partitions are
// published by their root.
func (t *Table) Unpublished(published published) (names []string) {
	for i := range t.parts {
		if p := &t.parts[i]; !t.Partitioned && p.logged && !published.Holds(p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// UnpublishedChild tells what is wrong where the publication lacks an inheritance child, and its fix.
func UnpublishedChild(c *session.Config, t *Table, child string) (what, fix string) {
	pub := sqltext.Ident(c.Publication)
	return fmt.Sprintf("publication %s does not hold table %s, which inherits from %s, so its rows would come late and out of order", c.Publication, child, t),
		fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s, or tailbox init; or ALTER TABLE %s NO INHERIT %s, if its rows are no messages", pub, child, child, sqltext.Table(&t.Table))
}

// childrenHeld refuses a publication that lacks an inheritance child of a table.
func childrenHeld(c *session.Config, t *Table, published published) error {
	for _, child := range t.Unpublished(published) {
		what, fix := UnpublishedChild(c, t, child)
		return fmt.Errorf("check tables: %s: %s: %w", what, fix, source.ErrStop)
	}
	return nil
}

// published are all tables of the publication, quoted, with the columns that it publishes; none if the server does not tell (14).
type published map[string][]string

// Holds reports whether the publication holds the table, by its quoted name.
func (p published) Holds(table string) bool {
	_, ok := p[table]
	return ok
}

// Generated are the columns that messages are made of, and that the log does not hold, because they are generated.
func (t *Table) Generated(published published) (names []string) {
	for _, name := range columns.Configured(&t.Table) {
		if c, ok := t.Column(name); ok && c.Generated && !slices.Contains(published[sqltext.Table(&t.Table)], name) {
			names = append(names, name)
		}
	}
	return names
}

func readPublication(ctx context.Context, c *session.Config, conn *pgconn.PgConn) (viaRoot bool, err error) {
	rows, err := session.Query(ctx, conn, "SELECT pubinsert, pubviaroot FROM pg_catalog.pg_publication WHERE pubname = "+
		sqltext.Literal(c.Publication))
	switch {
	case err != nil:
		return false, fmt.Errorf("look up publication %q: %w", c.Publication, err)
	case len(rows) == 0:
		return false, fmt.Errorf("look up publication %q: it does not exist: run tailbox init: %w", c.Publication, source.ErrStop)
	case rows[0][0] != "t":
		return false, fmt.Errorf("check publication %q: it does not publish inserts: ALTER PUBLICATION %s SET (publish = 'insert'): %w",
			c.Publication, sqltext.Ident(c.Publication), source.ErrStop)
	}
	return rows[0][1] == "t", nil
}

// ReadPublished lists what the publication holds.
func ReadPublished(ctx context.Context, c *session.Config, conn *pgconn.PgConn) (published, error) {
	// As JSON: 14 has no column lists.
	rows, err := session.Query(ctx, conn, "SELECT schemaname, tablename, coalesce(to_jsonb(p) -> 'attnames', 'null') FROM pg_catalog.pg_publication_tables p WHERE pubname = "+
		sqltext.Literal(c.Publication))
	if err != nil {
		return nil, fmt.Errorf("look up tables of publication %q: %w", c.Publication, err)
	}
	list := published{}
	for _, r := range rows {
		var names []string
		if err := json.Unmarshal([]byte(r[2]), &names); err != nil {
			return nil, fmt.Errorf("look up tables of publication %q: columns: %w", c.Publication, err)
		}
		list[sqltext.Ident(r[0])+"."+sqltext.Ident(r[1])] = names
	}
	return list, nil
}
