package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// dueSelect reads what is due at sinks, without payloads. The index tailbox_parked_due holds one entry a lane, so the lanes that have waited
// longest are found without a look at what waits behind them.
func dueSelect(where string) string {
	return `
SELECT s.n - 1, d.source_table, d.message_id, d.position, d.priority, d.next_attempt_at, d.tried_at, coalesce(d.bytes, 0)
FROM unnest($2::text[]) WITH ORDINALITY AS s (sink, n) CROSS JOIN LATERAL (
	SELECT p.source_table, p.message_id, p.position, p.priority, p.next_attempt_at, p.tried_at, octet_length(p.payload) AS bytes
	FROM {parked} p WHERE p.pipeline = $1 AND p.sink = s.sink AND p.next_attempt_at <= now()` + where + `
	ORDER BY p.next_attempt_at LIMIT $3) d
ORDER BY s.n, d.next_attempt_at`
}

// dueParked is the statement. What was never tried has an index of its own: it is found however many others are due before it.
func dueParked(part store.DuePart) string {
	switch part {
	case store.Untried:
		return dueSelect(" AND p.tries = 0")
	case store.Tried:
		return dueSelect(" AND p.tries <> 0")
	}
	return dueSelect("")
}

// nextDue is when the next one is due, in seconds from now.
const nextDue = `
SELECT extract(epoch FROM min(d.next_attempt_at) - now())::float8
FROM unnest($2::text[]) AS s (sink) CROSS JOIN LATERAL (
	SELECT p.next_attempt_at FROM {parked} p WHERE p.pipeline = $1 AND p.sink = s.sink AND p.next_attempt_at > now()
	ORDER BY p.next_attempt_at LIMIT 1) d`

// discardPlans forgets plans, which were made for tables as they were then. Due is called every second or so: no plan is older than that. It also
// proves that the session holds the lock.
const discardPlans = "DISCARD PLANS"

// Prove implements relational.Database.
func (s *Store) Prove(ctx context.Context) error {
	_, err := s.Conn.Exec(ctx, discardPlans)
	return err
}

// DueRefs implements store.ParkedReader.
func (s *Store) DueRefs(ctx context.Context, part store.DuePart, sinks []string, window int) ([][]store.ParkedRef, time.Duration, error) {
	due, next := make([][]store.ParkedRef, len(sinks)), time.Duration(-1)
	b := &pgx.Batch{}
	b.Queue(discardPlans)
	b.Queue(s.SQL(nextDue), s.Cfg.Pipeline, sinks).QueryRow(func(r pgx.Row) error {
		var seconds *float64
		if err := r.Scan(&seconds); err != nil || seconds == nil {
			return err
		}
		next = max(0, time.Duration(*seconds*float64(time.Second)))
		return nil
	})
	b.Queue(s.SQL(dueParked(part)), s.Cfg.Pipeline, sinks, window).Query(func(rows pgx.Rows) error {
		var n int64
		var r store.ParkedRef
		_, err := pgx.ForEachRow(rows, []any{&n, &r.Table, &r.ID, &r.Position, &r.Priority, &r.Next, (*orZeroTime)(&r.TriedAt), &r.Bytes}, func() error {
			r.Sink = sinks[n]
			due[n] = append(due[n], r)
			return nil
		})
		return err
	})
	if err := s.send(ctx, b); err != nil {
		return nil, 0, s.Fault("look for due deliveries", err)
	}
	return due, next, nil
}

// UnfinishedMessages implements relational.Database.
func (s *Store) UnfinishedMessages(ctx context.Context, limit int) (keys []store.MessageKey, err error) {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT DISTINCT source_table, message_id FROM (
		SELECT source_table, message_id FROM {parked} WHERE pipeline = $1 AND unfinished LIMIT $2) u`), s.Cfg.Pipeline, limit)
	if err == nil {
		keys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.MessageKey])
	}
	if err != nil {
		return nil, s.Fault("look for unfinished messages", err)
	}
	return keys, nil
}

// pageKeys reads a lane's deliveries after a position without their payloads, and its group's first position at the sink "".
const pageKeys = `
SELECT p.source_table, p.message_id, p.position, p.state = 'dead', coalesce(octet_length(p.payload), 0), coalesce(z.position, '')
FROM {parked} p LEFT JOIN LATERAL (
	SELECT q.position FROM {parked} q WHERE p.sink <> '' AND q.pipeline = $1 AND q.sink = '' AND q.message_group = $3 AND q.blocks
	ORDER BY q.position LIMIT 1) z ON true
WHERE p.pipeline = $1 AND p.sink = $2 AND p.message_group = $3 AND p.blocks AND p.position > $4
ORDER BY p.position, p.message_id LIMIT $5`

// LaneRefs implements store.ParkedReader.
func (s *Store) LaneRefs(ctx context.Context, lane checkpoint.Lane, after string, limit int) (refs []store.ParkedRef, unrouted string, err error) {
	rows, err := s.Conn.Query(ctx, s.SQL(pageKeys), s.Cfg.Pipeline, lane.Sink, lane.Group, after, limit)
	if err != nil {
		return nil, "", s.Fault("read a lane", err)
	}
	r := store.ParkedRef{Key: checkpoint.Key{Sink: lane.Sink}}
	if _, err := pgx.ForEachRow(rows, []any{&r.Table, &r.ID, &r.Position, &r.Dead, &r.Bytes, &unrouted}, func() error {
		refs = append(refs, r)
		return nil
	}); err != nil {
		return nil, "", s.Fault("read a lane", err)
	}
	return refs, unrouted, nil
}

// readParked reads deliveries by key.
func readParked() string {
	return `SELECT ` + ParkedColumns() + ` FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)
CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table
	AND q.sink = v.sink OFFSET 0) p`
}

// ReadKeys implements relational.Statements.
func (s *Store) ReadKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error) {
	sinks, tables, ids := keyArrays(keys)
	rows, err := s.Conn.Query(ctx, s.SQL(readParked()), s.Cfg.Pipeline, sinks, tables, ids)
	if err != nil {
		return nil, s.Fault("read deliveries", err)
	}
	ps, err := CollectParked(rows)
	if err != nil {
		return nil, s.Fault("read deliveries", err)
	}
	return ps, nil
}
