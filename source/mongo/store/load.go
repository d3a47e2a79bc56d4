package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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
	if out.Blocked, err = s.blockedLanes(ctx); err != nil {
		return nil, err
	}
	if out.ParkedSinks, err = s.parkedSinks(ctx); err != nil {
		return nil, err
	}
	if s.Gap, err = s.acceptedGap(ctx, doc.Resume); err != nil {
		return nil, err
	}
	force, err := s.inForce(ctx)
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

// acceptedGap finds the last request that accepts the gap behind a checkpoint; 0 = none.
func (s *Store) acceptedGap(ctx context.Context, resume string) (int64, error) {
	var found struct {
		ID int64 `bson:"_id"`
	}
	err := s.requests.FindOne(ctx, append(s.openRequests(), bson.E{Key: "verb", Value: string(checkpoint.VerbAcceptGap)},
		bson.E{Key: "selection.from", Value: resume}), options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}})).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	return found.ID, conn.Fault("look for accepted gaps", err)
}

// Remember implements operate.Reader.
func (s *Store) Remember(ctx context.Context) error {
	ctx = s.lease.In(ctx)
	sinks, err := s.parkedSinks(ctx)
	if err != nil {
		return err
	}
	for _, sink := range sinks {
		s.Sinks[sink] = true
	}
	n, err := s.parked.CountDocuments(ctx, s.ours(bson.E{Key: "unfinished", Value: true}), options.Count().SetLimit(1))
	if err != nil {
		return conn.Fault("load state", err)
	}
	s.Unfinished = n > 0
	force, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	s.Holds = force.Held()
	return nil
}

// ours is a filter for parked deliveries of the pipeline.
func (s *Store) ours(further ...bson.E) bson.D {
	return append(bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}}, further...)
}

// blockedLanes names the lanes with blocking deliveries, from the index alone.
func (s *Store) blockedLanes(ctx context.Context) ([]checkpoint.Lane, error) {
	cur, err := s.parked.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: s.ours(bson.E{Key: "blocks", Value: true})}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "sink", Value: "$sink"}, {Key: "group", Value: "$message_group"}}}}}},
	}, options.Aggregate().SetHint(catalog.LaneIndex).SetAllowDiskUse(true))
	if err != nil {
		return nil, conn.Fault("load blocked lanes", err)
	}
	var found []struct {
		ID struct{ Sink, Group string } `bson:"_id"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("load blocked lanes", err)
	}
	var lanes []checkpoint.Lane
	for _, f := range found {
		lanes = append(lanes, checkpoint.Lane(f.ID))
	}
	slices.SortFunc(lanes, compareLanes)
	return lanes, nil
}

func compareLanes(a, b checkpoint.Lane) int {
	return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Group, b.Group))
}

// parkedSinks names the sinks with parked deliveries, from the index alone. Deliveries that were dropped, or delivered but for
// their document, do not count.
func (s *Store) parkedSinks(ctx context.Context) ([]string, error) {
	cur, err := s.parked.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: s.ours(bson.E{Key: "blocks", Value: bson.D{{Key: "$in", Value: bson.A{true, false}}}},
			bson.E{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{"retrying", "waiting", "dead"}}}})}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$sink"}}}},
	}, options.Aggregate().SetHint(catalog.LaneIndex).SetAllowDiskUse(true))
	if err != nil {
		return nil, conn.Fault("load sinks with parked deliveries", err)
	}
	var found []struct {
		Sink string `bson:"_id"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("load sinks with parked deliveries", err)
	}
	var sinks []string
	for _, f := range found {
		sinks = append(sinks, f.Sink)
	}
	slices.Sort(sinks)
	return sinks, nil
}
