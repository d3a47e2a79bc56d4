//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/test/servers"
)

func mongoLosses() []loss {
	nothing := func(*Lost) {}
	return []loss{
		{name: "rolled over", happen: rollOver},
		{name: "restored from a dump", happen: restoreDump},
		{name: "restored as another replica set", backup: true, happen: anotherSet},
		{name: "restored as the same replica set", backup: true, happen: nothing, followed: true},
	}
}

// TestLostOplog is TestLostBinlog for MongoDB.
func TestLostOplog(t *testing.T) {
	for i, what := range mongoLosses() {
		t.Run(what.name, func(t *testing.T) {
			t.Parallel()
			loseOplog(t, []string{"outbox", "events"}[i%2], false, what)
		})
		t.Run(what.name+" rows kept", func(t *testing.T) {
			t.Parallel()
			loseOplog(t, "outbox", true, what)
		})
	}
}

func loseOplog(t *testing.T, table string, keep bool, what loss) {
	t.Helper()
	o := Options{Kind: "mongodb", Own: true, MongoSettings: []servers.MongoOption{servers.WithMongoOplog(16)}}
	l := NewLost(NewBed(t, o), o, table, keep)
	l.Run()
	l.AwaitDelivered(l.Write(20))
	l.Halt()
	pending := l.Write(10)
	if what.backup {
		backup := filepath.Join(t.TempDir(), "backup")
		l.whileDown(l.Mongo.Stop, func() error { return copyTree(l.Mongo.DataDir, backup) })
		l.Run()
		l.AwaitDelivered(append(l.Write(10), pending...))
		l.Halt()
		l.whileDown(l.Mongo.Stop, func() error { return copyTree(backup, l.Mongo.DataDir) })
		l.Ledger.Forgive(pending...) // the copy knows nothing of their delivery
	}
	what.happen(l)
	l.Write(10)
	if keep && !what.followed {
		l.Refused()
		return
	}
	l.Run()
	l.Healed()
}

// anotherSet makes a new replica set of the server's data.
func anotherSet(l *Lost) {
	l.tb.Helper()
	l.whileDown(l.Mongo.Stop, l.Mongo.Forget)
	l.database.(*mongoDB).connect() // to a driver the primary of a younger set is a stale one
}

// rollOver writes until the oplog does not hold any more what it holds now.
func rollOver(l *Lost) {
	l.tb.Helper()
	ctx, cancel := context.WithTimeout(l.context(), time.Minute)
	defer cancel()
	now, err := l.database.(*mongoDB).note(ctx)
	if err != nil {
		l.tb.Fatal(err)
	}
	filler := bson.D{{Key: "x", Value: bson.Binary{Data: bytes.Repeat([]byte{'x'}, 1<<20)}}}
	for {
		var first oplogEntry
		if err := l.Collection("outbox").Database().Client().Database("local").Collection("oplog.rs").FindOne(ctx, bson.D{}).Decode(&first); err != nil {
			l.tb.Fatal(err)
		}
		if first.TS.After(now) {
			return
		}
		for range 4 {
			if _, err := l.Collection("filler").InsertOne(ctx, filler); err != nil {
				l.tb.Fatal(err)
			}
		}
	}
}

// restoreDump copies the documents into another server, as mongodump and mongorestore do, and has the relay and applications
// use that one.
func restoreDump(l *Lost) {
	l.tb.Helper()
	ctx, cancel := context.WithTimeout(l.context(), time.Minute)
	defer cancel()
	m := l.database.(*mongoDB)
	other := servers.Mongo(l.tb)
	from := m.client
	l.Mongo = other
	m.connect()
	names, err := from.Database(l.DB).ListCollectionNames(ctx, bson.D{})
	if err != nil {
		l.tb.Fatal(err)
	}
	for _, name := range names {
		if err := copyCollection(ctx, from.Database(l.DB).Collection(name), m.collection(name)); err != nil {
			l.tb.Fatal(err)
		}
	}
	l.Configure(l.options)
	l.MustCommand("init") // the indexes
}

func copyCollection(ctx context.Context, from, to *mongo.Collection) error {
	if err := to.Database().CreateCollection(ctx, to.Name()); err != nil {
		return fmt.Errorf("copy collection %s: %w", from.Name(), err)
	}
	cur, err := from.Find(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("copy collection %s: %w", from.Name(), err)
	}
	var documents []bson.Raw
	if err := cur.All(ctx, &documents); err != nil || len(documents) == 0 {
		return err
	}
	_, err = to.InsertMany(ctx, documents)
	return err
}

// TestRolledOverBesideRelay: the oplog is rolled over while the relay is frozen, so that it has not read it. It goes on by itself.
func TestRolledOverBesideRelay(t *testing.T) {
	o := Options{Kind: "mongodb", Own: true, MongoSettings: []servers.MongoOption{servers.WithMongoOplog(16)}}
	l := NewLost(NewBed(t, o), o, "outbox", false)
	l.Run()
	l.AwaitDelivered(l.Write(20))
	l.relay.Signal(syscall.SIGSTOP)
	l.Write(20)
	rollOver(l)
	l.Write(20)
	l.Ledger.Forgive(l.ids...) // what it had in flight when it finds out is not settled
	l.relay.Signal(syscall.SIGCONT)
	l.Write(20)
	l.Healed()
	if log := l.checkpointLog(); log < 2 {
		t.Errorf("log of the checkpoint: %d, want one more for the position that was lost", log)
	}
}

// checkpointLog is how many positions were established.
func (l *Lost) checkpointLog() int {
	l.tb.Helper()
	var d struct {
		Log int `bson:"log"`
	}
	if err := l.Collection("tailbox_checkpoint").FindOne(l.context(), bson.D{}).Decode(&d); err != nil {
		l.tb.Fatal(err)
	}
	return d.Log
}
