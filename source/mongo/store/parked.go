package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/store"
)

// A parkedCollection is the deliveries of one pipeline in tailbox_parked. Its methods find deliveries; only an attempt writes them.
type parkedCollection struct {
	*mongo.Collection
	pipeline string
}

// ours is a filter for the pipeline's deliveries.
func (c parkedCollection) ours(further ...bson.E) bson.D {
	return append(bson.D{{Key: "pipeline", Value: c.pipeline}}, further...)
}

// documents reads deliveries.
func (c parkedCollection) documents(ctx context.Context, where bson.D, opts ...options.Lister[options.FindOptions]) ([]*delivery.Document, error) {
	cur, err := c.Find(ctx, where, opts...)
	if err != nil {
		return nil, err
	}
	return delivery.All(ctx, cur)
}

// bareOf reads the deliveries of messages without their contents. An id may occur in several tables, so the caller compares the tables.
func (c parkedCollection) bareOf(ctx context.Context, ids []string) ([]*delivery.Document, error) {
	return c.documents(ctx, c.ours(bson.E{Key: "message_id", Value: bson.D{{Key: "$in", Value: ids}}}),
		options.Find().SetProjection(delivery.BareFields()).SetHint(catalog.MessageIndex))
}

// messageKeys names the messages of deliveries; limit 0 = all.
func (c parkedCollection) messageKeys(ctx context.Context, where bson.D, limit int64) ([]store.MessageKey, error) {
	cur, err := c.Find(ctx, where, options.Find().SetLimit(limit).SetProjection(bson.D{{Key: "_id", Value: 0},
		{Key: "source_table", Value: 1}, {Key: "message_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var found []struct {
		Table string `bson:"source_table"`
		ID    string `bson:"message_id"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, err
	}
	seen := make(map[store.MessageKey]bool, len(found))
	var keys []store.MessageKey
	for _, f := range found {
		if key := (store.MessageKey(f)); !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// unfinishedMessages names messages whose document has still to be dealt with.
func (c parkedCollection) unfinishedMessages(ctx context.Context, limit int) ([]store.MessageKey, error) {
	keys, err := c.messageKeys(ctx, c.ours(bson.E{Key: "unfinished", Value: true}), int64(limit))
	if err != nil {
		return nil, conn.Fault("look for unfinished messages", err)
	}
	return keys, nil
}
