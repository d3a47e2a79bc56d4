package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Listed implements operate.Reader.
func (s *Store) Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error) {
	ids := oids(rows)
	if len(ids) == 0 {
		return nil, nil
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	opts := options.Find()
	if !whole {
		opts.SetProjection(bson.D{{Key: "payload", Value: 0}})
	}
	docs, err := s.findParked(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, opts)
	if err != nil {
		return nil, err
	}
	byID := make(map[bson.ObjectID]*delivery.Document, len(docs))
	for _, d := range docs {
		byID[d.OID] = d
	}
	var list []store.Listed
	for _, id := range ids {
		d := byID[id]
		if d == nil {
			continue // it was delivered meanwhile
		}
		l, err := d.Listed(now)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// WaitingLanes implements operate.Reader.
func (s *Store) WaitingLanes(ctx context.Context, sel *checkpoint.Selection, limit int) (list []operate.WaitingLane, firsts []store.SelectedRow, err error) {
	counts, err := s.countLanes(ctx, sel, limit)
	if err != nil {
		return nil, nil, err
	}
	lanes := make([]checkpoint.Lane, len(counts))
	for i, c := range counts {
		lanes[i] = c.lane
	}
	heads, err := s.heads(ctx, lanes)
	if err != nil {
		return nil, nil, conn.Fault("list lanes", err)
	}
	for _, c := range counts {
		if h, ok := heads[c.lane]; ok {
			firsts = append(firsts, store.SelectedRow{Ref: h.Ref})
			list = append(list, operate.WaitingLane{Sink: c.lane.Sink, Group: c.lane.Group, Deliveries: c.n})
		}
	}
	return list, firsts, nil
}

// A laneCount is how many deliveries block a lane.
type laneCount struct {
	lane checkpoint.Lane
	n    int
}

// countLanes counts blocking deliveries by lane, in order, from the index alone.
func (s *Store) countLanes(ctx context.Context, sel *checkpoint.Selection, limit int) ([]laneCount, error) {
	where := s.ours(bson.E{Key: "blocks", Value: true})
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
	cur, err := s.parked.Aggregate(ctx, stages, options.Aggregate().SetHint(catalog.LaneIndex).SetAllowDiskUse(true))
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
