package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many rows one statement looks at, so that the session is never busy for long.
const pendingWindow = 10000

// LogEnd implements relational.RowFinder.
func (s *Store) LogEnd(ctx context.Context, out *checkpoint.PendingRows) error {
	if err := s.Conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&out.Barrier); err != nil {
		return s.Fault("read the log's end", err)
	}
	end, err := pgrepl.ParseLSN(out.Barrier)
	if err != nil {
		return err
	}
	out.Commit = uint64(end)
	// A commit is flushed before it is answered (synchronous_commit is on), with everything before it.
	if _, err := s.Conn.Exec(ctx, s.SQL(`UPDATE {checkpoint} SET updated_at = now() WHERE pipeline = $1`), s.Cfg.Pipeline); err != nil {
		return s.Fault("write past the log's end", err)
	}
	return nil
}

// Nameless implements relational.RowFinder.
func (s *Store) Nameless(ctx context.Context, of *outbox.Table) (n int, err error) {
	t := s.tables.ByName[of.String()]
	nameless := t.Nameless("t.")
	if nameless == "" {
		return 0, nil
	}
	err = s.Conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s AS t WHERE %s AND (%s) LIMIT %d) n", t.SQL, t.Pending("t."),
		nameless, store.NamelessMost)).Scan(&n)
	return n, err
}

// Window implements relational.RowFinder.
func (s *Store) Window(ctx context.Context, at *store.Cursor) (list []store.PendingRow, end bool, err error) {
	t := s.tables.ByName[at.Table]
	args := []any{s.Cfg.Pipeline, at.Table, pendingWindow}
	if len(at.After) > 0 {
		args = append(args, string(at.After))
	}
	rows, err := s.Conn.Query(ctx, s.SQL(t.PendingSQL(len(at.After) > 0)), args...)
	if err != nil {
		return nil, false, err
	}
	var r store.PendingRow
	seen := 0
	if _, err := pgx.ForEachRow(rows, []any{&r.ID, &r.Missing, &r.Reset, &seen}, func() error {
		r.After = []byte(r.ID)
		list = append(list, r)
		return nil
	}); err != nil {
		return nil, false, err
	}
	return list, seen < pendingWindow, nil
}

// AskOnce implements relational.RowFinder.
func (s *Store) AskOnce(ctx context.Context, r *checkpoint.Request, selection string) error {
	_, err := s.Conn.Exec(ctx, s.SQL(`INSERT INTO {request} (pipeline, verb, selection, reason, "by")
		SELECT $1, 'replay', $2, $3, $4 WHERE NOT EXISTS (SELECT FROM {request} WHERE pipeline = $1 AND done_at IS NULL
			AND verb = 'replay' AND selection ->> 'refresh' = 'true' AND reason = $3)`), s.Cfg.Pipeline, selection, r.Reason, r.By)
	return err
}

// Clock implements store.PendingReader.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	if err := s.Conn.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return now, s.Fault("read the clock", err)
	}
	return now, nil
}

// RowsUpTo implements relational.RowFinder.
func (s *Store) RowsUpTo(ctx context.Context, of *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	t := s.tables.ByName[of.String()]
	q, err := s.rowsByID(ctx, t, t.Pending("t."))
	if err != nil {
		return nil, err
	}
	return q.readUpTo(ctx, ids, bytes)
}

// EachParked implements relational.RowFinder.
func (s *Store) EachParked(ctx context.Context, ms []*outbox.Message, on func(i int, sink string)) error {
	tables, ids := make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		tables[i], ids[i] = m.Table, m.ID
	}
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT v.n - 1, p.sink FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS v (source_table, message_id, n)
		CROSS JOIN LATERAL (SELECT q.sink FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id
			AND q.source_table = v.source_table OFFSET 0) p`), s.Cfg.Pipeline, tables, ids)
	if err != nil {
		return err
	}
	var n int
	var sink string
	_, err = pgx.ForEachRow(rows, []any{&n, &sink}, func() error {
		on(n, sink)
		return nil
	})
	return err
}

// LastNumber implements relational.RowFinder.
func (s *Store) LastNumber(ctx context.Context) (uint64, error) {
	var last int64
	for _, t := range s.tables.Order {
		info, err := catalog.Describe(ctx, s.Conn.PgConn(), &t.Table)
		if err != nil {
			return 0, err
		}
		seq, err := polling.SequenceOf(ctx, s.Conn, info)
		if err != nil {
			return 0, err
		}
		if seq == nil {
			return 0, fmt.Errorf("read the sequence of %s: it has none: %w", t, source.ErrStop)
		}
		if err := s.Conn.QueryRow(ctx, "SELECT "+seq.Last()+" FROM "+seq.Name+" s").Scan(&last); err != nil {
			return 0, s.Fault("read the sequence", err)
		}
	}
	return uint64(max(last, 0)), nil
}

// Passing implements relational.RowFinder.
func (s *Store) Passing(err error) bool { return pgerr.Passing(err) }
