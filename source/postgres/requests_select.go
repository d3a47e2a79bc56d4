package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
)

// scanChunk bounds how many deliveries one transaction looks at for those that a request selects. Among millions of which
// it wants few, it comes back for the rest.
const scanChunk = 5000

// A parkedKey is a delivery's place in the order in which requests go through tailbox_parked: by lane, and within it by
// position.
type parkedKey struct {
	Sink     string `json:"sink"`
	Group    string `json:"group"`
	Position string `json:"position"`
	ID       string `json:"id"`
	Table    string `json:"table"`
}

func (k *parkedKey) lane() checkpoint.Lane { return checkpoint.Lane{Sink: k.Sink, Group: k.Group} }

// A selectedRow is a delivery that a request selects.
type selectedRow struct {
	parkedKey
	state      checkpoint.State
	blocks     bool
	alone      bool
	rowSettled bool
}

// A chunk is the next deliveries that a request selects, in order.
type chunk struct {
	rows []selectedRow
	last *parkedKey // the last one that was looked at
	end  bool       // nothing follows
}

// selects tells whether the verb is about parked deliveries.
func selects(v checkpoint.Verb) bool {
	switch v {
	case checkpoint.VerbReplay, checkpoint.VerbEdit, checkpoint.VerbDrop, checkpoint.VerbSkip:
		return true
	}
	return false
}

const (
	selectedColumns = `p.sink, p.message_group, p.position, p.message_id, p.source_table, p.state, p.blocks, p.alone, p.row_settled,
	p.state = ANY ($8::text[]) AND ($9 = '' OR p.type LIKE $9) AND ($11::text IS NULL OR p.sink = $11)
	AND ($10 = '' OR p.last_error LIKE $10 OR p.error_class LIKE $10)
	AND coalesce(CASE WHEN p.state = 'dead' THEN p.changed_at ELSE p.parked_at END <=
		(SELECT requested_at FROM {request} WHERE id = $12), true) AS match`
	selectedAfter = `(p.sink, p.message_group, p.position, p.message_id, p.source_table) > ($2, $3, $4, $5, $6)`
	selectedOrder = ` ORDER BY p.sink, p.message_group, p.position, p.message_id, p.source_table LIMIT $7`

	// selectAll goes through everything that is parked: each delivery is in one of the two indexes.
	selectAll = `(SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.blocks AND ` + selectedAfter + selectedOrder + `)
	UNION ALL (SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND NOT p.blocks AND ` + selectedAfter + selectedOrder + `)`
	// selectLanes goes through lanes.
	selectLanes = `SELECT p.* FROM unnest($13::text[], $14::text[]) AS l (sink, message_group) CROSS JOIN LATERAL (
	(SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group
		AND p.blocks AND ` + selectedAfter + selectedOrder + `)
	UNION ALL (SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group
		AND NOT p.blocks AND ` + selectedAfter + selectedOrder + `)) p`
	// selectIDs looks messages up, by the id of their row or the one that an edit gave them.
	selectIDs = `SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = ANY ($13::text[]) AND ` +
		selectedAfter + ` AND ($14::text[] IS NULL OR p.message_group = ANY ($14::text[]))
	UNION SELECT ` + selectedColumns + ` FROM {parked} p WHERE p.pipeline = $1 AND p.sent_id = ANY ($13::text[]) AND ` +
		selectedAfter + ` AND ($14::text[] IS NULL OR p.message_group = ANY ($14::text[]))`
	// selectFrame returns those that match and the last one that was looked at.
	selectFrame = `SELECT sink, message_group, position, message_id, source_table, state, blocks, alone, row_settled, match, n FROM (
	SELECT u.*, count(*) OVER () AS n, lead(true) OVER (ORDER BY sink, message_group, position, message_id, source_table) IS NULL AS last
	FROM (SELECT * FROM (`
	selectFrameEnd = `) p` + selectedOrder + `) u) w WHERE match OR last
	ORDER BY sink, message_group, position, message_id, source_table`
)

// atSink is the parameter for the sink that a selection is limited to; NULL for none.
func atSink(sel *checkpoint.Selection) *string {
	if name, ok := sel.AtSink(); ok {
		return &name
	}
	return nil
}

// selectChunk reads the next deliveries that a request selects. One that names no ids does not reach what was parked, or died,
// after it was asked for: nobody has seen that, and a request may lie about for long until a relay runs.
func (s *store) selectChunk(ctx context.Context, r *checkpoint.Request, done *RequestResult) (*chunk, error) {
	sel := &r.Selection
	from := selectAll
	var one, two []string // what the query is limited to
	after := parkedKey{Sink: sel.Sink}
	if done.After != nil {
		after = *done.After
	}
	switch {
	case len(sel.IDs) > 0:
		from, one, two = selectIDs, sel.IDs, sel.Groups
	case len(sel.Groups) > 0:
		from = selectLanes
		if one, two = s.lanesFrom(sel, after); len(one) == 0 {
			return &chunk{end: true}, nil
		}
	}
	asked := r.ID
	if len(sel.IDs) > 0 {
		asked = 0
	}
	args := []any{s.cfg.Pipeline, after.Sink, after.Group, after.Position, after.ID, after.Table, scanChunk, statesOf(r),
		likePattern(sel.Type), likePattern(sel.Reason), atSink(sel), asked}
	if from != selectAll {
		args = append(args, one, two)
	}
	rows, err := s.conn.Query(ctx, s.q(selectFrame+from+selectFrameEnd), args...)
	if err != nil {
		return nil, s.fault("select deliveries", err)
	}
	c := &chunk{}
	var row selectedRow
	var match bool
	n := 0
	if _, err := pgx.ForEachRow(rows, []any{&row.Sink, &row.Group, &row.Position, &row.ID, &row.Table, &row.state, &row.blocks,
		&row.alone, &row.rowSettled, &match, &n}, func() error {
		key := row.parkedKey
		c.last = &key
		if match && (r.Verb != checkpoint.VerbSkip || row.blocks) {
			c.rows = append(c.rows, row)
		}
		return nil
	}); err != nil {
		return nil, s.fault("select deliveries", err)
	}
	name, limited := sel.AtSink()
	c.end = n < scanChunk || limited && c.last.Sink > name
	return c, s.limitChunk(c, sel, done)
}

// limitChunk cuts a chunk to one transaction, and to what the request's limit leaves.
func (s *store) limitChunk(c *chunk, sel *checkpoint.Selection, done *RequestResult) error {
	room := requestChunk
	if sel.Limit > 0 {
		left := sel.Limit - done.Changed
		if left <= 0 {
			*c = chunk{end: true}
			return nil
		}
		room = min(room, left)
	}
	if len(c.rows) > room {
		c.cut(room)
	}
	return nil
}

// cut leaves the first n rows; the others are for a later transaction.
func (c *chunk) cut(n int) {
	c.rows, c.end, c.last = c.rows[:n], false, nil
	if n > 0 {
		c.last = &c.rows[n-1].parkedKey
	}
}

// within cuts the chunk before the first delivery that is of none of the lanes.
func (c *chunk) within(lanes []checkpoint.Lane) {
	allowed := make(map[checkpoint.Lane]bool, len(lanes))
	for _, lane := range lanes {
		allowed[lane] = true
	}
	for i := range c.rows {
		if !allowed[c.rows[i].lane()] {
			c.cut(i)
			return
		}
	}
}

// lanesFrom lists the next of the lanes that a selection of groups can be in, from the one of after on.
func (s *store) lanesFrom(sel *checkpoint.Selection, after parkedKey) (sinks, groups []string) {
	wanted := []string{sel.Sink}
	if _, limited := sel.AtSink(); !limited {
		wanted = wanted[:0]
		for sink := range s.sinks {
			wanted = append(wanted, sink)
		}
		slices.Sort(wanted)
	}
	names := slices.Compact(slices.Sorted(slices.Values(sel.Groups)))
	for _, sink := range wanted {
		for _, group := range names {
			if cmp.Or(cmp.Compare(sink, after.Sink), cmp.Compare(group, after.Group)) < 0 {
				continue
			}
			sinks, groups = append(sinks, sink), append(groups, group)
		}
	}
	return sinks, groups
}

// statesOf are the states that a request is about, dead by default.
func statesOf(r *checkpoint.Request) []string {
	if len(r.Selection.States) == 0 || r.Verb == checkpoint.VerbEdit || r.Verb == checkpoint.VerbSkip {
		return []string{string(checkpoint.StateDead)}
	}
	states := make([]string, len(r.Selection.States))
	for i, state := range r.Selection.States {
		states[i] = string(state)
	}
	return states
}

// likePattern turns a glob (* and ?) into a pattern for LIKE; "" stays "".
func likePattern(glob string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`, `?`, `_`).Replace(glob)
}
