package store

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// inForce reads what is in force.
func (s *Store) inForce(ctx context.Context) (store.Forces, error) {
	cur, err := s.requests.Find(ctx, bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "in_force", Value: bson.D{{Key: "$exists", Value: true}}},
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
func (s *Store) saveForce(ctx context.Context, id int64, f *store.Force) error {
	doc, err := documentOf(f)
	if err != nil {
		return fmt.Errorf("write in_force of request %d: %w", id, err)
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "in_force", Value: doc}}}}
	if f.Empty() {
		update = bson.D{{Key: "$unset", Value: bson.D{{Key: "in_force", Value: ""}}}}
	}
	_, err = s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, update)
	return err
}
