package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/store"
)

// A requestCollection is the requests of one pipeline in tailbox_request.
type requestCollection struct {
	*mongo.Collection
	pipeline string
}

// A requestDocument is a document of tailbox_request.
type requestDocument struct {
	ID          int64        `bson:"_id"`
	Verb        string       `bson:"verb"`
	Selection   bson.Raw     `bson:"selection"`
	Reason      string       `bson:"reason"`
	By          string       `bson:"by"`
	RequestedAt *time.Time   `bson:"requested_at"`
	DoneAt      *time.Time   `bson:"done_at"`
	Result      bson.Raw     `bson:"result"`
	InForce     *store.Force `bson:"in_force"`
}

// open is the filter for what is not done.
func (c requestCollection) open() bson.D {
	return bson.D{{Key: "pipeline", Value: c.pipeline}, {Key: "done_at", Value: nil}}
}

// readRequest reads and checks a request.
func readRequest(raw bson.Raw) (*checkpoint.Request, error) {
	var doc requestDocument
	if err := bson.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	r := &checkpoint.Request{ID: doc.ID, Verb: checkpoint.Verb(doc.Verb), Reason: doc.Reason, By: doc.By}
	if len(doc.Selection) > 0 {
		text, err := document.JSON(doc.Selection)
		if err == nil {
			err = store.ReadSelection(text, &r.Selection)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, store.Validate(r)
}

// askTries bounds how often another request takes the number that was to be this one's.
const askTries = 100

// ask writes a request under the next number.
func (c requestCollection) ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	selection, err := documentOf(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	for range askTries {
		var last struct {
			ID int64 `bson:"_id"`
		}
		err := c.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}}).SetProjection(bson.D{{Key: "_id", Value: 1}})).Decode(&last)
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return 0, conn.Fault("number the request", err)
		}
		id := last.ID + 1
		// An upsert, because an insert cannot take the server's time.
		_, err = c.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "pipeline", Value: bson.D{{Key: "$exists", Value: false}}}}, bson.A{
			bson.D{{Key: "$set", Value: bson.D{{Key: "pipeline", Value: document.Literal(c.pipeline)}, {Key: "verb", Value: document.Literal(string(r.Verb))},
				{Key: "selection", Value: document.Literal(selection)}, {Key: "reason", Value: document.Literal(r.Reason)}, {Key: "by", Value: document.Literal(r.By)},
				{Key: "requested_at", Value: "$$NOW"}, {Key: "done_at", Value: nil}}}}}, options.UpdateOne().SetUpsert(true))
		switch {
		case mongo.IsDuplicateKeyError(err):
			continue
		case err != nil:
			return 0, conn.Fault("write request", err)
		}
		// Times are milliseconds. What happens after the request must not bear the same one.
		pause := 2 * time.Millisecond
		return id, lease.Sleep(ctx, &pause)
	}
	return 0, errors.New("number the request: others were faster each time: try again")
}

// askedFields is a projection that leaves out large selections.
func askedFields() bson.D {
	fields := bson.D{}
	for _, name := range []string{"verb", "reason", "by", "requested_at", "done_at", "result"} {
		fields = append(fields, bson.E{Key: name, Value: 1})
	}
	small := bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$lte", Value: bson.A{bson.D{{Key: "$bsonSize", Value: "$selection"}}, store.MostSelection}}}, "$selection",
		bson.D{{Key: "omitted", Value: "it is larger than 64 KiB: ask for this request alone"}}}}}
	return append(fields, bson.E{Key: "selection", Value: bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$selection"}}, "object"}}}, small, nil}}}})
}

// asked lists requests below an id, the newest first.
func (c requestCollection) asked(ctx context.Context, before int64, limit int, whole bool) (list []store.Asked, err error) {
	opts := options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(int64(limit))
	if !whole {
		opts.SetProjection(askedFields())
	}
	cur, err := c.Find(ctx, bson.D{{Key: "pipeline", Value: c.pipeline}, {Key: "_id", Value: bson.D{{Key: "$lt", Value: before}}}}, opts)
	var found []bson.Raw
	if err == nil {
		err = cur.All(ctx, &found)
	}
	if err != nil {
		return nil, conn.Fault("list requests", err)
	}
	for _, raw := range found {
		var doc requestDocument
		if err := bson.Unmarshal(raw, &doc); err != nil {
			// Somebody wrote it by hand; the relay closes it with the reason.
			id, _ := raw.Lookup("_id").AsInt64OK()
			list = append(list, store.Asked{Request: checkpoint.Request{ID: id}, Result: store.RequestResult{Error: "the request cannot be read"}})
			continue
		}
		a := store.Asked{Request: checkpoint.Request{ID: doc.ID, Verb: checkpoint.Verb(doc.Verb), Reason: doc.Reason, By: doc.By},
			RequestedAt: orZero(doc.RequestedAt), DoneAt: orZero(doc.DoneAt)}
		selection, result := "{}", "{}"
		for _, part := range []struct {
			doc  bson.Raw
			text *string
		}{{doc.Selection, &selection}, {doc.Result, &result}} {
			if text, err := document.JSON(part.doc); err == nil && len(part.doc) > 0 {
				*part.text = string(text)
			}
		}
		a.ReadAsked(selection, &result)
		list = append(list, a)
	}
	return list, nil
}

// noteResult records what a request did so far.
func (c requestCollection) noteResult(ctx context.Context, id any, result *store.RequestResult, done bool) error {
	doc, err := documentOf(result)
	if err != nil {
		return fmt.Errorf("write result of request %v: %w", id, err)
	}
	set := bson.D{{Key: "result", Value: document.Literal(doc)}}
	if done {
		set = append(set, bson.E{Key: "done_at", Value: "$$NOW"})
	}
	if _, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.A{bson.D{{Key: "$set", Value: set}}}); err != nil {
		return conn.Fault("record a request's result", err)
	}
	return nil
}

// askedAt is when a request was made; the zero time where that does not matter.
func (c requestCollection) askedAt(ctx context.Context, r *checkpoint.Request) (time.Time, error) {
	if len(r.Selection.IDs) > 0 || r.ID == 0 {
		return time.Time{}, nil
	}
	var found []requestDocument
	cur, err := c.Find(ctx, bson.D{{Key: "_id", Value: r.ID}}, options.Find().SetProjection(bson.D{{Key: "requested_at", Value: 1}}))
	if err == nil {
		err = cur.All(ctx, &found)
	}
	if err != nil || len(found) == 0 {
		return time.Time{}, conn.Fault("look a request up", err)
	}
	return orZero(found[0].RequestedAt), nil
}

// acceptedGap finds the last request that accepts the gap behind a checkpoint; 0 = none.
func (c requestCollection) acceptedGap(ctx context.Context, resume string) (int64, error) {
	var found struct {
		ID int64 `bson:"_id"`
	}
	err := c.FindOne(ctx, append(c.open(), bson.E{Key: "verb", Value: string(checkpoint.VerbAcceptGap)},
		bson.E{Key: "selection.from", Value: resume}), options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}})).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	return found.ID, conn.Fault("look for accepted gaps", err)
}

// inForce reads what is in force.
func (c requestCollection) inForce(ctx context.Context) (store.Forces, error) {
	cur, err := c.Find(ctx, bson.D{{Key: "pipeline", Value: c.pipeline}, {Key: "in_force", Value: bson.D{{Key: "$exists", Value: true}}},
		{Key: "verb", Value: bson.D{{Key: "$in", Value: bson.A{string(checkpoint.VerbHold), string(checkpoint.VerbPause)}}}}},
		options.Find().SetProjection(bson.D{{Key: "in_force", Value: 1}}))
	if err != nil {
		return nil, conn.Fault("read holds and pauses", err)
	}
	var found []struct {
		ID      int64    `bson:"_id"`
		InForce bson.Raw `bson:"in_force"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("read holds and pauses", err)
	}
	fs := make(store.Forces, len(found))
	for _, f := range found {
		fs[f.ID] = &store.Force{}
		if err := valueFrom(f.InForce, fs[f.ID]); err != nil {
			return nil, fmt.Errorf("read in_force of request %d: %w", f.ID, err)
		}
	}
	return fs, nil
}

// saveForce writes what is left of a request's force.
func (c requestCollection) saveForce(ctx context.Context, id int64, f *store.Force) error {
	doc, err := documentOf(f)
	if err != nil {
		return fmt.Errorf("write in_force of request %d: %w", id, err)
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "in_force", Value: doc}}}}
	if f.Empty() {
		update = bson.D{{Key: "$unset", Value: bson.D{{Key: "in_force", Value: ""}}}}
	}
	_, err = c.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, update)
	return err
}

// documentOf is a value with JSON tags as a document: what is stored reads the same in mongosh as in SQL.
func documentOf(v any) (bson.D, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var d bson.D
	return d, bson.UnmarshalExtJSON(text, false, &d)
}

// valueFrom reads what documentOf made.
func valueFrom(doc bson.Raw, v any) error {
	if len(doc) == 0 {
		return nil
	}
	text, err := document.JSON(doc)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
