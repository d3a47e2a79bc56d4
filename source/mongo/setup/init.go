package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/prepare"
)

// Init creates what is missing of the relay's collections, the outbox collections whose shape is ours, and their indexes, and
// returns what it did ("created …", "updated …"). What is there is left alone, so a user without the right to create can run it after a migration did.
// It makes no checkpoint.
func Init(ctx context.Context, cfg conn.Config) (done []string, err error) {
	if cfg, err = cfg.Resolved(); err != nil {
		return nil, err
	}
	client, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Disconnect(ctx, client)) }()
	h, err := conn.Greet(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := h.Usable(); err != nil {
		return nil, err
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		info, err := catalog.Find(ctx, client, t.Schema, t.Name)
		if err != nil {
			return nil, err
		}
		if info == nil && !ownShape(t.Shape) {
			return nil, prepare.ForeignShape("collection "+t.String(), t.Shape)
		}
		if info == nil {
			if err := refuseName(ctx, &cfg, client, t); err != nil {
				return nil, err
			}
			continue
		}
		if what, fix := info.NeverSupported(t); what != "" {
			return nil, fmt.Errorf("%w: nothing was created yet: %s: %s", source.ErrStop, what, fix)
		}
	}
	missing, err := migrate(ctx, &cfg, client)
	if err != nil {
		return nil, err
	}
	for _, c := range append(catalog.Own(&cfg), catalog.Outbox(&cfg)...) {
		made, err := create(ctx, &c, client)
		if done = append(done, made...); err != nil {
			return done, err
		}
	}
	if missing != "" {
		if err := recorded(ctx, &cfg, client); err != nil {
			return done, err
		}
		if !slices.Contains(done, "created collection "+cfg.Schema+"."+catalog.Checkpoints) {
			done = append(done, "updated collections tailbox_*: "+missing)
		}
	}
	return done, nil
}

// refuseName refuses to create a collection that looks as if it were there under another name.
func refuseName(ctx context.Context, cfg *conn.Config, client *mongo.Client, t *outbox.Table) error {
	if cfg.CreateTables {
		return nil
	}
	names, err := collectionsBeside(ctx, client, t)
	if err != nil {
		return err
	}
	if why := columns.Uncreated(t, names, cfg.Tables); why != "" {
		return fmt.Errorf("%w: nothing was created: %s", source.ErrStop, why)
	}
	return nil
}

// collectionsBeside are the names of the collections in the collection's database.
func collectionsBeside(ctx context.Context, client *mongo.Client, t *outbox.Table) ([]string, error) {
	names, err := client.Database(t.Schema).ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, fmt.Errorf("look for collections like %s: %w", t, err)
	}
	return names, nil
}

// ownShape reports whether Init can make a collection of the shape.
func ownShape(shape string) bool {
	return shape == "debezium" || shape == "tailbox" || shape == "flowcatalyst"
}

// create makes the collection and its indexes where they are missing.
func create(ctx context.Context, c *catalog.Collection, client *mongo.Client) (done []string, err error) {
	info, err := catalog.Find(ctx, client, c.Database, c.Name)
	if err != nil {
		return nil, err
	}
	if info == nil {
		if err := client.Database(c.Database).CreateCollection(ctx, c.Name); err != nil && !conn.HasCode(err, conn.CodeNamespaceExists) {
			return nil, fmt.Errorf("create collection %s: %w", c, initFault(err))
		}
		done = append(done, "created collection "+c.String())
	}
	missing, err := c.MissingIndexes(ctx, client)
	if err != nil {
		return done, err
	}
	for _, x := range missing {
		if _, err := client.Database(c.Database).Collection(c.Name).Indexes().CreateOne(ctx, x.Model()); err != nil {
			return done, fmt.Errorf("create index %s of %s: %w", x.Name, c, initFault(err))
		}
		done = append(done, "created index "+x.Name+" of "+c.String())
	}
	return done, nil
}
