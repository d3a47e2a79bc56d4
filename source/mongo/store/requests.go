package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason.
func (s *Store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	cur, err := s.requests.Find(ctx, s.requests.open(), options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(store.RequestsAtOnce))
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
		if err := s.requests.noteResult(ctx, b.id, &store.RequestResult{Error: b.why.Error()}, true); err != nil {
			return nil, err
		}
	}
	return out, nil
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
	return s.requests.noteResult(ctx, id, result, true)
}
