package mongo

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
)

// Example is a message as a document of the collection makes it, whichever it is; nil if there is none.
func (cfg Config) Example(ctx context.Context, t *outbox.Table) (m *outbox.Message, err error) {
	if cfg, err = cfg.resolved(); err != nil {
		return nil, err
	}
	client, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disconnect(ctx, client)) }()
	own := *t
	if own.Schema == "" {
		own.Schema = cfg.Schema
	}
	doc, err := client.Database(own.Schema).Collection(own.Name).FindOne(ctx, bson.D{}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := decoder{maxMessage: cfg.MaxMessage}
	m = d.NewMessage()
	return m, d.decode(newPlan(&own), doc, m)
}
