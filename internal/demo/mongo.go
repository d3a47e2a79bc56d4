package demo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// ordersName is the collection of orders. The server makes a database with the first collection in it.
const ordersName = "orders"

// makeMongo makes a database on a server of MongoDB.
func makeMongo(ctx context.Context, given, name string) (*place, error) {
	connect := func() (*driver.Client, error) {
		c, err := driver.Connect(options.Client().ApplyURI(given).SetWriteConcern(writeconcern.Majority()))
		if err != nil {
			return nil, fmt.Errorf("connect to the server of --url: %w", err)
		}
		return c, nil
	}
	client, err := connect()
	if err != nil {
		return nil, err
	}
	err = client.Database(name).CreateCollection(ctx, ordersName)
	if err = errors.Join(err, client.Disconnect(ctx)); err != nil {
		var e driver.ServerError
		denied := errors.As(err, &e) && e.HasErrorCode(13)
		return nil, lacking(fmt.Errorf("make a database for the demo: %w", err), denied,
			`db.getSiblingDB("admin").grantRolesToUser("…", ["readWriteAnyDatabase", "dbAdminAnyDatabase"])`)
	}
	return &place{kind: "mongodb", url: given, schema: name, what: "a database of the demo's own: " + name,
		open: func(context.Context) (till, error) {
			client, err := connect()
			if err != nil {
				return nil, err
			}
			return mongoTill{client.Database(name)}, nil
		},
		drop: func(ctx context.Context) error {
			client, err := connect()
			if err == nil {
				err = errors.Join(client.Database(name).Drop(ctx), client.Disconnect(ctx))
			}
			if err != nil {
				return fmt.Errorf("drop the demo's database %s: %w", name, err)
			}
			return nil
		}}, nil
}

// mongoTill is a till.
type mongoTill struct{ db *driver.Database }

// makeOrders has nothing to do: the collection came with the database.
func (t mongoTill) makeOrders(context.Context) error { return nil }

func (t mongoTill) write(ctx context.Context, order, status string, messages []message) error {
	session, err := t.db.Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	var docs []any
	for _, m := range messages {
		var payload bson.D
		if err := bson.UnmarshalExtJSON([]byte(m.payload), false, &payload); err != nil {
			return err
		}
		docs = append(docs, bson.D{{Key: "aggregatetype", Value: m.aggregate}, {Key: "aggregateid", Value: m.id}, {Key: "type", Value: m.kind},
			{Key: "payload", Value: payload}})
	}
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		_, err := t.db.Collection(ordersName).UpdateOne(ctx, bson.D{{Key: "_id", Value: order}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: status}}}}, options.UpdateOne().SetUpsert(true))
		if err != nil {
			return nil, err
		}
		return t.db.Collection("outbox").InsertMany(ctx, docs)
	})
	return err
}

func (t mongoTill) left(ctx context.Context) (int, error) {
	n, err := t.db.Collection("outbox").CountDocuments(ctx, bson.D{})
	return int(n), err
}

func (t mongoTill) close(ctx context.Context) error { return t.db.Client().Disconnect(ctx) }
