package store

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
)

// Uninstall removes the pipeline's documents from the collections tailbox_*, or the collections themselves where no other
// pipeline uses them. It returns what it removed. It refuses while a relay runs, and, without force, while deliveries are parked:
// they would be lost. The outbox collections stay.
func Uninstall(ctx context.Context, cfg conn.Config, force bool) (dropped, left []string, err error) {
	s, err := open(ctx, cfg)
	switch {
	case errors.Is(err, checkpoint.ErrNoTables):
		return nil, nil, nil
	case errors.Is(err, checkpoint.ErrLocked):
		return nil, nil, fmt.Errorf("uninstall: %w: stop it first", err)
	case err != nil:
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	ctx = s.lease.In(ctx)
	if !force {
		parked, err := s.parked.CountDocuments(ctx, s.parked.ours(bson.E{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{"retrying", "waiting", "dead"}}}}))
		if err != nil {
			return nil, nil, conn.Fault("count parked deliveries", err)
		}
		if parked > 0 {
			return nil, nil, fmt.Errorf("uninstall: %d deliveries are parked and would be lost: let them end, drop them (tailbox dead drop), or use --force", parked)
		}
	}
	others, err := s.checkpoints.CountDocuments(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: s.cfg.Pipeline}}}}, options.Count().SetLimit(1))
	if err != nil {
		return nil, nil, conn.Fault("look for other pipelines", err)
	}
	for _, coll := range []*mongo.Collection{s.requests.Collection, s.parked.Collection, s.checkpoints} {
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
			return dropped, nil, conn.Fault("uninstall", err)
		}
	}
	if others > 0 {
		dropped = append(dropped, "documents of pipeline "+s.cfg.Pipeline+" in tailbox_*, which other pipelines use")
	}
	s.lease.Forget() // there is no lease any more to give back
	return dropped, nil, nil
}
