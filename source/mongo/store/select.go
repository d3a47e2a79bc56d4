package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/store"
)

// Select implements store.Requests. Of what it names by more than ids, it reaches only what was there
// when it was asked for.
func (s *Store) Select(ctx context.Context, r *checkpoint.Request, done *store.RequestResult) (*store.Chunk, error) {
	sel := &r.Selection
	after := store.Behind(sel, done)
	asked, err := s.requests.askedAt(ctx, r)
	if err != nil {
		return nil, err
	}
	var seen []*delivery.Document
	full := false
	switch {
	case len(sel.IDs) > 0:
		seen, err = s.parked.scanIDs(ctx, sel, after)
	case len(sel.Groups) > 0:
		seen, full, err = s.parked.scanLanes(ctx, sel, s.lanesFrom(sel, after), after)
	default:
		seen, full, err = s.parked.scanAll(ctx, sel, nil, after)
	}
	if err != nil {
		return nil, conn.Fault("select deliveries", err)
	}
	c := &store.Chunk{}
	name, limited := sel.AtSink()
	states := store.StatesOf(r)
	for _, v := range seen {
		c.Look(r, &store.SelectedRow{ParkedKey: v.ParkedKey(), State: v.State, Blocks: v.Blocks, Alone: v.Alone, RowSettled: v.RowSettled, Ref: v.OID},
			(!limited || v.Sink == name) && slices.Contains(states, string(v.State)) && matches(sel, v, asked))
	}
	c.Finish(r, full, done)
	return c, nil
}

// matches reports whether a delivery is among those that a selection narrows down to.
func matches(sel *checkpoint.Selection, v *delivery.Document, asked time.Time) bool {
	since := v.ParkedAt
	switch {
	case v.State == checkpoint.StateDead:
		since = v.ChangedAt
	case v.State == checkpoint.StateRetrying && v.Tries == 1 && !v.TriedAt.IsZero(): // failed first
		since = v.TriedAt
	}
	switch {
	case !asked.IsZero() && since.After(asked):
		return false
	case sel.Table != "" && !strings.HasSuffix("."+v.Content.Table, "."+sel.Table):
		return false
	}
	glob := func(glob string, texts ...string) bool {
		return glob == "" || slices.ContainsFunc(texts, func(text string) bool { return store.MatchGlob(glob, text) })
	}
	m := &v.Content
	return glob(sel.Type, m.Type) && glob(sel.Topic, m.Topic) && glob(sel.Tenant, m.Tenant) && glob(sel.Reason, v.LastError, v.ErrorClass) &&
		slices.ContainsFunc([]string{v.ID, v.SentID, m.Group, string(m.Key)}, func(text string) bool { return strings.Contains(text, sel.Search) })
}

// fields are what is read of deliveries to tell which of them a selection is about.
func fields(sel *checkpoint.Selection) bson.D {
	bare := delivery.BareFields()
	if sel.Search == "" {
		return bare
	}
	return slices.DeleteFunc(bare, func(e bson.E) bool { return e.Key == "key" })
}

// behind reports whether a delivery comes after a place.
func behind(v *delivery.Document, after *store.ParkedKey) bool {
	key := v.ParkedKey()
	return key.Compare(after) > 0
}

func sortViews(views []*delivery.Document) {
	slices.SortFunc(views, func(a, b *delivery.Document) int {
		x, y := a.ParkedKey(), b.ParkedKey()
		return x.Compare(&y)
	})
}

// scanAll reads deliveries in order, after a place: of one lane, or all. Each is under one of the two values of blocks in the
// index.
func (c parkedCollection) scanAll(ctx context.Context, sel *checkpoint.Selection, lane *checkpoint.Lane, after store.ParkedKey) (seen []*delivery.Document, full bool, err error) {
	for _, blocks := range []bool{true, false} {
		from := bson.D{{Key: "pipeline", Value: c.pipeline}, {Key: "blocks", Value: blocks}, {Key: "sink", Value: after.Sink},
			{Key: "message_group", Value: after.Group}, {Key: "position", Value: after.Position}, {Key: "message_id", Value: after.ID},
			{Key: "source_table", Value: after.Table}, {Key: "state", Value: bson.MaxKey{}}}
		to := bson.D{{Key: "pipeline", Value: c.pipeline}, {Key: "blocks", Value: blocks}}
		if lane != nil {
			to = append(to, bson.E{Key: "sink", Value: lane.Sink}, bson.E{Key: "message_group", Value: lane.Group})
		}
		for _, e := range from[len(to):] {
			to = append(to, bson.E{Key: e.Key, Value: bson.MaxKey{}})
		}
		found, err := c.documents(ctx, bson.D{}, options.Find().SetHint(catalog.LaneIndex).SetMin(from).SetMax(to).SetLimit(store.ScanChunk).SetProjection(fields(sel)))
		if err != nil {
			return nil, false, err
		}
		seen, full = append(seen, found...), full || len(found) == store.ScanChunk
	}
	sortViews(seen)
	if len(seen) > store.ScanChunk {
		seen, full = seen[:store.ScanChunk], true
	}
	return seen, full, nil
}

// scanLanes goes through lanes.
func (c parkedCollection) scanLanes(ctx context.Context, sel *checkpoint.Selection, lanes []checkpoint.Lane, after store.ParkedKey) (seen []*delivery.Document, full bool, err error) {
	for _, lane := range lanes {
		from := store.ParkedKey{Sink: lane.Sink, Group: lane.Group}
		if after.Compare(&from) > 0 {
			from = after
		}
		found, more, err := c.scanAll(ctx, sel, &lane, from)
		if err != nil {
			return nil, false, err
		}
		if seen = append(seen, found...); more || len(seen) >= store.ScanChunk {
			return seen, true, nil
		}
	}
	return seen, false, nil
}

// scanIDs looks messages up, by the id of their document or the one that an edit gave them.
func (c parkedCollection) scanIDs(ctx context.Context, sel *checkpoint.Selection, after store.ParkedKey) ([]*delivery.Document, error) {
	var seen []*delivery.Document
	known := make(map[bson.ObjectID]bool)
	for field, index := range map[string]string{"message_id": catalog.MessageIndex, "sent_id": catalog.SentIndex} {
		found, err := c.documents(ctx, c.ours(bson.E{Key: field, Value: bson.D{{Key: "$in", Value: sel.IDs}}}), options.Find().SetProjection(fields(sel)).SetHint(index))
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			if !known[v.OID] && behind(v, &after) && (len(sel.Groups) == 0 || slices.Contains(sel.Groups, v.Content.Group)) {
				known[v.OID] = true
				seen = append(seen, v)
			}
		}
	}
	sortViews(seen)
	return seen, nil
}

// lanesFrom lists the next of the lanes that a selection of groups can be in, from the one of after on.
func (s *Store) lanesFrom(sel *checkpoint.Selection, after store.ParkedKey) []checkpoint.Lane {
	sinks, groups := store.LanesFrom(sel, after, s.Sinks)
	lanes := make([]checkpoint.Lane, len(sinks))
	for i := range sinks {
		lanes[i] = checkpoint.Lane{Sink: sinks[i], Group: groups[i]}
	}
	return lanes
}
