// Package mongotest is the rig of this source's tests: a database with outbox collections at a real server, and what an application
// does to them.
package mongotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// patience bounds every wait for an event.
const patience = 4 * time.Minute

// A Rig is a database with outbox collections, and a source that reads them.
type Rig struct {
	T      testing.TB
	Ctx    context.Context
	Server *servers.MongoServer
	Client *mongo.Client
	Config conn.Config
	Source source.Source

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer, for the log.
func (r *Rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// New makes the collections, by init, which is that of package setup. Tables without a Schema lie in the rig's own database.
func New(t testing.TB, server *servers.MongoServer, init func(context.Context, conn.Config) ([]string, error), tables ...outbox.Table) *Rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	r := &Rig{T: t, Ctx: ctx, Server: server, Client: server.Client(t)}
	name := server.NewDatabase(t)
	for i := range tables {
		if tables[i].Schema == "shop" {
			tables[i].Schema = name
		}
	}
	r.Config = conn.Config{Config: source.Config{CreateTables: true, Pipeline: name, URL: server.URL(), Schema: name, Tables: tables, Logger: slog.New(slog.NewTextHandler(r, nil))}}
	if _, err := init(ctx, r.Config); err != nil {
		t.Fatal(err)
	}
	return r
}

// Collection is that of the i-th table.
func (r *Rig) Collection(i int) *mongo.Collection {
	t := &r.Config.Tables[i]
	return r.Client.Database(t.Schema).Collection(t.Name)
}

// Must ends the test if there is an error.
func (r *Rig) Must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// Insert writes a document of the shape debezium into the i-th table.
func (r *Rig) Insert(ctx context.Context, i int, id any, payload any) {
	r.T.Helper()
	_, err := r.Collection(i).InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "aggregatetype", Value: "a"}, {Key: "aggregateid", Value: "1"},
		{Key: "type", Value: "T"}, {Key: "payload", Value: payload}})
	r.Must(err)
}

// InTransaction runs f in a transaction of an application.
func (r *Rig) InTransaction(f func(context.Context)) {
	r.T.Helper()
	session, err := r.Client.StartSession()
	r.Must(err)
	defer session.EndSession(r.Ctx)
	r.Must(session.StartTransaction())
	f(mongo.NewSessionContext(r.Ctx, session))
	r.Must(session.CommitTransaction(r.Ctx))
}

// Establish takes a position.
func (r *Rig) Establish() source.Resume {
	r.T.Helper()
	snap, err := r.Source.Establish(r.Ctx)
	r.Must(err)
	r.Must(snap.Close(r.Ctx))
	return snap.Resume()
}

// Until polls.
func (r *Rig) Until(what string, ok func() bool) {
	r.T.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.T.Fatalf("waited for: %s", what)
		}
	}
}

// A Reading is a Run in the background.
type Reading struct {
	r       *Rig
	Cancel  context.CancelFunc
	batches chan *source.Batch
	Done    chan error
}

// Read starts a Run of the rig's source.
func (r *Rig) Read(start source.Start) *Reading {
	ctx, cancel := context.WithCancel(r.Ctx)
	x := &Reading{r: r, Cancel: cancel, batches: make(chan *source.Batch), Done: make(chan error, 1)}
	go func() {
		x.Done <- r.Source.Run(ctx, start, func(ctx context.Context, b *source.Batch) error {
			select {
			case x.batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(x.batches)
	}()
	r.T.Cleanup(func() {
		cancel()
		for range x.batches {
		}
	})
	return x
}

// Next waits for a batch; nil at the end of Run.
func (x *Reading) Next() *source.Batch {
	x.r.T.Helper()
	select {
	case b := <-x.batches:
		return b
	case <-time.After(patience):
		x.r.T.Fatal("waited for a batch")
	}
	return nil
}

// Messages waits for n messages and the place behind them.
func (x *Reading) Messages(n int) (ms []*outbox.Message, resume source.Resume) {
	x.r.T.Helper()
	for {
		b := x.Next()
		if b == nil {
			x.r.T.Fatalf("Run ended: %v", <-x.Done)
		}
		if ms = append(ms, b.Messages...); len(ms) > n {
			x.r.T.Fatalf("got %d messages, want %d", len(ms), n)
		}
		if len(ms) == n && b.Resume != "" {
			return ms, b.Resume
		}
	}
}

// Fails waits for the end of Run.
func (x *Reading) Fails(target error, text string) {
	x.r.T.Helper()
	for b := range x.batches {
		if b.Resume != "" {
			x.r.Source.Confirm(b.Resume) // as a relay does once all is settled
		}
	}
	if err := <-x.Done; !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
		x.r.T.Fatalf("Run ended with %v, want %v and %q in it", err, target, text)
	}
}

// IDs are those of messages, in one line.
func IDs(ms []*outbox.Message) string {
	var s []string
	for _, m := range ms {
		s = append(s, m.ID)
	}
	return strings.Join(s, " ")
}

// Equal compares.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// Fill inserts documents, ten a transaction's worth at a time.
func (r *Rig) Fill(n int) {
	payload := strings.Repeat("x", 200)
	docs := make([]any, 0, 1000)
	for i := range n {
		docs = append(docs, bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "aggregatetype", Value: "order"}, {Key: "aggregateid", Value: fmt.Sprint(i % 1000)},
			{Key: "type", Value: "OrderPlaced"}, {Key: "payload", Value: payload}})
		if len(docs) == cap(docs) || i == n-1 {
			_, err := r.Collection(0).InsertMany(r.Ctx, docs)
			r.Must(err)
			docs = docs[:0]
		}
	}
}

// Table is a table of a shape, with the id in _id.
func Table(shape string) outbox.Table {
	s, _ := outbox.ShapeNamed(shape)
	t := outbox.Table{Schema: "shop", Name: "outbox", Shape: shape, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
	t.Columns.ID = "_id"
	return t
}

// SetLease changes the pipeline's lease by hand.
func (r *Rig) SetLease(set bson.D) {
	r.T.Helper()
	_, err := r.Client.Database(r.Config.Schema).Collection("tailbox_checkpoint").UpdateOne(r.Ctx, bson.D{}, bson.D{{Key: "$set", Value: set}})
	r.Must(err)
}

// Load loads a store, which the test closes at its end.
func (r *Rig) Load(s checkpoint.Store) {
	r.T.Helper()
	r.T.Cleanup(func() { _ = s.Close(context.Background()) })
	_, err := s.Load(r.Ctx)
	r.Must(err)
}

// Findings are what a check found, but for what it only tells, in the order of their levels. The rig's database is called shop.
func (r *Rig) Findings(found []check.Finding, err error) string {
	r.T.Helper()
	r.Must(err)
	slices.SortStableFunc(found, func(a, b check.Finding) int { return strings.Compare(string(a.Level), string(b.Level)) })
	var lines []string
	for _, f := range found {
		if f.Level != check.Info {
			lines = append(lines, fmt.Sprintf("%s: %s", f.Level, strings.ReplaceAll(f.What, r.Config.Schema, "shop")))
		}
	}
	return strings.Join(lines, "\n")
}

// Least makes a role, and a user who has nothing but it, whose password is p.
func Least(ctx context.Context, client *mongo.Client, user, role string, privileges bson.A) error {
	admin := client.Database("admin")
	if err := admin.RunCommand(ctx, bson.D{{Key: "createRole", Value: role}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}}).Err(); err != nil {
		return err
	}
	return admin.RunCommand(ctx, bson.D{{Key: "createUser", Value: user}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{role}}}).Err()
}
