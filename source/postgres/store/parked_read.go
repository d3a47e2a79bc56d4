package store

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/usertable"
)

// ReadRows implements relational.Statements. The rows come in the order in which they are swept. Position and time of the commit are not set.
func (s *Store) ReadRows(ctx context.Context, table string, ids []string, pending bool) ([]*outbox.Message, error) {
	t, where := s.tables.ByName[table], ""
	if t == nil {
		return nil, nil
	}
	if pending {
		where = t.Pending("t.")
	}
	q, err := s.rowsByID(ctx, t, where)
	if err != nil {
		return nil, err
	}
	return q.read(ctx, ids, math.MaxInt)
}

// rowsByID asks for rows of one table by their ids.
type rowsByID struct {
	conn   *pgx.Conn
	table  *usertable.Table
	reader *catalog.RowReader
	// where is a further condition on the row (alias t); "" for none.
	where string
}

func (s *Store) rowsByID(ctx context.Context, t *usertable.Table, where string) (*rowsByID, error) {
	reader, err := catalog.NewRowReader(ctx, s.Conn.PgConn(), &t.Table, s.Cfg.MaxMessage)
	if err != nil {
		return nil, s.Fault("read rows", err)
	}
	return &rowsByID{s.Conn, t, reader, where}, nil
}

// readUpTo reads rows in their order until they reach bytes. It finds out the order first, so that the server need not send the other rows.
func (q *rowsByID) readUpTo(ctx context.Context, ids []string, bytes int) ([]*outbox.Message, error) {
	rows, err := q.query(ctx, q.reader.ID("t"), nil, ids)
	if err != nil {
		return nil, err
	}
	ordered, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, pgerr.Fault("read ids of table "+q.table.String(), err)
	}
	seen := make(map[string]bool, len(ordered)) // an id that is not unique is asked for once
	ordered = slices.DeleteFunc(ordered, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	var ms []*outbox.Message
	for n := 1; len(ordered) > 0 && bytes > 0; n = min(2*n, readMost) {
		n = min(n, len(ordered))
		some, err := q.read(ctx, ordered[:n], bytes)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			bytes -= m.Size()
		}
		ms, ordered = append(ms, some...), ordered[n:]
	}
	return ms, nil
}

// readMost rows are asked for at once where their size matters.
const readMost = 64

// read reads rows until they reach bytes.
func (q *rowsByID) read(ctx context.Context, ids []string, bytes int) ([]*outbox.Message, error) {
	rows, err := q.query(ctx, q.reader.List("t"), q.reader.Formats(0), ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ms []*outbox.Message
	for bytes > 0 && rows.Next() {
		m, err := q.reader.Message(rows)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
		bytes -= m.Size()
	}
	rows.Close() // what the server still sends is read and forgotten
	if err := rows.Err(); err != nil {
		return nil, pgerr.Fault("read rows of table "+q.table.String(), err)
	}
	return ms, nil
}

// query asks for a list of columns of rows (alias t).
func (q *rowsByID) query(ctx context.Context, list string, formats pgx.QueryResultFormats, ids []string) (pgx.Rows, error) {
	t := q.table
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !t.Findable(id) })
	param, err := t.ID.Array(ids)
	if err != nil {
		return nil, fmt.Errorf("%w: read rows of table %s: %w", source.ErrStop, t, err)
	}
	sql := "SELECT " + list + " FROM " + t.SQL + " AS t WHERE t." + sqltext.Ident(t.Columns.ID) + t.ID.Equals + "ANY ($1::" + t.ID.Cast + ")"
	if q.where != "" {
		sql += " AND " + q.where
	}
	args := []any{param}
	if formats != nil {
		args = []any{formats, param}
	}
	rows, err := q.conn.Query(ctx, sql+" ORDER BY "+q.reader.Table.Order("t", false), args...)
	if err != nil {
		return nil, pgerr.Fault("read rows of table "+q.table.String(), err)
	}
	return rows, nil
}
