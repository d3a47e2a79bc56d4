package store

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Newest implements operate.Reader. It reads the index of dead letters from its end.
func (s reader) Newest(ctx context.Context, sel *checkpoint.Selection, during operate.Span, after *operate.DeadKey, look int) (seen []operate.DeadRow, err error) {
	// place is where the index has what died at a time: before all of it, or at a delivery.
	place := func(at any, rest ...any) (d bson.D) {
		d = bson.D{{Key: "pipeline", Value: s.parked.pipeline}, {Key: "state", Value: checkpoint.StateDead}, {Key: "changed_at", Value: at}}
		for i, field := range []string{"message_id", "source_table", "sink", "error_class", "type"} {
			value := any(bson.MinKey{})
			if i < len(rest) {
				value = rest[i]
			}
			d = append(d, bson.E{Key: field, Value: value})
		}
		return d
	}
	from, to := place(bson.MinKey{}), place(bson.MaxKey{})
	if !during.Since.IsZero() {
		from = place(during.Since)
	}
	if !during.Until.IsZero() {
		to = place(during.Until)
	}
	if after != nil && (during.Until.IsZero() || after.At.Before(during.Until)) {
		to = place(after.At, after.ID, after.Table, after.Sink)
	}
	down := bson.D{{Key: "changed_at", Value: -1}, {Key: "message_id", Value: -1}, {Key: "source_table", Value: -1}, {Key: "sink", Value: -1}}
	found, err := s.parked.documents(ctx, s.parked.ours(bson.E{Key: "state", Value: checkpoint.StateDead}), options.Find().SetHint(catalog.DeadIndex).SetMin(from).SetMax(to).
		SetSort(down).SetLimit(int64(look)).SetProjection(fields(sel)))
	if err != nil {
		return nil, conn.Fault("list dead letters", err)
	}
	name, limited := sel.AtSink()
	for _, v := range found {
		row := operate.DeadRow{SelectedRow: store.SelectedRow{ParkedKey: v.ParkedKey(), State: v.State, Blocks: v.Blocks, Alone: v.Alone, RowSettled: v.RowSettled, Ref: v.OID}, At: v.ChangedAt}
		row.Matches = (!limited || v.Sink == name) && matches(sel, v, time.Time{}) && (len(sel.Groups) == 0 || slices.Contains(sel.Groups, v.Content.Group)) &&
			(len(sel.IDs) == 0 || slices.Contains(sel.IDs, v.ID) || v.SentID != "" && slices.Contains(sel.IDs, v.SentID))
		seen = append(seen, row)
	}
	return seen, nil
}

// Summarize implements operate.Reader.
func (s reader) Summarize(ctx context.Context, states []checkpoint.State, by []operate.Cause) (*operate.Summary, error) {
	dead := operate.OnlyDead(states)
	where, opts := s.parked.ours(), options.Aggregate().SetAllowDiskUse(true)
	fits := any(bson.D{{Key: "$in", Value: bson.A{"$state", states}}})
	look := mongo.Pipeline{{{Key: "$match", Value: where}}}
	if dead {
		// The index of dead letters has all that is read here, and so the documents are not.
		look = mongo.Pipeline{{{Key: "$match", Value: append(where, bson.E{Key: "state", Value: checkpoint.StateDead})}}, {{Key: "$sort", Value: bson.D{{Key: "changed_at", Value: -1}}}}}
		opts.SetHint(catalog.DeadIndex)
		fits = bson.D{{Key: "$literal", Value: true}}
	}
	of := func(cause operate.Cause, field string) any {
		value := any(field)
		switch {
		case !slices.Contains(by, cause):
			return bson.D{{Key: "$literal", Value: ""}}
		case cause == operate.ByClass:
			value = bson.D{{Key: "$ifNull", Value: bson.A{field, ""}}}
		}
		if dead {
			return value
		}
		return bson.D{{Key: "$cond", Value: bson.A{fits, value, ""}}} // deliveries of other states are one group
	}
	cur, err := s.parked.Aggregate(ctx, append(look, bson.D{{Key: "$limit", Value: operate.MostCounted(states)}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "fits", Value: fits}, {Key: "class", Value: of(operate.ByClass, "$error_class")}, {Key: "type", Value: of(operate.ByType, "$type")},
				{Key: "sink", Value: of(operate.BySink, "$sink")}}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}, {Key: "first", Value: bson.D{{Key: "$min", Value: "$changed_at"}}},
			{Key: "last", Value: bson.D{{Key: "$max", Value: "$changed_at"}}}, {Key: "example", Value: bson.D{{Key: "$max", Value: "$message_id"}}}}}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "_id.fits", Value: -1}, {Key: "n", Value: -1}, {Key: "_id", Value: 1}}}},
		bson.D{{Key: "$limit", Value: operate.MostFailures + 2}}), opts)
	if err != nil {
		return nil, conn.Fault("count failures", err)
	}
	var groups []struct {
		ID struct {
			Fits  bool   `bson:"fits"`
			Class string `bson:"class"`
			Type  string `bson:"type"`
			Sink  string `bson:"sink"`
		} `bson:"_id"`
		N       int       `bson:"n"`
		First   time.Time `bson:"first"`
		Last    time.Time `bson:"last"`
		Example string    `bson:"example"`
	}
	if err := cur.All(ctx, &groups); err != nil {
		return nil, conn.Fault("count failures", err)
	}
	counted := 0 // of the groups that are listed: if there are more, the summary is partial anyway
	for _, g := range groups {
		counted += g.N
	}
	found := &operate.Summary{}
	for _, g := range groups {
		found.Add(&operate.Failure{Class: g.ID.Class, Type: g.ID.Type, Sink: g.ID.Sink, Count: g.N, First: g.First.UTC(), Last: g.Last.UTC(), ExampleID: g.Example}, g.ID.Fits, counted >= operate.MostCounted(states))
	}
	return found, nil
}
