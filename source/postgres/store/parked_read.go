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
	reader, err := catalog.NewRowReader(ctx, s.Conn.PgConn(), &t.Table, s.Cfg.MaxMessage)
	if err != nil {
		return nil, s.Fault("read rows", err)
	}
	return s.readSome(ctx, t, reader, ids, where, math.MaxInt)
}

// readUpTo reads rows like readRows, but stops after the row with which they reach bytes. It finds out the rows' order first, so that the server need
// not send the others.
func (s *Store) readUpTo(ctx context.Context, t *usertable.Table, ids []string, where string, bytes int) ([]*outbox.Message, error) {
	reader, err := catalog.NewRowReader(ctx, s.Conn.PgConn(), &t.Table, s.Cfg.MaxMessage)
	if err != nil {
		return nil, s.Fault("read rows", err)
	}
	rows, err := s.selectRows(ctx, t, reader, reader.ID("t"), nil, ids, where)
	if err != nil {
		return nil, err
	}
	ordered, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.Fault("read ids of table "+t.String(), err)
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
		some, err := s.readSome(ctx, t, reader, ordered[:n], where, bytes)
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

// readSome reads rows until they reach bytes.
func (s *Store) readSome(ctx context.Context, t *usertable.Table, reader *catalog.RowReader, ids []string, where string, bytes int) ([]*outbox.Message, error) {
	rows, err := s.selectRows(ctx, t, reader, reader.List("t"), reader.Formats(0), ids, where)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ms []*outbox.Message
	for bytes > 0 && rows.Next() {
		m, err := reader.Message(rows)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
		bytes -= m.Size()
	}
	rows.Close() // what the server still sends is read and forgotten
	if err := rows.Err(); err != nil {
		return nil, s.Fault("read rows of table "+t.String(), err)
	}
	return ms, nil
}

// selectRows asks for rows of a table (alias t) by id.
func (s *Store) selectRows(ctx context.Context, t *usertable.Table, reader *catalog.RowReader, list string, formats pgx.QueryResultFormats, ids []string,
	where string) (pgx.Rows, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !t.Findable(id) })
	param, err := t.ID.Array(ids)
	if err != nil {
		return nil, fmt.Errorf("%w: read rows of table %s: %w", source.ErrStop, t, err)
	}
	sql := "SELECT " + list + " FROM " + t.SQL + " AS t WHERE t." + sqltext.Ident(t.Columns.ID) + t.ID.Equals + "ANY ($1::" + t.ID.Cast + ")"
	if where != "" {
		sql += " AND " + where
	}
	args := []any{param}
	if formats != nil {
		args = []any{formats, param}
	}
	rows, err := s.Conn.Query(ctx, sql+" ORDER BY "+reader.Table.Order("t", false), args...)
	if err != nil {
		return nil, s.Fault("read rows of table "+t.String(), err)
	}
	return rows, nil
}
