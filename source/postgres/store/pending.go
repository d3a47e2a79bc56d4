package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many rows one statement looks at, so that the session is never busy for long.
const pendingWindow = 10000

// Pending implements checkpoint.Store.
//
// The barrier is where the log ends after the list was read. It is written past, so that the server sends the log up to it even
// when nothing else happens.
func (s *Store) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	out, err := store.ListPending(ctx, s, tablesOf(&s.tables), cursor, limit, s.Cfg.Log())
	if err != nil {
		return nil, err
	}
	return out, s.barrier(ctx, out)
}

// barrier reads the log's end and flushes the log past it. Where the table is polled, it is the last number that was drawn.
func (s *Store) barrier(ctx context.Context, out *checkpoint.PendingRows) error {
	if s.Cfg.Poll {
		return s.pollBarrier(ctx, out)
	}
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

// warnNameless counts pending rows without an id.
func (s *Store) warnNameless(ctx context.Context, t *usertable.Table) error {
	nameless := t.Nameless("t.")
	if nameless == "" {
		return nil
	}
	var n int
	if err := s.Conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s AS t WHERE %s AND (%s) LIMIT %d) n", t.SQL, t.Pending("t."),
		nameless, store.NamelessMost)).Scan(&n); err != nil {
		return s.Fault("look for rows without an id in table "+t.String(), err)
	}
	store.WarnNameless(s.Cfg.Log(), &t.Table, n)
	return nil
}

// PendingWindow implements store.PendingReader.
func (s *Store) PendingWindow(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error) {
	rows, end, err = s.pendingWindow(ctx, s.tables.ByName[at.Table], at)
	return rows, end, store.LockedTable(err, pgerr.Passing)
}

func (s *Store) pendingWindow(ctx context.Context, t *usertable.Table, at *store.Cursor) (list []store.PendingRow, end bool, err error) {
	args := []any{s.Cfg.Pipeline, at.Table, pendingWindow}
	if len(at.After) > 0 {
		args = append(args, string(at.After))
	} else if err := s.warnNameless(ctx, t); err != nil {
		return nil, false, err
	}
	rows, err := s.Conn.Query(ctx, s.SQL(t.PendingSQL(len(at.After) > 0)), args...)
	if err != nil {
		return nil, false, s.Fault("list pending rows of table "+at.Table, err)
	}
	var r store.PendingRow
	seen := 0
	if _, err := pgx.ForEachRow(rows, []any{&r.ID, &r.Missing, &r.Reset, &seen}, func() error {
		r.After = []byte(r.ID)
		list = append(list, r)
		return nil
	}); err != nil {
		return nil, false, s.Fault("list pending rows of table "+at.Table, err)
	}
	return list, seen < pendingWindow, nil
}

// AskForReset implements store.PendingReader.
func (s *Store) AskForReset(ctx context.Context, table string, ids []string) error {
	r := store.ResetRequest("rows", table, ids)
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return fmt.Errorf("write selection: %w", err)
	}
	if _, err := s.Conn.Exec(ctx, s.SQL(`INSERT INTO {request} (pipeline, verb, selection, reason, "by")
		SELECT $1, 'replay', $2, $3, $4 WHERE NOT EXISTS (SELECT FROM {request} WHERE pipeline = $1 AND done_at IS NULL
			AND verb = 'replay' AND selection ->> 'refresh' = 'true' AND reason = $3)`), s.Cfg.Pipeline, string(selection), r.Reason, r.By); err != nil {
		return s.Fault("ask for the replay of rows that were reset", err)
	}
	return nil
}

// Fetch implements checkpoint.Store.
func (s *Store) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ms, parkedAt, err := store.Fetch(ctx, s, tablesOf(&s.tables), rows, at, bytes)
	if s.Cfg.Poll {
		store.WarnFoundLate(s.Cfg.Log(), ms)
	}
	return ms, parkedAt, err
}

// Clock implements store.PendingReader.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	if err := s.Conn.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return now, s.Fault("read the clock", err)
	}
	return now, nil
}

// PendingRows implements store.PendingReader.
func (s *Store) PendingRows(ctx context.Context, of *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	t := s.tables.ByName[of.String()]
	ms, err := s.readUpTo(ctx, t, ids, t.Pending("t."), bytes)
	return ms, store.LockedTable(err, pgerr.Passing)
}

// ParkedAt implements store.PendingReader.
func (s *Store) ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
	tables, ids := make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		tables[i], ids[i] = m.Table, m.ID
	}
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT v.n - 1, p.sink FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS v (source_table, message_id, n)
		CROSS JOIN LATERAL (SELECT q.sink FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id
			AND q.source_table = v.source_table OFFSET 0) p`), s.Cfg.Pipeline, tables, ids)
	if err != nil {
		return nil, s.Fault("look for parked deliveries", err)
	}
	var at [][]string
	var n int64
	var sink string
	if _, err := pgx.ForEachRow(rows, []any{&n, &sink}, func() error {
		if at == nil {
			at = make([][]string, len(ms))
		}
		at[n] = append(at[n], sink)
		return nil
	}); err != nil {
		return nil, s.Fault("look for parked deliveries", err)
	}
	return at, nil
}

// pollBarrier makes the last number that was drawn a barrier: rows that could be seen before have numbers up to it.
func (s *Store) pollBarrier(ctx context.Context, out *checkpoint.PendingRows) error {
	for _, t := range s.tables.Order {
		info, err := catalog.Describe(ctx, s.Conn.PgConn(), &t.Table)
		if err != nil {
			return err
		}
		seq, err := polling.SequenceOf(ctx, s.Conn, info)
		if err != nil {
			return err
		}
		if seq == nil {
			return fmt.Errorf("read the sequence of %s: it has none: %w", t, source.ErrStop)
		}
		var last int64
		if err := s.Conn.QueryRow(ctx, "SELECT "+seq.Last()+" FROM "+seq.Name+" s").Scan(&last); err != nil {
			return s.Fault("read the sequence", err)
		}
		out.Commit = uint64(max(last, 0))
		out.Barrier = strconv.FormatUint(out.Commit, 10)
	}
	return nil
}
