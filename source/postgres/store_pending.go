package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many rows one statement looks at, so that the session is never busy for long.
const pendingWindow = 10000

// Pending implements checkpoint.Store.
//
// The barrier is where the log ends after the list was read. It is written past, so that the server sends the log up to it even
// when nothing else happens.
func (s *stateStore) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	out, err := store.ListPending(ctx, s, tablesOf(&s.tables), cursor, limit, s.cfg.logger())
	if err != nil {
		return nil, err
	}
	return out, s.barrier(ctx, out)
}

// barrier reads the log's end and flushes the log past it. Where the table is polled, it is the last number that was drawn.
func (s *stateStore) barrier(ctx context.Context, out *checkpoint.PendingRows) error {
	if s.cfg.Poll {
		return s.pollBarrier(ctx, out)
	}
	if err := s.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&out.Barrier); err != nil {
		return s.fault("read the log's end", err)
	}
	end, err := pgrepl.ParseLSN(out.Barrier)
	if err != nil {
		return err
	}
	out.Commit = uint64(end)
	// A commit is flushed before it is answered (synchronous_commit is on), with everything before it.
	if _, err := s.conn.Exec(ctx, s.q(`UPDATE {checkpoint} SET updated_at = now() WHERE pipeline = $1`), s.cfg.Pipeline); err != nil {
		return s.fault("write past the log's end", err)
	}
	return nil
}

// nameless is the condition by which a row has no id; "" where the column rules that out.
func (t *table) nameless(prefix string) string {
	id := prefix + quoteIdent(t.Columns.ID)
	var conds []string
	if !t.required[t.Columns.ID] {
		conds = append(conds, id+" IS NULL")
	}
	switch {
	case t.id.wire == "text" && t.id.exact:
		conds = append(conds, notIndexed(id))
	case t.id.wire == "text":
		conds = append(conds, notIndexed(id+"::text"))
	}
	return strings.Join(conds, " OR ")
}

// notIndexed is the condition by which a text is no id: it is empty, or too long.
func notIndexed(text string) string {
	return fmt.Sprintf("octet_length(%s) NOT BETWEEN 1 AND %d", text, outbox.MaxIndexed)
}

// warnNameless counts pending rows without an id.
func (s *stateStore) warnNameless(ctx context.Context, t *table) error {
	nameless := t.nameless("t.")
	if nameless == "" {
		return nil
	}
	var n int
	if err := s.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s AS t WHERE %s AND (%s) LIMIT %d) n", t.sql, t.pending("t."),
		nameless, store.NamelessMost)).Scan(&n); err != nil {
		return s.fault("look for rows without an id in table "+t.String(), err)
	}
	store.WarnNameless(s.cfg.logger(), &t.Table, n)
	return nil
}

// PendingWindow implements store.PendingReader.
func (s *stateStore) PendingWindow(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error) {
	rows, end, err = s.pendingWindow(ctx, s.tables.byName[at.Table], at)
	return rows, end, store.LockedTable(err, passingTrouble)
}

func (s *stateStore) pendingWindow(ctx context.Context, t *table, at *store.Cursor) (list []store.PendingRow, end bool, err error) {
	args := []any{s.cfg.Pipeline, at.Table, pendingWindow}
	if len(at.After) > 0 {
		args = append(args, string(at.After))
	} else if err := s.warnNameless(ctx, t); err != nil {
		return nil, false, err
	}
	rows, err := s.conn.Query(ctx, s.q(t.pendingSQL(len(at.After) > 0)), args...)
	if err != nil {
		return nil, false, s.fault("list pending rows of table "+at.Table, err)
	}
	var r store.PendingRow
	seen := 0
	if _, err := pgx.ForEachRow(rows, []any{&r.ID, &r.Missing, &r.Reset, &seen}, func() error {
		r.After = []byte(r.ID)
		list = append(list, r)
		return nil
	}); err != nil {
		return nil, false, s.fault("list pending rows of table "+at.Table, err)
	}
	return list, seen < pendingWindow, nil
}

// pendingSQL lists, of a window of rows, those that are pending and not parked and dealt with (missing), those that were reset, and the last
// one, where the next window begins. Where an index leads to the pending rows, the window is made of those.
func (t *table) pendingSQL(after bool) string {
	id := "t." + quoteIdent(t.Columns.ID)
	inner, outer := "true", t.pending("t.")
	if t.pendingIndex || outer == "true" {
		inner, outer = outer, "true"
	}
	if nameless := t.nameless("t."); nameless != "" {
		inner += " AND NOT (" + nameless + ")"
	}
	if after {
		inner += " AND " + id + t.id.above + "$4::text::" + t.types[t.Columns.ID]
	}
	reset := "false"
	if t.Columns.Status != "" && t.Words.Dead != t.Words.Pending {
		reset = `EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = w.id AND p.source_table = $2
			AND p.state = 'dead' AND p.row_settled AND NOT p.unfinished AND NOT p.in_table)`
	}
	return `
SELECT id, missing, reset, n FROM (
	SELECT w.id, w.pending AND NOT EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = w.id AND p.source_table = $2
		AND (p.row_settled OR p.unfinished)) AS missing,
		w.pending AND ` + reset + ` AS reset, count(*) OVER () AS n, w.rank, count(*) OVER () = w.rank AS last
	FROM (SELECT ` + id + `::text AS id, ` + outer + ` AS pending, row_number() OVER (ORDER BY ` + id + `) AS rank
		FROM ` + t.sql + ` AS t WHERE ` + inner + ` ORDER BY ` + id + ` LIMIT $3) w
) r WHERE missing OR reset OR last ORDER BY rank`
}

// AskForReset implements store.PendingReader.
func (s *stateStore) AskForReset(ctx context.Context, table string, ids []string) error {
	r := store.ResetRequest("rows", table, ids)
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return fmt.Errorf("write selection: %w", err)
	}
	if _, err := s.conn.Exec(ctx, s.q(`INSERT INTO {request} (pipeline, verb, selection, reason, "by")
		SELECT $1, 'replay', $2, $3, $4 WHERE NOT EXISTS (SELECT FROM {request} WHERE pipeline = $1 AND done_at IS NULL
			AND verb = 'replay' AND selection ->> 'refresh' = 'true' AND reason = $3)`), s.cfg.Pipeline, string(selection), r.Reason, r.By); err != nil {
		return s.fault("ask for the replay of rows that were reset", err)
	}
	return nil
}

// Fetch implements checkpoint.Store.
func (s *stateStore) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ms, parkedAt, err := store.Fetch(ctx, s, tablesOf(&s.tables), rows, at, bytes)
	if s.cfg.Poll {
		store.WarnFoundLate(s.cfg.logger(), ms)
	}
	return ms, parkedAt, err
}

// Clock implements store.PendingReader.
func (s *stateStore) Clock(ctx context.Context) (now time.Time, err error) {
	if err := s.conn.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return now, s.fault("read the clock", err)
	}
	return now, nil
}

// PendingRows implements store.PendingReader.
func (s *stateStore) PendingRows(ctx context.Context, of *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	t := s.tables.byName[of.String()]
	ms, err := s.readUpTo(ctx, t, ids, t.pending("t."), bytes)
	return ms, store.LockedTable(err, passingTrouble)
}

// ParkedAt implements store.PendingReader.
func (s *stateStore) ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
	tables, ids := make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		tables[i], ids[i] = m.Table, m.ID
	}
	rows, err := s.conn.Query(ctx, s.q(`SELECT v.n - 1, p.sink FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS v (source_table, message_id, n)
		CROSS JOIN LATERAL (SELECT q.sink FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id
			AND q.source_table = v.source_table OFFSET 0) p`), s.cfg.Pipeline, tables, ids)
	if err != nil {
		return nil, s.fault("look for parked deliveries", err)
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
		return nil, s.fault("look for parked deliveries", err)
	}
	return at, nil
}
