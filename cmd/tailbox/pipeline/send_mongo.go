package pipeline

import (
	"context"
	"errors"
	"fmt"

	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
	"github.com/tailbox/tailbox/source/mongo"
)

// sendMongo writes the message in a transaction of its own.
func sendMongo(ctx context.Context, cfg mongo.Config, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	database, err := cfg.Database()
	if err != nil {
		return "", err
	}
	client, err := driver.Connect(options.Client().ApplyURI(cfg.URL))
	if err != nil {
		return "", fmt.Errorf("read source.url: %w", err)
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	w, err := outboxmongo.New(ctx, client.Database(database), *t, o)
	if err != nil {
		return "", err
	}
	written, err := w.Transactor(client, nil).Do(ctx, func(context.Context, *driver.Session) ([]outbox.Draft, error) { return []outbox.Draft{d}, nil })
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}
