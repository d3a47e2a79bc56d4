package store

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/lease"
)

// Load reads the state, and counts the start as unclean until something is settled.
func (s *Store) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	var doc checkpointDocument
	err = s.checkpoints.FindOneAndUpdate(ctx, s.lease.Held(), bson.D{{Key: "$inc", Value: bson.D{{Key: "unclean_starts", Value: 1}}}},
		options.FindOneAndUpdate().SetReturnDocument(options.Before)).Decode(&doc)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, lease.ErrLost
	case err != nil:
		return nil, conn.Fault("load state", err)
	}
	out := &checkpoint.Loaded{UncleanStarts: doc.Unclean}
	if out.Checkpoint, err = doc.checkpoint(); err != nil {
		return nil, fmt.Errorf("%w: load state: %w", source.ErrStop, err)
	}
	if doc.Started != "" {
		if out.Started, err = checkpoint.ParseCrashCandidate(doc.Started); err != nil {
			return nil, fmt.Errorf("%w: load state: started: %w", source.ErrStop, err)
		}
	}
	if err := s.Remember(ctx); err != nil {
		return nil, err
	}
	if out.Blocked, err = s.parked.blockedLanes(ctx); err != nil {
		return nil, err
	}
	if out.ParkedSinks, err = s.parked.sinks(ctx); err != nil {
		return nil, err
	}
	if s.Gap, err = s.requests.acceptedGap(ctx, doc.Resume); err != nil {
		return nil, err
	}
	force, err := s.requests.inForce(ctx)
	if err != nil {
		return nil, err
	}
	s.Loaded(out, force)
	h, err := conn.Greet(ctx, s.client)
	if err != nil {
		return nil, err
	}
	out.SourceID, err = catalog.SourceID(ctx, &s.cfg, s.client, h)
	return out, err
}

// Remember implements operate.Reader.
func (s *Store) Remember(ctx context.Context) error {
	ctx = s.lease.In(ctx)
	sinks, err := s.parked.sinks(ctx)
	if err != nil {
		return err
	}
	for _, sink := range sinks {
		s.Sinks[sink] = true
	}
	n, err := s.parked.CountDocuments(ctx, s.parked.ours(bson.E{Key: "unfinished", Value: true}), options.Count().SetLimit(1))
	if err != nil {
		return conn.Fault("load state", err)
	}
	s.Unfinished = n > 0
	force, err := s.requests.inForce(ctx)
	if err != nil {
		return err
	}
	s.Holds = force.Held()
	return nil
}
