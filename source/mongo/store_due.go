package mongo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// dueBytes bounds the payloads of one answer of Due, shared by the sinks; the first delivery of each is always in it.
	dueBytes = 16 << 20
	// unfinishedChunk is how many unfinished deliveries are tried at once.
	unfinishedChunk = 500
)

// Due returns the first deliveries of lanes that are due, and how long until the next one is. The index on their times holds
// one entry a lane, so the lanes that have waited longest are found without a look at what waits behind them. The limits are
// shared fairly among the sinks: one with many due lanes, or large messages, does not hide another's. Where the limit (or 16 MiB
// of payloads) cut the answer short, the next one is due at once: 1 ms.
func (s *stateStore) Due(ctx context.Context, sinks []string, limit int, probe bool) ([]checkpoint.Parked, time.Duration, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer cancel()
	if err := s.finishRows(ctx); err != nil {
		return nil, 0, err
	}
	var asked []string
	for _, sink := range sinks {
		if s.sinks[sink] {
			asked = append(asked, sink)
		}
	}
	if len(asked) == 0 || limit <= 0 {
		return nil, 0, nil // nothing was ever parked: the database need not be asked
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, 0, err
	}
	var next time.Time
	ps, cut, err := store.Due(limit, probe, func(part store.DuePart, limit int) (ps []checkpoint.Parked, cut bool, err error) {
		picked, cut, at, err := s.pickDue(ctx, part, asked, limit, now)
		if err != nil {
			return nil, false, err
		}
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
		ps, err = s.readParked(ctx, picked, now)
		if part == store.Tried {
			store.Arrange(ps, keysOfViews(picked))
		}
		return ps, cut, err
	})
	if err != nil {
		return nil, 0, err
	}
	ps, again, err := s.complete(ctx, ps, false)
	wait := time.Duration(-1)
	if !next.IsZero() {
		wait = max(0, next.Sub(now))
	}
	return ps, store.NextLook(cut, again, wait), err
}

// pickDue chooses what is due, taking turns among the sinks, and finds when the next is. What was never tried has an index of its own: it is
// found however many others are due before it.
func (s *stateStore) pickDue(ctx context.Context, part store.DuePart, sinks []string, limit int, now time.Time) (picked []*view, cut bool, next time.Time, err error) {
	type turn struct {
		n int
		v *view
	}
	window := part.Window(s.configured(), limit)
	hint, compare := dueIndex, func(a, b *view) int { return cmp.Compare(b.Priority, a.Priority) }
	var which bson.D
	switch part {
	case store.Untried:
		hint, which = untriedIndex, bson.D{{Key: "tries", Value: 0}}
		compare = func(a, b *view) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Next.Compare(*b.Next), cmp.Compare(a.Position, b.Position))
		}
	case store.Tried:
		which = bson.D{{Key: "tries", Value: bson.D{{Key: "$ne", Value: 0}}}} // also where an earlier version has parked it
		compare = func(a, b *view) int {
			return cmp.Or(orZero(a.TriedAt).Compare(orZero(b.TriedAt)), a.Next.Compare(*b.Next), cmp.Compare(a.Position, b.Position))
		}
	}
	var turns []turn
	for _, sink := range sinks {
		cur, err := s.parked.Find(ctx, append(s.ours(bson.E{Key: "sink", Value: sink}, bson.E{Key: "next_attempt_at", Value: bson.D{{Key: "$gt", Value: time.Unix(0, 0)}}}), which...),
			options.Find().SetSort(bson.D{{Key: "next_attempt_at", Value: 1}}).SetLimit(int64(window)+1).SetHint(hint).SetProjection(bson.D{
				{Key: "sink", Value: 1}, {Key: "source_table", Value: 1}, {Key: "tried_at", Value: 1}, {Key: "position", Value: 1}, {Key: "message_id", Value: 1}, {Key: "next_attempt_at", Value: 1}, {Key: "bytes", Value: 1}, {Key: "priority", Value: 1}}))
		if err != nil {
			return nil, false, next, fault("look for due deliveries", err)
		}
		var found []*view
		if err := cur.All(ctx, &found); err != nil {
			return nil, false, next, fault("look for due deliveries", err)
		}
		if i := slices.IndexFunc(found, func(v *view) bool { return v.Next.After(now) }); i >= 0 {
			if at := *found[i].Next; next.IsZero() || at.Before(next) {
				next = at
			}
			found = found[:i]
		}
		slices.SortStableFunc(found, compare)
		bytes := 0
		for n, v := range found {
			if n == limit || bytes >= dueBytes/len(sinks) {
				cut = true
				break
			}
			bytes += v.Bytes
			turns = append(turns, turn{n, v})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.n, b.n), a.v.Next.Compare(*b.v.Next)) })
	if len(turns) > limit {
		turns, cut = turns[:limit], true
	}
	for _, t := range turns {
		picked = append(picked, t.v)
	}
	return picked, cut, next, nil
}

func keysOfViews(views []*view) []checkpoint.Key {
	keys := make([]checkpoint.Key, len(views))
	for i, v := range views {
		keys[i] = v.key()
	}
	return keys
}

// readParked reads whole deliveries, in order of position.
func (s *stateStore) readParked(ctx context.Context, views []*view, now time.Time) ([]checkpoint.Parked, error) {
	if len(views) == 0 {
		return nil, nil
	}
	ids := make([]bson.ObjectID, len(views))
	for i, v := range views {
		ids[i] = v.OID
	}
	docs, err := s.findParked(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(docs, func(a, b *parkedDocument) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Sink, b.Sink))
	})
	ps := make([]checkpoint.Parked, len(docs))
	for i, d := range docs {
		if ps[i], err = d.parked(now); err != nil {
			return nil, err
		}
	}
	return ps, nil
}

func (s *stateStore) findParked(ctx context.Context, where bson.D, opts ...options.Lister[options.FindOptions]) ([]*parkedDocument, error) {
	cur, err := s.parked.Find(ctx, where, opts...)
	if err != nil {
		return nil, fault("read parked deliveries", err)
	}
	var docs []*parkedDocument
	if err := cur.All(ctx, &docs); err != nil {
		return nil, fault("read parked deliveries", err)
	}
	return docs, nil
}

// settleUnfinished deals with the rows of messages.
func (s *stateStore) settleUnfinished(ctx context.Context, keys []store.MessageKey) error {
	_, err := s.settle(ctx, &checkpoint.Settlement{}, keys, nil)
	return err
}

// finishRows tries again to deal with documents that were locked, or that the database refused to change, when their message was settled.
func (s *stateStore) finishRows(ctx context.Context) error {
	if !s.unfinished || s.finisher.Rests() {
		return nil
	}
	keys, err := s.messageKeys(ctx, s.ours(bson.E{Key: "unfinished", Value: true}), unfinishedChunk)
	if err != nil {
		return fault("look for unfinished messages", err)
	}
	s.unfinished = len(keys) > 0 // settle says so if there are more
	if len(keys) == 0 {
		return nil
	}
	s.unfinished = len(keys) == unfinishedChunk
	left, err := s.finisher.Finish(ctx, keys)
	s.unfinished = s.unfinished || left
	return err
}

// Page returns what is parked in a lane after a position, in order, up to the first delivery that waits for an operator: a dead
// one, one of its group at the sink ” or, where the lane is held, the first.
func (s *stateStore) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	if lane.Group == "" || limit <= 0 {
		return nil, false, nil
	}
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, false, err
	}
	defer cancel()
	where := s.ours(bson.E{Key: "blocks", Value: true}, bson.E{Key: "sink", Value: lane.Sink}, bson.E{Key: "message_group", Value: lane.Group},
		bson.E{Key: "position", Value: bson.D{{Key: "$gt", Value: after.String()}}})
	cur, err := s.parked.Find(ctx, where, options.Find().SetSort(bson.D{{Key: "position", Value: 1}, {Key: "message_id", Value: 1}}).
		SetLimit(int64(limit)+1).SetHint(laneIndex).SetProjection(bson.D{{Key: "position", Value: 1}, {Key: "state", Value: 1}, {Key: "bytes", Value: 1}}))
	if err != nil {
		return nil, false, fault("read a lane", err)
	}
	var found []*view
	if err := cur.All(ctx, &found); err != nil {
		return nil, false, fault("read a lane", err)
	}
	unrouted := ""
	if lane.Sink != "" && s.sinks[""] {
		heads, err := s.heads(ctx, []checkpoint.Lane{{Group: lane.Group}})
		if err != nil {
			return nil, false, fault("read a lane", err)
		}
		unrouted = heads[checkpoint.Lane{Group: lane.Group}].Position
	}
	n, total := 0, 0
	for n < len(found) && n < limit && !s.held.Has(lane) {
		v := found[n]
		if v.State == checkpoint.StateDead || unrouted != "" && unrouted < v.Position || n > 0 && total+v.Bytes > bytes {
			break
		}
		n, total = n+1, total+v.Bytes
	}
	more := len(found) > n
	now, err := s.now(ctx)
	if err != nil {
		return nil, false, err
	}
	page, err := s.readParked(ctx, found[:n], now)
	if err != nil {
		return nil, false, err
	}
	page, again, err := s.complete(ctx, page, true)
	return page, more || again > 0, err
}
