package mongo

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
)

// headChunk is how many lanes are looked up at once.
const headChunk = 2000

// A laneSet holds lanes in the order they were added.
type laneSet struct {
	order []checkpoint.Lane
	index map[checkpoint.Lane]bool
}

func (l *laneSet) add(lane checkpoint.Lane) {
	if lane.Group == "" || l.index[lane] {
		return // deliveries without a group wait for none
	}
	if l.index == nil {
		l.index = make(map[checkpoint.Lane]bool)
	}
	l.index[lane] = true
	l.order = append(l.order, lane)
}

// A laneState is what a settlement leaves of a lane.
type laneState struct{ blocked, due bool }

// A head is the first blocking delivery of a lane.
type head struct {
	OID      bson.ObjectID    `bson:"_id"`
	Position string           `bson:"position"`
	State    checkpoint.State `bson:"state"`
	Next     *time.Time       `bson:"next_attempt_at"`
}

// heads reads the first blocking deliveries of lanes, in one command: the lanes travel with it, and each is looked up by the
// index.
func (s *store) heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]head, error) {
	out := make(map[checkpoint.Lane]head, len(lanes))
	for part := range slices.Chunk(lanes, headChunk) {
		list := make(bson.A, len(part))
		for i, lane := range part {
			list[i] = bson.D{{Key: "n", Value: i}, {Key: "sink", Value: lane.Sink}, {Key: "group", Value: lane.Group}}
		}
		eq := func(field string, v any) bson.D { return bson.D{{Key: "$eq", Value: bson.A{"$" + field, v}}} }
		cur, err := s.checkpoints.Aggregate(ctx, bson.A{
			bson.D{{Key: "$match", Value: s.mine()}},
			bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: "lane", Value: literal(list)}}}},
			bson.D{{Key: "$unwind", Value: "$lane"}},
			bson.D{{Key: "$lookup", Value: bson.D{{Key: "from", Value: parkedCollection}, {Key: "as", Value: "head"},
				{Key: "let", Value: bson.D{{Key: "sink", Value: "$lane.sink"}, {Key: "group", Value: "$lane.group"}}},
				{Key: "pipeline", Value: bson.A{
					bson.D{{Key: "$match", Value: bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "blocks", Value: true},
						{Key: "$expr", Value: bson.D{{Key: "$and", Value: bson.A{eq("sink", "$$sink"), eq("message_group", "$$group")}}}}}}},
					bson.D{{Key: "$sort", Value: bson.D{{Key: "position", Value: 1}, {Key: "message_id", Value: 1}}}},
					bson.D{{Key: "$limit", Value: 1}},
					bson.D{{Key: "$project", Value: bson.D{{Key: "position", Value: 1}, {Key: "state", Value: 1}, {Key: "next_attempt_at", Value: 1}}}},
				}}}}},
			bson.D{{Key: "$project", Value: bson.D{{Key: "n", Value: "$lane.n"}, {Key: "head", Value: 1}}}},
		})
		if err != nil {
			return nil, err
		}
		var found []struct {
			N    int    `bson:"n"`
			Head []head `bson:"head"`
		}
		if err := cur.All(ctx, &found); err != nil {
			return nil, err
		}
		for _, f := range found {
			if len(f.Head) > 0 {
				out[part[f.N]] = f.Head[0]
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
	for _, lane := range slices.Clone(a.lanes.order) {
		if lane.Sink != "" {
			continue
		}
		for sink := range s.sinks { // those of the sink ” hold up their group's lanes at every sink
			a.lanes.add(checkpoint.Lane{Sink: sink, Group: lane.Group})
		}
	}
	if len(a.lanes.order) == 0 {
		return nil
	}
	asked := laneSet{}
	for _, lane := range a.lanes.order {
		asked.add(lane)
		if s.sinks[""] {
			asked.add(checkpoint.Lane{Group: lane.Group})
		}
	}
	heads, err := s.heads(ctx, asked.order)
	if err != nil {
		return err
	}
	for _, lane := range a.lanes.order {
		h, blocked := heads[lane]
		if !blocked {
			continue
		}
		ready := active(h.State) && !s.isHeld(lane)
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
		a.states[lane] = laneState{blocked: true, due: due}
	}
	return a.flush(ctx)
}

// isHeld tells whether an operator holds the lane: by itself, or its group at every sink (a hold that names no sink).
func (s *store) isHeld(lane checkpoint.Lane) bool {
	return s.held[lane] || s.held[checkpoint.Lane{Group: lane.Group}]
}
