package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// Due implements checkpoint.Store. The index on the times of deliveries holds one entry a lane, so the lanes that have waited longest are found
// without a look at what waits behind them.
func (s *Store) Due(ctx context.Context, q *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer cancel()
	if err := s.Finish(ctx, s.parked.unfinishedMessages); err != nil {
		return nil, 0, err
	}
	sinks := s.WithParked(q.Sinks)
	if len(sinks) == 0 {
		return nil, 0, nil // nothing was ever parked: the database need not be asked
	}
	return store.Due(ctx, s, s.tables.configured(), sinks, q)
}

// settleUnfinished deals with the rows of messages.
func (s *Store) settleUnfinished(ctx context.Context, keys []store.MessageKey) error {
	_, err := s.settle(ctx, &checkpoint.Settlement{}, keys, nil)
	return err
}

// Page implements checkpoint.Store.
func (s *Store) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, false, err
	}
	defer cancel()
	return store.Page(ctx, s, lane, s.Holds.Has(lane), after, limit, bytes)
}

// A parkedReader implements store.ParkedReader: it reads parked deliveries, and the documents that hold the content of those kept there.
type parkedReader struct {
	tables userTables
	parked parkedCollection
	sinks  map[string]bool // those of Memory
}

// DueRefs implements store.ParkedReader. What was never tried has an index of its own: it is found however many others are due before it.
func (p parkedReader) DueRefs(ctx context.Context, part store.DuePart, sinks []string, window int) ([][]store.ParkedRef, time.Duration, error) {
	now, err := conn.Now(ctx, p.tables.client)
	if err != nil {
		return nil, 0, err
	}
	hint, which := catalog.DueIndex, bson.D(nil)
	switch part {
	case store.Untried:
		hint, which = catalog.UntriedIndex, bson.D{{Key: "tries", Value: 0}}
	case store.Tried:
		which = bson.D{{Key: "tries", Value: bson.D{{Key: "$ne", Value: 0}}}} // also where an earlier version has parked it
	}
	due, next := make([][]store.ParkedRef, len(sinks)), time.Duration(-1)
	for i, sink := range sinks {
		found, err := p.parked.documents(ctx, append(p.parked.ours(bson.E{Key: "sink", Value: sink}, bson.E{Key: "next_attempt_at", Value: bson.D{{Key: "$gt", Value: time.Unix(0, 0)}}}), which...),
			options.Find().SetSort(bson.D{{Key: "next_attempt_at", Value: 1}}).SetLimit(int64(window)+1).SetHint(hint).SetProjection(bson.D{
				{Key: "sink", Value: 1}, {Key: "source_table", Value: 1}, {Key: "tried_at", Value: 1}, {Key: "position", Value: 1}, {Key: "message_id", Value: 1}, {Key: "next_attempt_at", Value: 1}, {Key: "bytes", Value: 1}, {Key: "priority", Value: 1}}))
		if err != nil {
			return nil, 0, conn.Fault("look for due deliveries", err)
		}
		for _, d := range found {
			if wait := d.Next.Sub(now); wait > 0 {
				if next < 0 || wait < next {
					next = wait
				}
				break
			}
			due[i] = append(due[i], d.Ref())
		}
	}
	return due, next, nil
}

// Whole implements store.ParkedReader.
func (p parkedReader) Whole(ctx context.Context, refs []store.ParkedRef) ([]checkpoint.Parked, error) {
	ids := make(bson.A, len(refs))
	for i := range refs {
		ids[i] = refs[i].Ref
	}
	now, err := conn.Now(ctx, p.tables.client)
	if err != nil {
		return nil, err
	}
	docs, err := p.parked.documents(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return nil, conn.Fault("read parked deliveries", err)
	}
	ps := make([]checkpoint.Parked, len(docs))
	for i, d := range docs {
		if ps[i], err = d.Delivery(now); err != nil {
			return nil, err
		}
	}
	return ps, nil
}

// LaneRefs implements store.ParkedReader.
func (p parkedReader) LaneRefs(ctx context.Context, lane checkpoint.Lane, after string, limit int) (refs []store.ParkedRef, unrouted string, err error) {
	where := p.parked.ours(bson.E{Key: "blocks", Value: true}, bson.E{Key: "sink", Value: lane.Sink}, bson.E{Key: "message_group", Value: lane.Group},
		bson.E{Key: "position", Value: bson.D{{Key: "$gt", Value: after}}})
	found, err := p.parked.documents(ctx, where, options.Find().SetSort(bson.D{{Key: "position", Value: 1}, {Key: "message_id", Value: 1}}).
		SetLimit(int64(limit)).SetHint(catalog.LaneIndex).SetProjection(bson.D{{Key: "position", Value: 1}, {Key: "state", Value: 1}, {Key: "bytes", Value: 1}}))
	if err != nil {
		return nil, "", conn.Fault("read a lane", err)
	}
	for _, d := range found {
		refs = append(refs, d.Ref())
	}
	if lane.Sink != "" && p.sinks[""] {
		heads, err := p.parked.heads(ctx, []checkpoint.Lane{{Group: lane.Group}})
		if err != nil {
			return nil, "", conn.Fault("read a lane", err)
		}
		if z := heads[checkpoint.Lane{Group: lane.Group}]; z != nil {
			unrouted = z.Position
		}
	}
	return refs, unrouted, nil
}

// ReadRow implements store.ParkedReader.
func (p parkedReader) ReadRow(ctx context.Context, table, id string) ([]*outbox.Message, error) {
	t := p.tables.named(table)
	if t == nil {
		return nil, nil
	}
	return p.tables.read(ctx, t, []string{id}, nil)
}
