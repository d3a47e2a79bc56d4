package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/store"
)

// headChunk is how many lanes are looked up at once.
const headChunk = 2000

// heads reads the first blocking deliveries of lanes. The server steps from lane to lane along the index, so that it costs by
// lanes, not by what waits in them.
func (s *Store) heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	groups := make(map[string][]string)
	for _, lane := range lanes {
		groups[lane.Sink] = append(groups[lane.Sink], lane.Group)
	}
	first := func(field string) bson.D { return bson.D{{Key: "$first", Value: "$" + field}} }
	out := make(map[checkpoint.Lane]*store.LaneHead, len(lanes))
	for _, sink := range slices.Sorted(maps.Keys(groups)) {
		for part := range slices.Chunk(groups[sink], headChunk) {
			cur, err := s.parked.Aggregate(ctx, bson.A{
				bson.D{{Key: "$match", Value: s.ours(bson.E{Key: "blocks", Value: true}, bson.E{Key: "sink", Value: sink},
					bson.E{Key: "message_group", Value: bson.D{{Key: "$in", Value: part}}})}},
				bson.D{{Key: "$sort", Value: bson.D{{Key: "message_group", Value: 1}, {Key: "position", Value: 1}, {Key: "message_id", Value: 1}}}},
				bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$message_group"}, {Key: "oid", Value: first("_id")},
					{Key: "table", Value: first("source_table")}, {Key: "id", Value: first("message_id")},
					{Key: "position", Value: first("position")}, {Key: "state", Value: first("state")}, {Key: "next", Value: first("next_attempt_at")}}}},
			}, options.Aggregate().SetHint(catalog.LaneIndex))
			if err != nil {
				return nil, err
			}
			var found []struct {
				Group    string           `bson:"_id"`
				OID      bson.ObjectID    `bson:"oid"`
				Table    string           `bson:"table"`
				ID       string           `bson:"id"`
				Position string           `bson:"position"`
				State    checkpoint.State `bson:"state"`
				Next     *time.Time       `bson:"next"`
			}
			if err := cur.All(ctx, &found); err != nil {
				return nil, err
			}
			for _, h := range found {
				out[checkpoint.Lane{Sink: sink, Group: h.Group}] = &store.LaneHead{Key: checkpoint.Key{Sink: sink, Table: h.Table, ID: h.ID},
					Position: h.Position, State: h.State, Next: orZero(h.Next), Ref: h.OID}
			}
		}
	}
	return out, nil
}

// putLanesInOrder looks at lanes after deliveries came or left.
func (a *attempt) putLanesInOrder(ctx context.Context) (err error) {
	if asked := a.Lanes.Asked(a.s.Sinks); len(asked) > 0 {
		if a.Lanes.Heads, err = a.s.heads(ctx, asked); err != nil {
			return err
		}
	}
	a.States = a.Lanes.Decide(a.s.Holds, a.now, func(h *store.LaneHead, at time.Time) {
		if at.IsZero() {
			a.writes.set(h.Ref, nil, "next_attempt_at")
		} else {
			a.writes.set(h.Ref, bson.D{{Key: "next_attempt_at", Value: at}})
		}
	})
	return a.flush(ctx)
}
