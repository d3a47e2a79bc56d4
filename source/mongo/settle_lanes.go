package mongo

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// headChunk is how many lanes are looked up at once.
const headChunk = 2000

// A head is the first blocking delivery of a lane.
type head struct {
	Group    string           `bson:"_id"`
	OID      bson.ObjectID    `bson:"oid"`
	Table    string           `bson:"table"`
	ID       string           `bson:"id"`
	Position string           `bson:"position"`
	State    checkpoint.State `bson:"state"`
	Next     *time.Time       `bson:"next"`
}

// heads reads the first blocking deliveries of lanes. The server steps from lane to lane along the index, so that it costs by
// lanes, not by what waits in them.
func (s *stateStore) heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]head, error) {
	groups := make(map[string][]string)
	for _, lane := range lanes {
		groups[lane.Sink] = append(groups[lane.Sink], lane.Group)
	}
	first := func(field string) bson.D { return bson.D{{Key: "$first", Value: "$" + field}} }
	out := make(map[checkpoint.Lane]head, len(lanes))
	for _, sink := range sortedNames(groups) {
		for part := range slices.Chunk(groups[sink], headChunk) {
			cur, err := s.parked.Aggregate(ctx, bson.A{
				bson.D{{Key: "$match", Value: s.ours(bson.E{Key: "blocks", Value: true}, bson.E{Key: "sink", Value: sink},
					bson.E{Key: "message_group", Value: bson.D{{Key: "$in", Value: part}}})}},
				bson.D{{Key: "$sort", Value: bson.D{{Key: "message_group", Value: 1}, {Key: "position", Value: 1}, {Key: "message_id", Value: 1}}}},
				bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$message_group"}, {Key: "oid", Value: first("_id")},
					{Key: "table", Value: first("source_table")}, {Key: "id", Value: first("message_id")},
					{Key: "position", Value: first("position")}, {Key: "state", Value: first("state")}, {Key: "next", Value: first("next_attempt_at")}}}},
			}, options.Aggregate().SetHint(laneIndex))
			if err != nil {
				return nil, err
			}
			var found []head
			if err := cur.All(ctx, &found); err != nil {
				return nil, err
			}
			for _, h := range found {
				out[checkpoint.Lane{Sink: sink, Group: h.Group}] = h
			}
		}
	}
	return out, nil
}

// putLanesInOrder looks at lanes after deliveries came or left.
//
// The first blocking delivery of a lane is the only one with a time: it gets the one that it was parked or altered with, or
// now where it has none and nothing holds it up, and loses the one it has where it waits for an operator, its lane is
// held, or the sink ” has an earlier delivery of its group. So whatever leaves, the next one follows in the same transaction;
// and a lane never waits for a time that nobody set.
func (a *attempt) putLanesInOrder(ctx context.Context) error {
	s := a.s
	a.lanes.Spread(s.sinks)
	if len(a.lanes.Order) == 0 {
		return nil
	}
	asked := store.LaneSet{}
	for _, lane := range a.lanes.Order {
		asked.Add(lane)
		if s.sinks[""] {
			asked.Add(checkpoint.Lane{Group: lane.Group})
		}
	}
	heads, err := s.heads(ctx, asked.Order)
	if err != nil {
		return err
	}
	for _, lane := range a.lanes.Order {
		h, blocked := heads[lane]
		if !blocked {
			continue
		}
		ready := store.Active(h.State) && !s.held.Has(lane)
		if z, ok := heads[checkpoint.Lane{Group: lane.Group}]; ok && lane.Sink != "" && z.Position <= h.Position {
			ready = false
		}
		at, wanted := a.want[h.OID]
		if !wanted {
			at = a.now
		}
		due := false
		switch {
		case ready && h.Next == nil:
			a.writes.set(h.OID, bson.D{{Key: "next_attempt_at", Value: at}})
			due = !at.After(a.now)
		case ready:
			due = !h.Next.After(a.now)
		case h.Next != nil:
			a.writes.set(h.OID, nil, "next_attempt_at")
		}
		a.states[lane] = store.LaneState{Blocked: true, Due: due}
	}
	return a.flush(ctx)
}

// laneStates are the states of lanes, in their order.
func (a *attempt) laneStates() []store.LaneState {
	states := make([]store.LaneState, len(a.lanes.Order))
	for i, lane := range a.lanes.Order {
		states[i] = a.states[lane]
	}
	return states
}
