package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// What the server will refuse however often it is asked stops the relay, with the collection's name and the fix.
func TestSettleWhatCannotBe(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		on   outbox.OnDelivered
		make func(ctx context.Context, c *mongo.Collection) error
		doc  bson.D // beside _id and status
		// marked: there is such a document that was marked before.
		marked bool
		fix    string
	}{
		"delete from a capped collection": {outbox.Delete, capped, nil, false, "not capped"},
		"mark in a capped collection":     {outbox.Mark, capped, nil, false, "not capped"},
		"mark against a unique index": {outbox.Mark, func(ctx context.Context, c *mongo.Collection) error {
			_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "status", Value: 1}, {Key: "order", Value: 1}},
				Options: options.Index().SetUnique(true)})
			return err
		}, bson.D{{Key: "order", Value: 7}}, true, "drop the unique index"},
		"mark a document of 16 MiB": {outbox.Mark, nil, bson.D{{Key: "payload", Value: strings.Repeat("x", 16<<20-100)}}, false, "16 MiB"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			table := mongotest.Table("tailbox")
			table.OnDelivered = c.on
			r := newRig(t, servers.SharedMongo(t), table)
			if c.make != nil {
				r.Must(c.make(r.Ctx, r.Collection(0)))
			}
			doc := append(bson.D{{Key: "_id", Value: "1"}, {Key: "status", Value: "pending"}}, c.doc...)
			_, err := r.Collection(0).InsertOne(r.Ctx, doc)
			r.Must(err)
			if c.marked {
				_, err := r.Collection(0).InsertOne(r.Ctx, append(bson.D{{Key: "_id", Value: "2"}, {Key: "status", Value: "delivered"}}, c.doc...))
				r.Must(err)
			}
			name := r.Config.Tables[0].String()
			_, err = opened(r).Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: name, ID: "1"}}})
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "collection "+name) || !strings.Contains(err.Error(), c.fix) {
				t.Errorf("settle: %v; want it to stop, with %q", err, c.fix)
			}
		})
	}
}

// capped makes a collection anew as a capped one.
func capped(ctx context.Context, c *mongo.Collection) error {
	if err := c.Drop(ctx); err != nil {
		return err
	}
	return c.Database().CreateCollection(ctx, c.Name(), options.CreateCollection().SetCapped(true).SetSizeInBytes(1<<20))
}
