package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

const (
	selectedColumns = `p.sink, p.message_group, p.position, p.message_id, p.source_table, p.state, p.blocks, p.alone, p.row_settled,
	p.state = ANY ($8::text[]) AND ($9::text IS NULL OR p.type LIKE $9) AND ($11::text IS NULL OR p.sink = $11)
	AND ($10::text IS NULL OR p.last_error LIKE $10 OR p.error_class LIKE $10)
	AND ($13 = '' OR right('.' || p.source_table, length($13) + 1) = '.' || $13)
	AND coalesce(CASE WHEN p.state = 'dead' THEN p.changed_at WHEN p.state = 'retrying' AND p.tries = 1 THEN p.tried_at ELSE p.parked_at END <=
		(SELECT requested_at FROM {request} WHERE id = $12), true) AS match`
	selectedAfter = `(p.sink, p.message_group, p.position, p.message_id, p.source_table) > ($2, $3, $4, $5, $6)`
	selectedOrder = ` ORDER BY p.sink, p.message_group, p.position, p.message_id, p.source_table LIMIT $7`

	// selectAll goes through everything that is parked: each delivery is in one of the two indexes.
	selectAll = `(SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.blocks AND ` + selectedAfter + selectedOrder + `)
	UNION ALL (SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND NOT p.blocks AND ` + selectedAfter + selectedOrder + `)`
	// selectLanes goes through lanes.
	selectLanes = `SELECT p.* FROM unnest($14::text[], $15::text[]) AS l (sink, message_group) CROSS JOIN LATERAL (
	(SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group
		AND p.blocks AND ` + selectedAfter + selectedOrder + `)
	UNION ALL (SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group
		AND NOT p.blocks AND ` + selectedAfter + selectedOrder + `)) p`
	// selectIDs looks messages up, by the id of their row or the one that an edit gave them.
	selectIDs = `SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = ANY ($14::text[]) AND ` +
		selectedAfter + ` AND ($15::text[] IS NULL OR p.message_group = ANY ($15::text[]))
	UNION SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sent_id = ANY ($14::text[]) AND ` +
		selectedAfter + ` AND ($15::text[] IS NULL OR p.message_group = ANY ($15::text[]))`
	// selectFrame returns those that match and the last one that was looked at.
	selectFrame = `SELECT sink, message_group, position, message_id, source_table, state, blocks, alone, row_settled, match, n FROM (
	SELECT u.*, count(*) OVER () AS n, lead(true) OVER (ORDER BY sink, message_group, position, message_id, source_table) IS NULL AS last
	FROM (SELECT * FROM (`
	selectFrameEnd = `) p` + selectedOrder + `) u) w WHERE match OR last
	ORDER BY sink, message_group, position, message_id, source_table`
)

// like is a glob as a pattern for LIKE; nil if there is none.
func like(glob string) *string {
	if glob == "" {
		return nil
	}
	pattern := store.LikePattern(glob, '\\')
	return &pattern
}

// atSink is the parameter for the sink that a selection is limited to; NULL for none.
func atSink(sel *checkpoint.Selection) *string {
	if name, ok := sel.AtSink(); ok {
		return &name
	}
	return nil
}

// Select implements store.Requests. If a request names no ids, it does not reach what was parked, died or first failed after it was made, because
// nobody had seen that, and a request may wait long for a relay.
func (s *Store) Select(ctx context.Context, r *checkpoint.Request, done *store.RequestResult) (*store.Chunk, error) {
	sel := &r.Selection
	from := selectAll
	var one, two []string // what the query is limited to
	after := store.Behind(sel, done)
	switch {
	case len(sel.IDs) > 0:
		from, one, two = selectIDs, sel.IDs, sel.Groups
	case len(sel.Groups) > 0:
		from = selectLanes
		if one, two = store.LanesFrom(sel, after, s.Sinks); len(one) == 0 {
			return &store.Chunk{End: true}, nil
		}
	}
	asked := r.ID
	if len(sel.IDs) > 0 {
		asked = 0
	}
	args := []any{s.Cfg.Pipeline, after.Sink, after.Group, after.Position, after.ID, after.Table, store.ScanChunk, store.StatesOf(r),
		like(sel.Type), like(sel.Reason), atSink(sel), asked, sel.Table}
	if from != selectAll {
		args = append(args, one, two)
	}
	rows, err := s.Conn.Query(ctx, s.SQL(selectFrame+from+selectFrameEnd), args...)
	if err != nil {
		return nil, s.Fault("select deliveries", err)
	}
	c := &store.Chunk{}
	var row store.SelectedRow
	var match bool
	n := 0
	if _, err := pgx.ForEachRow(rows, []any{&row.Sink, &row.Group, &row.Position, &row.ID, &row.Table, &row.State, &row.Blocks,
		&row.Alone, &row.RowSettled, &match, &n}, func() error {
		c.Look(r, &row, match)
		return nil
	}); err != nil {
		return nil, s.Fault("select deliveries", err)
	}
	c.Finish(r, n >= store.ScanChunk, done)
	return c, nil
}
