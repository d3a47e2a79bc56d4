package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// selectedColumns are what a selection reads of a delivery; the last one tells whether it matches. A request does not reach
	// what was parked, died, or failed first, after it was asked for.
	selectedColumns = `p.sink, p.message_group, p.position, p.message_id, p.source_table, p.state, p.blocks, p.alone, p.row_settled,
	p.state IN (?) AND ? AND COALESCE(IF(p.state = 'dead', p.changed_at,
	IF(p.state = 'retrying' AND p.tries = 1, p.tried_at, p.parked_at)) <= (SELECT requested_at FROM {request} WHERE id = ?), 1)`

	// selectedAfter is the condition for what follows a delivery in the order of requests, in the words that an index can serve.
	selectedAfter = `(p.sink > ? OR p.sink = ? AND (p.message_group > ? OR p.message_group = ? AND (p.position > ?
	OR p.position = ? AND (p.message_id > ? OR p.message_id = ? AND p.source_table > ?))))`
	selectedOrder = ` ORDER BY p.sink, p.message_group, p.position, p.message_id, p.source_table LIMIT ?`
)

// selection is what the queries of one chunk share.
type selection struct {
	s     *Store
	match []any // the arguments of selectedColumns
	after store.ParkedKey
	rows  []store.SelectedRow
	fits  []bool // parallel to rows
}

// Select implements store.Requests. A request that names no ids does not reach what was parked, died, or failed first,
// after it was asked for: nobody has seen that, and a request may lie about for long until a relay runs.
func (s *Store) Select(ctx context.Context, r *checkpoint.Request, done *store.RequestResult) (*store.Chunk, error) {
	sel := &r.Selection
	asked := r.ID
	if len(sel.IDs) > 0 {
		asked = 0
	}
	q := &selection{s: s, match: []any{quote.List(store.StatesOf(r)), s.Matching(sel), asked}, after: store.Behind(sel, done)}
	b := s.Batch()
	switch {
	case len(sel.IDs) > 0:
		q.queueIDs(b, sel)
	case len(sel.Groups) > 0:
		sinks, groups := store.LanesFrom(sel, q.after, s.Sinks)
		if len(sinks) == 0 {
			return &store.Chunk{End: true}, nil
		}
		// Most lanes have few deliveries; those that have many fill the chunk.
		for i := 0; i < len(sinks) && len(q.rows) <= store.ScanChunk; i++ {
			q.queueLane(b, sinks[i], groups[i])
			if i%laneChunk == laneChunk-1 {
				if err := s.Send(ctx, b); err != nil {
					return nil, server.Fault("select deliveries", err)
				}
			}
		}
	default:
		q.queueAll(b)
	}
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("select deliveries", err)
	}
	return q.chunk(r, done), nil
}

// Matching is the condition for deliveries that a selection is about, apart from their states and the time.
func (s *Store) Matching(sel *checkpoint.Selection) quote.Raw {
	conds := []string{"TRUE"}
	like := func(glob string, columns ...string) {
		if glob == "" {
			return
		}
		pattern := quote.Text(store.LikePattern(glob, '|'))
		var any []string
		for _, column := range columns {
			any = append(any, "COALESCE(CONVERT("+column+" USING utf8mb4) COLLATE utf8mb4_bin LIKE "+pattern+" ESCAPE '|', 0)")
		}
		conds = append(conds, "("+strings.Join(any, " OR ")+")")
	}
	like(sel.Type, "p.type")
	like(sel.Topic, "p.topic")
	like(sel.Tenant, "COALESCE(p.tenant, '')")
	like(sel.Reason, "p.last_error", "p.error_class")
	if name, limited := sel.AtSink(); limited {
		conds = append(conds, "p.sink = "+quote.Text(name))
	}
	if sel.Table != "" {
		conds = append(conds, fmt.Sprintf("RIGHT(CONCAT('.', p.source_table), %d) = ", utf8.RuneCountInString(sel.Table)+1)+string(quote.Append(nil, quote.Bin("."+sel.Table))))
	}
	if sel.Search != "" {
		part := string(quote.Append(nil, quote.Bin(sel.Search)))
		var any []string
		for _, column := range []string{"message_id", "sent_id", "message_group", "`key`"} {
			any = append(any, "COALESCE(LOCATE("+part+", CAST(p."+column+" AS BINARY)), 0) > 0")
		}
		conds = append(conds, "("+strings.Join(any, " OR ")+")")
	}
	return quote.Raw(strings.Join(conds, " AND "))
}

// query adds a query for deliveries that fulfil a condition, in order after a place.
func (q *selection) query(b *session.Batch, index, where string, args ...any) {
	k := &q.after
	all := append(slices.Clone(q.match), args...)
	all = append(all, k.Sink, k.Sink, quote.Bin(k.Group), quote.Bin(k.Group), k.Position, k.Position, quote.Bin(k.ID), quote.Bin(k.ID), quote.Bin(k.Table), store.ScanChunk)
	b.Each(func(r session.Row) error {
		q.rows = append(q.rows, store.SelectedRow{
			ParkedKey: store.ParkedKey{Sink: r.Text(0), Group: r.Text(1), Position: r.Text(2), ID: r.Text(3), Table: r.Text(4)},
			State:     checkpoint.State(r.Text(5)), Blocks: r.Bool(6), Alone: r.Bool(7), RowSettled: r.Bool(8)})
		q.fits = append(q.fits, r.Bool(9))
		return nil
	}, "SELECT "+selectedColumns+" FROM {parked} p FORCE INDEX ("+index+") WHERE p.pipeline = ? AND "+where+" AND "+selectedAfter+selectedOrder,
		all...)
}

// queueAll goes through everything that is parked.
func (q *selection) queueAll(b *session.Batch) {
	for _, blocks := range []bool{true, false} {
		q.query(b, "tailbox_parked_lane", "p.blocks = ?", q.s.Config.Pipeline, blocks)
	}
}

// queueLane goes through a lane.
func (q *selection) queueLane(b *session.Batch, sink, group string) {
	for _, blocks := range []bool{true, false} {
		q.query(b, "tailbox_parked_lane", "p.blocks = ? AND p.sink = ? AND p.message_group = ?", q.s.Config.Pipeline, blocks, sink, quote.Bin(group))
	}
}

// queueIDs looks messages up, by the id of their row or the one that an edit gave them.
func (q *selection) queueIDs(b *session.Batch, sel *checkpoint.Selection) {
	groups := quote.Raw("TRUE")
	if len(sel.Groups) > 0 {
		groups = quote.Raw("p.message_group IN (" + string(quote.Append(nil, quote.List(sel.Groups))) + ")")
	}
	for chunk := range slices.Chunk(sel.IDs, keyChunk) {
		q.query(b, "PRIMARY", "p.message_id IN (?) AND ?", q.s.Config.Pipeline, quote.List(chunk), groups)
		q.query(b, "tailbox_parked_sent", "p.sent_id IN (?) AND ?", q.s.Config.Pipeline, quote.List(chunk), groups)
	}
}

// chunk puts what the queries found in order, each delivery once, and cuts it to one chunk.
func (q *selection) chunk(r *checkpoint.Request, done *store.RequestResult) *store.Chunk {
	order := make([]int, len(q.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return q.rows[i].Compare(&q.rows[j].ParkedKey) })
	order = slices.CompactFunc(order, func(i, j int) bool { return q.rows[i].ParkedKey == q.rows[j].ParkedKey })
	c := &store.Chunk{}
	for _, i := range order[:min(len(order), store.ScanChunk)] {
		c.Look(r, &q.rows[i], q.fits[i])
	}
	c.Finish(r, len(order) >= store.ScanChunk, done)
	return c
}
