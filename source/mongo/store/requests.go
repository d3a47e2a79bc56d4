package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

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

// openRequests is the filter for what is not done.
func (s *Store) openRequests() bson.D {
	return bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "done_at", Value: nil}}
}

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason.
func (s *Store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	cur, err := s.requests.Find(ctx, s.openRequests(), options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(store.RequestsAtOnce))
	if err != nil {
		return nil, conn.Fault("read requests", err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	var out []checkpoint.Request
	type broken struct {
		id  bson.RawValue
		why error
	}
	var closing []broken
	for cur.Next(ctx) {
		r, err := readRequest(cur.Current)
		if err != nil {
			id := cur.Current.Lookup("_id")
			id.Value = slices.Clone(id.Value)
			closing = append(closing, broken{id, err})
			continue
		}
		out = append(out, *r)
	}
	if err := cur.Err(); err != nil {
		return nil, conn.Fault("read requests", err)
	}
	for _, b := range closing {
		if err := s.noteResult(ctx, b.id, &store.RequestResult{Error: b.why.Error()}, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readRequest reads and checks a request.
func readRequest(raw bson.Raw) (*checkpoint.Request, error) {
	var doc requestDocument
	if err := bson.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	r := &checkpoint.Request{ID: doc.ID, Verb: checkpoint.Verb(doc.Verb), Reason: doc.Reason, By: doc.By}
	if err := valueFrom(doc.Selection, &r.Selection); err != nil {
		return nil, fmt.Errorf("read field selection: %w", err)
	}
	return r, store.Validate(r)
}

// noteResult records what a request did so far.
func (s *Store) noteResult(ctx context.Context, id any, result *store.RequestResult, done bool) error {
	doc, err := documentOf(result)
	if err != nil {
		return fmt.Errorf("write result of request %v: %w", id, err)
	}
	set := bson.D{{Key: "result", Value: document.Literal(doc)}}
	if done {
		set = append(set, bson.E{Key: "done_at", Value: "$$NOW"})
	}
	if _, err := s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.A{bson.D{{Key: "$set", Value: set}}}); err != nil {
		return conn.Fault("record a request's result", err)
	}
	return nil
}

// Progress implements store.Requests.
func (s *Store) Progress(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error) {
	var doc requestDocument
	err = s.requests.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return &store.RequestResult{}, true, nil
	}
	if err != nil {
		return nil, false, conn.Fault("read a request's progress", err)
	}
	result = &store.RequestResult{}
	if err := valueFrom(doc.Result, result); err != nil {
		return nil, false, fmt.Errorf("read progress of request %d: %w", id, err)
	}
	return result, doc.DoneAt != nil, nil
}

// Lanes implements checkpoint.Store.
func (s *Store) Lanes(ctx context.Context, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return store.LanesOf(ctx, s, r, limit)
}

// Apply implements checkpoint.Store.
func (s *Store) Apply(ctx context.Context, r *checkpoint.Request, lanes []checkpoint.Lane) (*checkpoint.Applied, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return store.Apply(ctx, s, r, lanes)
}

// Transact implements store.Requests: a settlement of nothing, inside which the request takes effect.
func (s *Store) Transact(ctx context.Context, do func(context.Context, store.Effects) error) ([]checkpoint.Lane, []store.LaneState, error) {
	before := maps.Clone(s.Holds)
	a, err := s.settle(ctx, &checkpoint.Settlement{}, nil, func(ctx context.Context, a *attempt) error {
		s.Holds = maps.Clone(before) // the transaction may run again
		return do(ctx, effects{a})
	})
	if err != nil {
		s.Holds = before
		return nil, nil, err
	}
	return a.Lanes.Touched.Order, a.States, nil
}

// Refusal implements store.Requests.
func (s *Store) Refusal(err error) string { return conn.Refusal(err) }

// CloseRequest implements store.Requests.
func (s *Store) CloseRequest(ctx context.Context, id int64, result *store.RequestResult) error {
	return s.noteResult(ctx, id, result, true)
}
