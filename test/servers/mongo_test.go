package servers_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/test/servers"
)

// TestMongoChangeStream reads what a transaction wrote, before and after a kill.
func TestMongoChangeStream(t *testing.T) {
	t.Parallel()
	ctx := within(t, 4*time.Minute)
	m := servers.Mongo(t)
	coll := m.Client(t).Database(m.NewDatabase(t)).Collection("c")
	stream, err := coll.Watch(ctx, bson.A{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer stream.Close(ctx)
	for i := range 2 {
		insertInTransaction(t, ctx, coll, i)
		if !stream.Next(ctx) {
			t.Fatalf("read change %d: %v", i, stream.Err())
		}
		if got := stream.Current.Lookup("documentKey", "_id").AsInt64(); got != int64(i) {
			t.Errorf("change %d: got document %d", i, got)
		}
		if err := m.Kill(); err != nil {
			t.Fatalf("kill: %v", err)
		}
		if err := m.Start(); err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	if err := m.Pause(); err != nil {
		t.Fatalf("pause: %v", err)
	}
	if err := m.Resume(); err != nil {
		t.Fatalf("resume: %v", err)
	}
	if n, err := coll.CountDocuments(ctx, bson.D{}); err != nil || n != 2 {
		t.Errorf("count documents after restarts: got %d, %v, want 2", n, err)
	}
}

func insertInTransaction(t *testing.T, ctx context.Context, coll *mongo.Collection, id int) {
	t.Helper()
	session, err := coll.Database().Client().StartSession()
	if err != nil {
		t.Fatalf("start session: %v", err)
	}
	defer session.EndSession(ctx)
	if _, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		return coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}})
	}); err != nil {
		t.Fatalf("insert %d: %v", id, err)
	}
}

// TestMongoStandalone wants a server without change streams.
func TestMongoStandalone(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	m := servers.Mongo(t, servers.WithMongoStandalone())
	if _, err := m.Client(t).Database("d").Collection("c").Watch(ctx, bson.A{}); err == nil {
		t.Error("watch a standalone server: got a change stream, want an error")
	}
}

// TestMongoAuth wants strangers to be refused.
func TestMongoAuth(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	m := servers.Mongo(t, servers.WithMongoAuth())
	if _, err := m.Client(t).Database("d").Collection("c").InsertOne(ctx, bson.D{{Key: "a", Value: 1}}); err != nil {
		t.Errorf("insert as the first user: %v", err)
	}
	stranger, err := mongo.Connect(options.Client().SetHosts([]string{m.Addr()}).SetDirect(true))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer stranger.Disconnect(ctx)
	if _, err := stranger.Database("d").Collection("c").InsertOne(ctx, bson.D{{Key: "a", Value: 1}}); err == nil {
		t.Error("insert without a user: got no error")
	}
}

// TestSharedMongo has databases of its own for each test.
func TestSharedMongo(t *testing.T) {
	t.Parallel()
	m := servers.SharedMongo(t)
	if a, b := m.NewDatabase(t), m.NewDatabase(t); a == b {
		t.Errorf("two databases: both are %s", a)
	}
	if err := m.Client(t).Ping(within(t, 3*time.Minute), nil); err != nil {
		t.Errorf("ping %s: %v", m.Addr(), err)
	}
}
