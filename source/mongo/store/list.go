package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Listed implements operate.Reader.
func (s reader) Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error) {
	ids := oids(rows)
	if len(ids) == 0 {
		return nil, nil
	}
	now, err := conn.Now(ctx, s.client)
	if err != nil {
		return nil, err
	}
	opts := options.Find()
	if !whole {
		opts.SetProjection(bson.D{{Key: "payload", Value: 0}})
	}
	docs, err := s.parked.documents(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, opts)
	if err != nil {
		return nil, conn.Fault("read parked deliveries", err)
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
func (s reader) WaitingLanes(ctx context.Context, sel *checkpoint.Selection, after checkpoint.Lane, limit int) (list []operate.WaitingLane, firsts []store.SelectedRow, next *checkpoint.Lane, err error) {
	counts, err := s.parked.countLanes(ctx, sel, after, limit)
	if err != nil {
		return nil, nil, nil, err
	}
	lanes := make([]checkpoint.Lane, len(counts))
	for i, c := range counts {
		lanes[i] = c.lane
	}
	heads, err := s.parked.heads(ctx, lanes)
	if err != nil {
		return nil, nil, nil, conn.Fault("list lanes", err)
	}
	for _, c := range counts {
		if h, ok := heads[c.lane]; ok {
			firsts = append(firsts, store.SelectedRow{Ref: h.Ref})
			list = append(list, operate.WaitingLane{Sink: c.lane.Sink, Group: c.lane.Group, Deliveries: c.n})
		}
	}
	return list, firsts, operate.NextLane(lanes, limit), nil
}
