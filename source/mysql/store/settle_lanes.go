package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// laneChunk is the most lanes of one query.
const laneChunk = 50

// headOf reads the first blocking delivery of a lane. Its first column is the lane's place in the list.
const headOf = `(SELECT ? AS n, source_table, message_id, state, position, next_attempt_at
	FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND sink = ? AND message_group = ?
	ORDER BY position LIMIT 1)`

// QueueHeadsOf asks for the first blocking deliveries of lanes.
func (s *Store) QueueHeadsOf(b *session.Batch, lanes []checkpoint.Lane, to map[checkpoint.Lane]*store.LaneHead) {
	for chunk := range slices.Chunk(lanes, laneChunk) {
		args := make([]any, 0, 4*len(chunk))
		for i, lane := range chunk {
			args = append(args, i, s.Config.Pipeline, lane.Sink, quote.Bin(lane.Group))
		}
		b.Each(func(r session.Row) error {
			lane := chunk[r.Num(0)]
			next, err := r.Time(5)
			to[lane] = &store.LaneHead{Key: checkpoint.Key{Sink: lane.Sink, Table: r.Text(1), ID: r.Text(2)}, State: checkpoint.State(r.Text(3)),
				Position: r.Text(4), Next: next}
			return err
		}, strings.Repeat(headOf+"\nUNION ALL ", len(chunk)-1)+headOf, args...)
	}
}

// countLanes counts what happens in each lane.
func (a *attempt) countLanes() {
	a.changes, a.parks = make(map[checkpoint.Lane]int), make(map[checkpoint.Lane]int)
	for i := range a.In.Changes {
		a.changes[store.LaneOf(&a.In.Changes[i])]++
	}
	for i := range a.In.Park {
		p := &a.In.Park[i]
		a.parks[checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group}]++
	}
}

// foundHead tells the lanes what the first blocking delivery of one is, and returns the time that its row is to get. That is for lanes in which nothing
// else happens: reading each lane again costs as much as the rest of a settlement.
func (a *attempt) foundHead(lane checkpoint.Lane, k checkpoint.Key, position string, state checkpoint.State, due bool, wait time.Duration) (next time.Time) {
	if store.Timed(due, state) {
		next = a.now.Add(wait)
	}
	a.Lanes.Found(lane, &store.LaneHead{Key: k, Position: position, State: state, Next: next})
	return next
}

// Heads implements relational.Statements.
func (s *Store) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	heads := make(map[checkpoint.Lane]*store.LaneHead, len(lanes))
	b := s.Batch()
	s.QueueHeadsOf(b, lanes, heads)
	return heads, s.Send(ctx, b)
}

// queueTimes brings lanes in order.
func (a *attempt) queueTimes(b *session.Batch) {
	a.States = a.Lanes.Decide(a.s.Holds, *a.now, func(h *store.LaneHead, at time.Time) {
		b.Exec("UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.next_attempt_at = ? WHERE "+whereKeys+" AND p.blocks = 1", at,
			a.s.Config.Pipeline, quote.List{h.ID}, quote.Bin(h.Table), h.Sink)
	})
}
