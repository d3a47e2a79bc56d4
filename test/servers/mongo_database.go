package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// sharedMongo starts the server that the tests of this process have in common.
//
//nolint:gochecknoglobals // one server a process
var sharedMongo = sync.OnceValues(func() (*MongoServer, error) {
	if text := os.Getenv("TAILBOX_TEST_MONGODB_URL"); text != "" {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse TAILBOX_TEST_MONGODB_URL: %w; want mongodb://user:password@host:port/", err)
		}
		return &MongoServer{external: u}, nil
	}
	m, err := StartMongo()
	if err != nil {
		return nil, err
	}
	atEnd(m.Close)
	return m, nil
})

// SharedMongo returns the replica set that all tests of this process use.
// Start it anew, stop it or change its settings in no test: use [Mongo] for
// that. With TAILBOX_TEST_MONGODB_URL it is that server.
func SharedMongo(tb testing.TB) *MongoServer {
	tb.Helper()
	m, err := sharedMongo()
	if err != nil {
		unavailable(tb, err)
	}
	return m
}

// NewDatabase returns the name of a database that nobody else has, and drops it
// at the test's end. MongoDB makes it when something is written to it.
func (m *MongoServer) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := databaseName(tb.Name())
	tb.Cleanup(func() {
		if m.child != nil {
			if pid, _ := m.child.running(); pid == 0 {
				return // the test ended its server; the data goes with it
			}
		}
		if err := m.dropDatabase(name); err != nil {
			tb.Errorf("drop database %s: %v", name, err)
		}
	})
	return name
}

func (m *MongoServer) dropDatabase(name string) (err error) {
	// A client that was killed may have left a transaction, which the server ends after a minute, when it looks.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(m.URL()))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	return client.Database(name).Drop(ctx)
}

// Client connects to the server, and disconnects at the test's end.
func (m *MongoServer) Client(tb testing.TB) *mongo.Client {
	tb.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(m.URL()))
	if err != nil {
		tb.Fatalf("connect to %s: %v", m.Addr(), err)
	}
	tb.Cleanup(func() {
		if err := client.Disconnect(context.Background()); err != nil {
			tb.Errorf("disconnect: %v", err)
		}
	})
	return client
}
