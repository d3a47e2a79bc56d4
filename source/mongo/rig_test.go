package mongo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// patience bounds every wait for an event.
const patience = 4 * time.Minute

// A rig is a database with outbox collections, and a source that reads them.
type rig struct {
	t      testing.TB
	ctx    context.Context
	server *servers.MongoServer
	client *mongo.Client
	cfg    Config
	src    *Source

	mu  sync.Mutex
	log bytes.Buffer
}

func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// newRig makes the collections. Tables without a Schema lie in the rig's own database.
func newRig(t testing.TB, server *servers.MongoServer, tables ...outbox.Table) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, server: server, client: server.Client(t)}
	name := server.NewDatabase(t)
	for i := range tables {
		if tables[i].Schema == "shop" {
			tables[i].Schema = name
		}
	}
	r.cfg = Config{CreateTables: true, Pipeline: name, URL: server.URL(), Schema: name, Tables: tables, Logger: slog.New(slog.NewTextHandler(r, nil))}
	if _, err := r.cfg.Init(ctx); err != nil {
		t.Fatal(err)
	}
	r.src = New(r.cfg)
	return r
}

func (r *rig) collection(i int) *mongo.Collection {
	t := &r.cfg.Tables[i]
	return r.client.Database(t.Schema).Collection(t.Name)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// insert writes a document of the shape debezium into the i-th table.
func (r *rig) insert(ctx context.Context, i int, id any, payload any) {
	r.t.Helper()
	_, err := r.collection(i).InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "aggregatetype", Value: "a"}, {Key: "aggregateid", Value: "1"},
		{Key: "type", Value: "T"}, {Key: "payload", Value: payload}})
	r.must(err)
}

// inTransaction runs f in a transaction of an application.
func (r *rig) inTransaction(f func(context.Context)) {
	r.t.Helper()
	session, err := r.client.StartSession()
	r.must(err)
	defer session.EndSession(r.ctx)
	r.must(session.StartTransaction())
	f(mongo.NewSessionContext(r.ctx, session))
	r.must(session.CommitTransaction(r.ctx))
}

func (r *rig) establish() source.Resume {
	r.t.Helper()
	snap, err := r.src.Establish(r.ctx)
	r.must(err)
	r.must(snap.Close(r.ctx))
	return snap.Resume()
}

// until polls.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("waited for: %s", what)
		}
	}
}

// A reading is a Run in the background.
type reading struct {
	r       *rig
	cancel  context.CancelFunc
	batches chan *source.Batch
	done    chan error
}

func (r *rig) read(start source.Start) *reading {
	ctx, cancel := context.WithCancel(r.ctx)
	x := &reading{r: r, cancel: cancel, batches: make(chan *source.Batch), done: make(chan error, 1)}
	go func() {
		x.done <- r.src.Run(ctx, start, func(ctx context.Context, b *source.Batch) error {
			select {
			case x.batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(x.batches)
	}()
	r.t.Cleanup(func() {
		cancel()
		for range x.batches {
		}
	})
	return x
}

// next waits for a batch; nil at the end of Run.
func (x *reading) next() *source.Batch {
	x.r.t.Helper()
	select {
	case b := <-x.batches:
		return b
	case <-time.After(patience):
		x.r.t.Fatal("waited for a batch")
	}
	return nil
}

// messages waits for n messages and the place behind them.
func (x *reading) messages(n int) (ms []*outbox.Message, resume source.Resume) {
	x.r.t.Helper()
	for {
		b := x.next()
		if b == nil {
			x.r.t.Fatalf("Run ended: %v", <-x.done)
		}
		if ms = append(ms, b.Messages...); len(ms) > n {
			x.r.t.Fatalf("got %d messages, want %d", len(ms), n)
		}
		if len(ms) == n && b.Resume != "" {
			return ms, b.Resume
		}
	}
}

// fails waits for the end of Run.
func (x *reading) fails(target error, text string) {
	x.r.t.Helper()
	for b := range x.batches {
		if b.Resume != "" {
			x.r.src.Confirm(b.Resume) // as a relay does once all is settled
		}
	}
	if err := <-x.done; !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
		x.r.t.Fatalf("Run ended with %v, want %v and %q in it", err, target, text)
	}
}

func ids(ms []*outbox.Message) string {
	var s []string
	for _, m := range ms {
		s = append(s, m.ID)
	}
	return strings.Join(s, " ")
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
