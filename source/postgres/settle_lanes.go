package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/store"
)

// headLanes brings lanes in order after deliveries came or left, and tells about each: blocked (it has a row here at
// all), and due.
//
// The first blocking delivery of a lane is the only one with a time: it gets now() where it has none and nothing holds it
// up, and loses the one it has where it waits for an operator, its lane is held, or the sink ” has an earlier delivery of
// its group. So whatever leaves, the next one follows in the same transaction; and a lane never waits for a time that nobody set.
const headLanes = `
WITH lane AS (
	SELECT * FROM unnest($2::text[], $3::text[], $4::bool[]) WITH ORDINALITY AS l (sink, message_group, held, n)
), head AS MATERIALIZED (
	SELECT l.n, h.at, h.next_attempt_at,
		h.state IN ('retrying', 'waiting') AND NOT l.held AND (z.position IS NULL OR z.position > h.position) AS ready
	FROM lane l CROSS JOIN LATERAL (
		SELECT p.ctid AS at, p.state, p.position, p.next_attempt_at FROM {parked} p
		WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group AND p.blocks
		ORDER BY p.position LIMIT 1) h
	LEFT JOIN LATERAL (
		SELECT p.position FROM {parked} p
		WHERE l.sink <> '' AND p.pipeline = $1 AND p.sink = '' AND p.message_group = l.message_group AND p.blocks
		ORDER BY p.position LIMIT 1) z ON true
), moved AS (
	UPDATE {parked} p SET next_attempt_at = CASE WHEN h.ready THEN now() END
	FROM head h WHERE p.ctid = h.at AND h.ready <> (h.next_attempt_at IS NOT NULL)
)
SELECT n - 1, ready AND (next_attempt_at IS NULL OR next_attempt_at <= now()) FROM head`

// queueLanes adds headLanes for the touched lanes. Those of the sink ” stand for their group's lanes at every sink, too,
// since they hold them up. The states are filled in when the batch runs, in the order of touched.
func (s *stateStore) queueLanes(b *pgx.Batch, touched *store.LaneSet, states *[]store.LaneState) {
	touched.Spread(s.sinks)
	if len(touched.Order) == 0 {
		return
	}
	sinks, groups := make([]string, len(touched.Order)), make([]string, len(touched.Order))
	held := make([]bool, len(touched.Order))
	for i, lane := range touched.Order {
		sinks[i], groups[i], held[i] = lane.Sink, lane.Group, s.held.Has(lane)
	}
	*states = make([]store.LaneState, len(touched.Order))
	b.Queue(s.q(headLanes), s.cfg.Pipeline, sinks, groups, held).Query(func(rows pgx.Rows) error {
		var n int64
		var due bool
		_, err := pgx.ForEachRow(rows, []any{&n, &due}, func() error {
			(*states)[n] = store.LaneState{Blocked: true, Due: due}
			return nil
		})
		return err
	})
}
