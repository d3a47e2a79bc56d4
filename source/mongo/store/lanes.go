package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// headChunk is how many lanes are looked up at once.
const headChunk = 2000

// heads reads the first blocking deliveries of lanes. The server steps from lane to lane along the index, so that it costs by
// lanes, not by what waits in them.
func (c parkedCollection) heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	groups := make(map[string][]string)
	for _, lane := range lanes {
		groups[lane.Sink] = append(groups[lane.Sink], lane.Group)
	}
	first := func(field string) bson.D { return bson.D{{Key: "$first", Value: "$" + field}} }
	out := make(map[checkpoint.Lane]*store.LaneHead, len(lanes))
	for _, sink := range slices.Sorted(maps.Keys(groups)) {
		for part := range slices.Chunk(groups[sink], headChunk) {
			cur, err := c.Aggregate(ctx, bson.A{
				bson.D{{Key: "$match", Value: c.ours(bson.E{Key: "blocks", Value: true}, bson.E{Key: "sink", Value: sink},
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

// blockedLanes names the lanes with blocking deliveries, from the index alone.
func (c parkedCollection) blockedLanes(ctx context.Context) ([]checkpoint.Lane, error) {
	cur, err := c.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: c.ours(bson.E{Key: "blocks", Value: true})}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "sink", Value: "$sink"}, {Key: "group", Value: "$message_group"}}}}}},
	}, options.Aggregate().SetHint(catalog.LaneIndex).SetAllowDiskUse(true))
	if err != nil {
		return nil, conn.Fault("load blocked lanes", err)
	}
	var found []struct {
		ID struct{ Sink, Group string } `bson:"_id"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("load blocked lanes", err)
	}
	var lanes []checkpoint.Lane
	for _, f := range found {
		lanes = append(lanes, checkpoint.Lane(f.ID))
	}
	slices.SortFunc(lanes, compareLanes)
	return lanes, nil
}

func compareLanes(a, b checkpoint.Lane) int {
	return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Group, b.Group))
}

// sinks names the sinks with parked deliveries, from the index alone. Deliveries that were dropped, or delivered but for
// their document, do not count.
func (c parkedCollection) sinks(ctx context.Context) ([]string, error) {
	cur, err := c.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: c.ours(bson.E{Key: "blocks", Value: bson.D{{Key: "$in", Value: bson.A{true, false}}}},
			bson.E{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{"retrying", "waiting", "dead"}}}})}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$sink"}}}},
	}, options.Aggregate().SetHint(catalog.LaneIndex).SetAllowDiskUse(true))
	if err != nil {
		return nil, conn.Fault("load sinks with parked deliveries", err)
	}
	var found []struct {
		Sink string `bson:"_id"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("load sinks with parked deliveries", err)
	}
	var sinks []string
	for _, f := range found {
		sinks = append(sinks, f.Sink)
	}
	slices.Sort(sinks)
	return sinks, nil
}

// A laneCount is how many deliveries block a lane.
type laneCount struct {
	lane checkpoint.Lane
	n    int
}

// countLanes counts blocking deliveries by lane behind a place, in order, from the index alone.
func (c parkedCollection) countLanes(ctx context.Context, sel *checkpoint.Selection, after checkpoint.Lane, limit int) ([]laneCount, error) {
	where := c.ours(bson.E{Key: "blocks", Value: true})
	if after != (checkpoint.Lane{}) {
		where = append(where, bson.E{Key: "$or", Value: bson.A{bson.D{{Key: "sink", Value: bson.D{{Key: "$gt", Value: after.Sink}}}},
			bson.D{{Key: "sink", Value: after.Sink}, {Key: "message_group", Value: bson.D{{Key: "$gt", Value: after.Group}}}}}})
	}
	if sink, limited := sel.AtSink(); limited {
		where = append(where, bson.E{Key: "sink", Value: sink})
	}
	if len(sel.Groups) > 0 {
		where = append(where, bson.E{Key: "message_group", Value: bson.D{{Key: "$in", Value: sel.Groups}}})
	}
	stages := bson.A{bson.D{{Key: "$match", Value: where}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "sink", Value: "$sink"}, {Key: "group", Value: "$message_group"}}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "_id.sink", Value: 1}, {Key: "_id.group", Value: 1}}}}}
	if limit > 0 {
		stages = append(stages, bson.D{{Key: "$limit", Value: limit}})
	}
	cur, err := c.Aggregate(ctx, stages, options.Aggregate().SetHint(catalog.LaneIndex).SetAllowDiskUse(true))
	if err != nil {
		return nil, conn.Fault("list lanes", err)
	}
	var found []struct {
		ID struct{ Sink, Group string } `bson:"_id"`
		N  int                          `bson:"n"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("list lanes", err)
	}
	counts := make([]laneCount, len(found))
	for i, f := range found {
		counts[i] = laneCount{checkpoint.Lane(f.ID), f.N}
	}
	return counts, nil
}

// putLanesInOrder looks at lanes after deliveries came or left.
func (a *attempt) putLanesInOrder(ctx context.Context) (err error) {
	if asked := a.Lanes.Asked(a.s.Sinks); len(asked) > 0 {
		if a.Lanes.Heads, err = a.s.parked.heads(ctx, asked); err != nil {
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
