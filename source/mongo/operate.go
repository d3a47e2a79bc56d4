package mongo

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
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A Gap is a checkpoint behind which the log cannot be read on, as it is seen now.
type Gap = store.Gap

// Gap tells whether the next start would have to establish a new position, or to sweep rows that no sweep has gone through to the end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func (cfg Config) Gap(ctx context.Context) (gap *Gap, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if gap, err = store.FindGap(ctx, s.savedCheckpoint, s.cfg.examine); err != nil {
		return nil, err
	}
	return store.JudgeGap(gap, s.cfg.Tables, func(t *outbox.Table) (name, cure string, err error) {
		_, cure = s.cfg.pendingRows(t, source.Known{})
		return t.String(), cure, nil
	})
}

// savedCheckpoint reads the checkpoint; nil where none was saved.
func (s *stateStore) savedCheckpoint(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var doc checkpointDocument
	err := s.checkpoints.FindOne(ctx, s.mine()).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, fault("read the checkpoint", err)
	}
	return doc.checkpoint()
}

// Uninstall removes the pipeline's documents from the collections tailbox_*, or the collections themselves where no other
// pipeline uses them. It returns what it removed. It refuses while a relay runs, and, without force, while deliveries are parked:
// they would be lost. The outbox collections stay.
func (cfg Config) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	s, err := openStore(ctx, cfg)
	switch {
	case errors.Is(err, checkpoint.ErrNoTables):
		return nil, nil, nil
	case errors.Is(err, checkpoint.ErrLocked):
		return nil, nil, fmt.Errorf("uninstall: %w: stop it first", err)
	case err != nil:
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	ctx = s.in(ctx)
	if !force {
		parked, err := s.parked.CountDocuments(ctx, s.ours(bson.E{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{"retrying", "waiting", "dead"}}}}))
		if err != nil {
			return nil, nil, fault("count parked deliveries", err)
		}
		if parked > 0 {
			return nil, nil, fmt.Errorf("uninstall: %d deliveries are parked and would be lost: let them end, drop them (tailbox dead drop), or use --force", parked)
		}
	}
	others, err := s.checkpoints.CountDocuments(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: s.cfg.Pipeline}}}}, options.Count().SetLimit(1))
	if err != nil {
		return nil, nil, fault("look for other pipelines", err)
	}
	for _, coll := range []*mongo.Collection{s.requests, s.parked, s.checkpoints} {
		if others == 0 {
			err = coll.Drop(ctx)
			dropped = append(dropped, "collection "+s.cfg.Schema+"."+coll.Name())
		} else {
			field := "pipeline"
			if coll == s.checkpoints {
				field = "_id"
			}
			_, err = coll.DeleteMany(ctx, bson.D{{Key: field, Value: s.cfg.Pipeline}})
		}
		if err != nil {
			return dropped, nil, fault("uninstall", err)
		}
	}
	if others > 0 {
		dropped = append(dropped, "documents of pipeline "+s.cfg.Pipeline+" in tailbox_*, which other pipelines use")
	}
	s.epoch = 0 // there is no lease any more to give back
	return dropped, nil, nil
}

func countOptions() *options.CountOptionsBuilder { return options.Count().SetLimit(countLimit + 1) }

// sortedNames are the keys of a map, in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
