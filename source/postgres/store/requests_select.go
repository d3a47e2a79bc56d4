package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// matching is whether a delivery is among those that a selection narrows down to, apart from its states, its groups and its ids. Its parameters are the
	// first ones of a query, those of matchingArgs.
	matching = `coalesce(($2::text IS NULL OR p.type LIKE $2) AND ($3::text IS NULL OR p.topic LIKE $3) AND ($4::text IS NULL OR coalesce(p.tenant, '') LIKE $4)
	AND ($5::text IS NULL OR p.last_error LIKE $5 OR p.error_class LIKE $5) AND ($6::text IS NULL OR p.sink = $6)
	AND ($7 = '' OR right('.' || p.source_table, length($7) + 1) = '.' || $7)
	AND ($8 = '' OR strpos(p.message_id, $8) > 0 OR strpos(p.sent_id, $8) > 0 OR strpos(p.message_group, $8) > 0 OR position($9::bytea IN p.key) > 0), false)`

	selectedColumns = `p.sink, p.message_group, p.position, p.message_id, p.source_table, p.state, p.blocks, p.alone, p.row_settled,
	p.state = ANY ($16::text[]) AND ` + matching + ` AND coalesce(CASE WHEN p.state = 'dead' THEN p.changed_at
		WHEN p.state = 'retrying' AND p.tries = 1 THEN p.tried_at ELSE p.parked_at END <= (SELECT requested_at FROM {request} WHERE id = $17), true) AS match`
	selectedAfter = `(p.sink, p.message_group, p.position, p.message_id, p.source_table) > ($10, $11, $12, $13, $14)`
	selectedOrder = ` ORDER BY p.sink, p.message_group, p.position, p.message_id, p.source_table LIMIT $15`

	// selectAll goes through everything that is parked: each delivery is in one of the two indexes.
	selectAll = `(SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.blocks AND ` + selectedAfter + selectedOrder + `)
	UNION ALL (SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND NOT p.blocks AND ` + selectedAfter + selectedOrder + `)`
	// selectLanes goes through lanes.
	selectLanes = `SELECT p.* FROM unnest($18::text[], $19::text[]) AS l (sink, message_group) CROSS JOIN LATERAL (
	(SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group
		AND p.blocks AND ` + selectedAfter + selectedOrder + `)
	UNION ALL (SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group
		AND NOT p.blocks AND ` + selectedAfter + selectedOrder + `)) p`
	// selectIDs looks messages up, by the id of their row or the one that an edit gave them.
	selectIDs = `SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = ANY ($18::text[]) AND ` +
		selectedAfter + ` AND ($19::text[] IS NULL OR p.message_group = ANY ($19::text[]))
	UNION SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sent_id = ANY ($18::text[]) AND ` +
		selectedAfter + ` AND ($19::text[] IS NULL OR p.message_group = ANY ($19::text[]))`
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

// matchingArgs are the first parameters of a query with matching.
func matchingArgs(pipeline string, sel *checkpoint.Selection) []any {
	return []any{pipeline, like(sel.Type), like(sel.Topic), like(sel.Tenant), like(sel.Reason), atSink(sel), sel.Table, sel.Search, []byte(sel.Search)}
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
	args := append(matchingArgs(s.Cfg.Pipeline, sel), after.Sink, after.Group, after.Position, after.ID, after.Table, store.ScanChunk, store.StatesOf(r), asked)
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
