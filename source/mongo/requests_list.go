package mongo

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// A Listed is a parked delivery as operators see it.
type Listed = store.Listed

// A WaitingLane is a lane that does not flow, and why.
type WaitingLane = store.WaitingLane

// ListParked lists what a selection selects, in the order in which a request would go through it: by sink, group and position. At
// most limit deliveries; more tells whether some are left out. Limit 0 means the selection's own limit, or all. Whole messages are
// listed up to 64 MiB of payloads; else they come without their payloads.
func ListParked(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int, whole bool) (list []Listed, more bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	ctx = s.in(ctx)
	if err := s.remember(ctx); err != nil {
		return nil, false, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, false, err
	}
	return store.ListParked(ctx, s, sel, limit, func(ctx context.Context, rows []store.SelectedRow) ([]Listed, error) {
		return s.listed(ctx, oids(rows), now, whole)
	})
}

// listed reads deliveries, in the order of rows: whole, or without payloads.
func (s *stateStore) listed(ctx context.Context, ids []bson.ObjectID, now time.Time, whole bool) ([]Listed, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	opts := options.Find()
	if !whole {
		opts.SetProjection(bson.D{{Key: "payload", Value: 0}})
	}
	docs, err := s.findParked(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, opts)
	if err != nil {
		return nil, err
	}
	byID := make(map[bson.ObjectID]*parkedDocument, len(docs))
	for _, d := range docs {
		byID[d.OID] = d
	}
	var list []Listed
	for _, id := range ids {
		d := byID[id]
		if d == nil {
			continue // it was delivered meanwhile
		}
		l := Listed{ParkedAt: d.ParkedAt.UTC(), ChangedAt: d.ChangedAt.UTC(), NextAttemptAt: orZero(d.Next)}
		if l.Parked, err = d.parked(now); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// ListLanes lists the lanes that wait, with the reason, of the sink and groups of a selection; the rest of it does not matter.
// Limit bounds the lanes; 0 means all. Held lanes with nothing parked come first.
func ListLanes(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int) (list []WaitingLane, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	ctx = s.in(ctx)
	if err := s.remember(ctx); err != nil {
		return nil, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := s.countLanes(ctx, &sel, limit)
	if err != nil {
		return nil, err
	}
	lanes := make([]checkpoint.Lane, len(counts))
	for i, c := range counts {
		lanes[i] = c.lane
	}
	heads, err := s.heads(ctx, lanes)
	if err != nil {
		return nil, fault("list lanes", err)
	}
	var firsts []bson.ObjectID
	for _, c := range counts {
		if h, ok := heads[c.lane]; ok {
			firsts = append(firsts, h.OID)
			list = append(list, WaitingLane{Sink: c.lane.Sink, Group: c.lane.Group, Deliveries: c.n, Held: s.held.Has(c.lane)})
		}
	}
	found, err := s.listed(ctx, firsts, now, false)
	if err != nil {
		return nil, err
	}
	return store.WithFirst(list, found, s.held, &sel)
}

// A laneCount is how many deliveries block a lane.
type laneCount struct {
	lane checkpoint.Lane
	n    int
}

// countLanes counts blocking deliveries by lane, in order, from the index alone.
func (s *stateStore) countLanes(ctx context.Context, sel *checkpoint.Selection, limit int) ([]laneCount, error) {
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
	cur, err := s.parked.Aggregate(ctx, stages, options.Aggregate().SetHint(laneIndex).SetAllowDiskUse(true))
	if err != nil {
		return nil, fault("list lanes", err)
	}
	var found []struct {
		ID struct{ Sink, Group string } `bson:"_id"`
		N  int                          `bson:"n"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, fault("list lanes", err)
	}
	counts := make([]laneCount, len(found))
	for i, f := range found {
		counts[i] = laneCount{checkpoint.Lane(f.ID), f.N}
	}
	return counts, nil
}
