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

// pendingCursor is where Pending goes on: in which table, and after which id.
type pendingCursor struct {
	Table string `json:"table"`
	After string `json:"after"`
}

// Pending lists pending rows by id, in windows. Rows with parked deliveries are the poller's: they are left out. But where a
// status says pending although a delivery of the row is dead, an operator has reset it with plain SQL, which is a
// replay: Pending puts a request for it into tailbox_request, and it is carried out as all are.
//
// The barrier is where the log ends after the list was read. It is written past, so that the server sends the log up to it even
// when nothing else happens.
func (s *stateStore) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	at, err := s.pendingStart(cursor)
	if err != nil {
		return nil, err
	}
	out := &checkpoint.PendingRows{}
	if at, err = store.ListPending(ctx, at, limit, out, s.pendingUnlocked); err != nil {
		return nil, err
	}
	if at != nil {
		text, err := json.Marshal(at)
		if err != nil {
			return nil, fmt.Errorf("write cursor: %w", err)
		}
		out.Cursor = string(text)
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

// pendingStart is where a cursor points to; nil where no table is left. A table that left the configuration is passed over.
func (s *stateStore) pendingStart(cursor string) (*pendingCursor, error) {
	if cursor == "" {
		return s.nextPending(""), nil
	}
	at := &pendingCursor{}
	if err := json.Unmarshal([]byte(cursor), at); err != nil {
		return nil, fmt.Errorf("read cursor %q: %w", cursor, err)
	}
	if s.tables.byName[at.Table] == nil {
		return nil, fmt.Errorf("read cursor %q: there is no such table", cursor)
	}
	return at, nil
}

// nextPending is the beginning of the next table with rows that say whether they are pending; "" is before the first.
func (s *stateStore) nextPending(table string) *pendingCursor {
	found := table == ""
	for _, t := range s.tables.order {
		if found && t.OnDelivered != outbox.Keep {
			return &pendingCursor{Table: t.String()}
		}
		found = found || t.String() == table
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

// namelessMost bounds how many rows without an id are counted.
const namelessMost = 1000

// warnNameless tells of pending rows without an id. Such a row cannot be told from one that is parked under an id that was
// made for it, so it is left to the operator: once it has an id, it is found as any other.
func (s *stateStore) warnNameless(ctx context.Context, t *table) error {
	nameless := t.nameless("t.")
	if nameless == "" {
		return nil
	}
	var n int
	if err := s.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s AS t WHERE %s AND (%s) LIMIT %d) n", t.sql, t.pending("t."),
		nameless, namelessMost)).Scan(&n); err != nil {
		return s.fault("look for rows without an id in table "+t.String(), err)
	}
	if n > 0 {
		s.cfg.logger().Warn("pending rows without an id are not compared with the log: give them an id, and they are delivered if they are not "+
			"parked, or delete them", "table", t.String(), "column", t.Columns.ID, "rows", n)
	}
	return nil
}

// pendingUnlocked is pendingWindow, which passes over a table that others have locked as a whole, by ALTER TABLE or VACUUM FULL: the next
// comparison will do.
func (s *stateStore) pendingUnlocked(ctx context.Context, at *pendingCursor, limit int, out *checkpoint.PendingRows) (*pendingCursor, error) {
	next, err := s.pendingWindow(ctx, at, limit, out)
	if passingTrouble(err) {
		s.cfg.logger().Warn("table is locked: it is compared with the log the next time", "table", at.Table, "error", err)
		return s.nextPending(at.Table), nil
	}
	return next, err
}

// pendingWindow looks at one window, and returns where the next one begins.
func (s *stateStore) pendingWindow(ctx context.Context, at *pendingCursor, limit int, out *checkpoint.PendingRows) (*pendingCursor, error) {
	t := s.tables.byName[at.Table]
	if at.After == "" {
		if err := s.warnNameless(ctx, t); err != nil {
			return nil, err
		}
	}
	rows, err := s.conn.Query(ctx, s.q(t.pendingSQL(at.After != "")), s.pendingArgs(at)...)
	if err != nil {
		return nil, s.fault("list pending rows of table "+at.Table, err)
	}
	next := &pendingCursor{Table: at.Table, After: at.After}
	var reset []string
	var id string
	var missing, again bool
	seen, full := 0, false
	if _, err := pgx.ForEachRow(rows, []any{&id, &missing, &again, &seen}, func() error {
		if full = full || missing && limit == 0; full {
			return nil
		}
		next.After = id
		if missing {
			out.Rows = append(out.Rows, checkpoint.RowRef{Table: at.Table, ID: id})
			limit--
		}
		if again {
			reset = append(reset, id)
		}
		return nil
	}); err != nil {
		return nil, s.fault("list pending rows of table "+at.Table, err)
	}
	if len(reset) > 0 {
		if err := s.askForReset(ctx, at.Table, reset); err != nil {
			return nil, err
		}
	}
	if !full && seen < pendingWindow {
		return s.nextPending(at.Table), nil
	}
	return next, nil
}

func (s *stateStore) pendingArgs(at *pendingCursor) []any {
	args := []any{s.cfg.Pipeline, at.Table, pendingWindow}
	if at.After != "" {
		args = append(args, at.After)
	}
	return args
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

// askForReset asks for the replay of dead deliveries whose rows say that they are pending again, unless such a request is
// open already.
func (s *stateStore) askForReset(ctx context.Context, table string, ids []string) error {
	selection, err := json.Marshal(store.ResetSelection(table, ids))
	if err != nil {
		return fmt.Errorf("write selection: %w", err)
	}
	if _, err := s.conn.Exec(ctx, s.q(`INSERT INTO {request} (pipeline, verb, selection, reason, "by")
		SELECT $1, 'replay', $2, $3, 'tailbox' WHERE NOT EXISTS (SELECT FROM {request} WHERE pipeline = $1 AND done_at IS NULL
			AND verb = 'replay' AND selection ->> 'refresh' = 'true' AND reason = $3)`), s.cfg.Pipeline, string(selection),
		"rows of "+table+" were set to pending again"); err != nil {
		return s.fault("ask for the replay of rows that were reset", err)
	}
	return nil
}

// Fetch reads rows that are still pending, as messages at and after a position.
func (s *stateStore) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ids := make(map[string][]string)
	for _, r := range rows {
		ids[r.Table] = append(ids[r.Table], r.ID)
	}
	var now time.Time
	if err := s.conn.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return nil, nil, s.fault("read the clock", err)
	}
	var ms []*outbox.Message
	for _, t := range s.tables.order {
		if len(ids[t.String()]) == 0 || t.OnDelivered == outbox.Keep || bytes <= 0 {
			continue
		}
		found, err := s.readUpTo(ctx, t, ids[t.String()], t.pending("t."), bytes)
		if passingTrouble(err) {
			continue // they are found again
		}
		if err != nil {
			return nil, nil, err
		}
		ms = append(ms, found...)
		for _, m := range found {
			bytes -= m.Size()
		}
	}
	if len(ms) == 0 {
		return nil, nil, nil
	}
	if err := store.PlaceFound(ms, at, now); err != nil {
		return nil, nil, err
	}
	if s.cfg.Poll {
		s.cfg.logger().Warn("rows came below the place up to which numbers were read, or were set to pending again: they are delivered now, late; "+
			"let each number be drawn in the transaction that commits it", "table", ms[0].Table, "rows", len(ms))
	}
	parkedAt, err := s.parkedAt(ctx, ms)
	return ms, parkedAt, err
}

// parkedAt names for each message the sinks that have a delivery of it parked, dropped ones too. Nil where nothing is.
func (s *stateStore) parkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
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
