package mysql

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// laneChunk is the most lanes of one query.
const laneChunk = 50

// A laneHead is the first blocking delivery of a lane.
type laneHead struct {
	key      checkpoint.Key
	state    checkpoint.State
	position string
	timed    bool // has a time
	due      bool // which has come
}

// headOf reads the first blocking delivery of a lane. Its first column is the lane's place in the list.
const headOf = `(SELECT ? AS n, source_table, message_id, state, position, next_attempt_at IS NOT NULL, COALESCE(next_attempt_at <= UTC_TIMESTAMP(6), 0)
	FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND sink = ? AND message_group = ?
	ORDER BY position LIMIT 1)`

// queueHeadsOf asks for the first blocking deliveries of lanes.
func (s *stateStore) queueHeadsOf(b *batch, lanes []checkpoint.Lane, to map[checkpoint.Lane]*laneHead) {
	for chunk := range slices.Chunk(lanes, laneChunk) {
		args := make([]any, 0, 4*len(chunk))
		for i, lane := range chunk {
			args = append(args, i, s.cfg.Pipeline, lane.Sink, bin(lane.Group))
		}
		b.each(func(r row) error {
			lane := chunk[r.num(0)]
			to[lane] = &laneHead{key: checkpoint.Key{Sink: lane.Sink, Table: r.text(1), ID: r.text(2)}, state: checkpoint.State(r.text(3)),
				position: r.text(4), timed: r.bool(5), due: r.bool(6)}
			return nil
		}, strings.Repeat(headOf+"\nUNION ALL ", len(chunk)-1)+headOf, args...)
	}
}

// queueLanes asks for the first deliveries of the touched lanes, and of those of the sink ” in the same groups, which may hold
// them up. Touched lanes of the sink ” stand for their group's lanes at every sink, too.
func (a *attempt) queueLanes(b *batch) {
	touched := &a.lanes
	touched.Spread(a.s.sinks)
	var all store.LaneSet
	for _, lane := range touched.Order {
		all.Add(lane)
		all.Add(checkpoint.Lane{Group: lane.Group})
	}
	if len(all.Order) > 0 {
		a.s.queueHeadsOf(b, all.Order, a.heads)
	}
}

// queueHeads brings lanes in order after deliveries came or left, and finds out whether they are blocked, and due.
//
// The first blocking delivery of a lane is the only one with a time: it gets the present one where it has none and nothing
// holds it up, and loses the one it has where it waits for an operator, its lane is held, or the sink ” has an earlier
// delivery of its group. So whatever leaves, the next one follows in the same transaction; and a lane never waits for a time
// that nobody set.
func (a *attempt) queueHeads(b *batch) {
	a.states = make([]store.LaneState, len(a.lanes.Order))
	for i, lane := range a.lanes.Order {
		head := a.heads[lane]
		if before := a.was[lane]; before != nil && before.timed && (head == nil || head.key != before.key) {
			a.queueTime(b, before.key, nil)
		}
		if head == nil {
			continue
		}
		unrouted := a.heads[checkpoint.Lane{Group: lane.Group}]
		ready := store.Active(head.state) && !a.s.held.Has(lane) &&
			(lane.Sink == "" || unrouted == nil || unrouted.position > head.position)
		wait, wanted := a.wanted[head.key]
		switch {
		case ready && wanted:
			a.queueTime(b, head.key, a.now.Add(wait))
			head.due = wait <= 0
		case ready && !head.timed:
			a.queueTime(b, head.key, *a.now)
			head.due = true
		case !ready && head.timed:
			a.queueTime(b, head.key, nil)
		}
		a.states[i] = store.LaneState{Blocked: true, Due: ready && head.due}
	}
}

// queueTime sets the time of a blocking delivery. It may be gone: then it has none.
func (a *attempt) queueTime(b *batch, k checkpoint.Key, at any) {
	b.exec("UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.next_attempt_at = ? WHERE "+whereKeys+" AND p.blocks = 1", at,
		a.s.cfg.Pipeline, list{k.ID}, bin(k.Table), k.Sink)
}
