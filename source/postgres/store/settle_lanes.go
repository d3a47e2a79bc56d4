package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// headsOf reads the first blocking deliveries of lanes.
	headsOf = `
SELECT l.n - 1, h.source_table, h.message_id, h.position, h.state, h.next_attempt_at
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS l (sink, message_group, n) CROSS JOIN LATERAL (
	SELECT p.source_table, p.message_id, p.position, p.state, p.next_attempt_at FROM {parked} p
	WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group AND p.blocks ORDER BY p.position LIMIT 1) h`

	// setTimes sets the times of blocking deliveries.
	setTimes = `
UPDATE {parked} p SET next_attempt_at = v.next FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[])
	AS v (sink, source_table, message_id, next)` + parkedAt + `WHERE p.ctid = at.ctid AND p.blocks`
)

// queueHeadsOf asks for the first blocking deliveries of lanes.
func (s *Store) queueHeadsOf(b *pgx.Batch, lanes []checkpoint.Lane, to map[checkpoint.Lane]*store.LaneHead) {
	if len(lanes) == 0 {
		return
	}
	sinks, groups := make([]string, len(lanes)), make([]string, len(lanes))
	for i, lane := range lanes {
		sinks[i], groups[i] = lane.Sink, lane.Group
	}
	b.Queue(s.SQL(headsOf), s.Cfg.Pipeline, sinks, groups).Query(func(rows pgx.Rows) error {
		var n int64
		var h store.LaneHead
		_, err := pgx.ForEachRow(rows, []any{&n, &h.Table, &h.ID, &h.Position, &h.State, (*orZeroTime)(&h.Next)}, func() error {
			head := h
			head.Sink = lanes[n].Sink
			to[lanes[n]] = &head
			return nil
		})
		return err
	})
}

// Heads implements relational.Statements.
func (s *Store) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	heads := make(map[checkpoint.Lane]*store.LaneHead, len(lanes))
	b := &pgx.Batch{}
	s.queueHeadsOf(b, lanes, heads)
	return heads, s.send(ctx, b)
}

// queueLanes asks for the first deliveries of the touched lanes, and for the server's time.
func (a *attempt) queueLanes(b *pgx.Batch) {
	asked := a.Lanes.Asked(a.s.Sinks)
	if len(asked) == 0 {
		return
	}
	a.s.queueHeadsOf(b, asked, a.Lanes.Heads)
	b.Queue("SELECT now()").QueryRow(func(r pgx.Row) error { return r.Scan(&a.now) })
}

// queueTimes sets the times of the first deliveries of the touched lanes.
func (a *attempt) queueTimes(b *pgx.Batch) {
	var keys []checkpoint.Key
	var times []pgtype.Timestamptz
	a.States = a.Lanes.Decide(a.s.Holds, a.now, func(h *store.LaneHead, at time.Time) {
		keys, times = append(keys, h.Key), append(times, timestamp(at))
	})
	if len(keys) > 0 {
		sinks, tables, ids := keyArrays(keys)
		b.Queue(a.s.SQL(setTimes), a.s.Cfg.Pipeline, sinks, tables, ids, times)
	}
}

// keyArrays are keys as parameters.
func keyArrays(keys []checkpoint.Key) (sinks, tables, ids []string) {
	sinks, tables, ids = make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		sinks[i], tables[i], ids[i] = k.Sink, k.Table, k.ID
	}
	return sinks, tables, ids
}
