package setup

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
)

// Example is a message as a document of the collection makes it, whichever it is; nil if there is none.
func Example(ctx context.Context, cfg conn.Config, t *outbox.Table) (m *outbox.Message, err error) {
	if cfg, err = cfg.Resolved(); err != nil {
		return nil, err
	}
	client, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Disconnect(ctx, client)) }()
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
	d := document.Decoder{MaxMessage: cfg.MaxMessage}
	m = d.NewMessage()
	return m, d.Decode(document.NewPlan(&own), doc, m)
}
