package outboxmongo_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
	source "github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// A rig is a database with an outbox table of the shape tailbox, and a collection orders.
type rig struct {
	*testing.T
	client *mongo.Client
	db     *mongo.Database
	table  outbox.Table
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	server := servers.SharedMongo(t)
	r := &rig{T: t, client: server.Client(t)}
	r.db = r.client.Database(server.NewDatabase(t))
	var err error
	if r.table, err = outboxmongo.Table("tailbox", "outbox"); err != nil {
		t.Fatal(err)
	}
	var cfg source.Config
	cfg.Pipeline, cfg.URL, cfg.Schema, cfg.Tables = "shop", server.URL(), r.db.Name(), []outbox.Table{r.table}
	if _, err := cfg.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.db.CreateCollection(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) writer(o outbox.Options) *outboxmongo.Writer {
	r.Helper()
	w, err := outboxmongo.New(r.Context(), r.db, r.table, o)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// in runs f in a transaction, and commits it unless f returns an error.
func (r *rig) in(f func(ctx context.Context) error) {
	r.Helper()
	session, err := r.client.StartSession()
	if err != nil {
		r.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if _, err := session.WithTransaction(r.Context(), func(ctx context.Context) (any, error) { return nil, f(ctx) }); err != nil && !errors.Is(err, errUndo) {
		r.Fatalf("the transaction failed: %v", err)
	}
}

var errUndo = errors.New("undo")

func (r *rig) count(filter bson.D) int64 {
	r.Helper()
	n, err := r.db.Collection("outbox").CountDocuments(r.Context(), filter)
	if err != nil {
		r.Fatal(err)
	}
	return n
}

func (r *rig) must(ctx context.Context, w *outboxmongo.Writer, d outbox.Draft) string {
	r.Helper()
	id, err := w.Write(ctx, d)
	if err != nil {
		r.Fatal(err)
	}
	return id
}

func TestWrite(t *testing.T) {
	r := newRig(t)
	w := r.writer(outbox.Options{MaxMessage: 1000})
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	var id string
	r.in(func(ctx context.Context) error {
		id = r.must(ctx, w, outbox.Draft{Type: "OrderPaid", Group: "g", Payload: []byte("a\xff"), Headers: map[string]string{"b": "2", "a.$": "1"}, Priority: 2,
			IdempotencyKey: "k", AvailableAt: at, Fields: map[string]any{"order": 42}})
		return nil
	})
	oid, err := bson.ObjectIDFromHex(id)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Type, Status string
		Group        string `bson:"message_group"`
		Payload      []byte
		Headers      bson.D
		Priority     int
		Attempts     *int
		Order        int
		Available    time.Time `bson:"available_at"`
		Created      time.Time `bson:"created_at"`
	}
	if err := r.db.Collection("outbox").FindOne(t.Context(), bson.D{{Key: "_id", Value: oid}}).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Type != "OrderPaid" || doc.Status != "pending" || doc.Group != "g" || string(doc.Payload) != "a\xff" || doc.Priority != 2 || doc.Attempts == nil ||
		doc.Order != 42 || !doc.Available.Equal(at) || time.Since(doc.Created) > time.Hour || len(doc.Headers) != 2 || doc.Headers[0].Key != "a.$" {
		t.Errorf("document: %+v", doc)
	}
	r.in(func(ctx context.Context) error {
		r.must(ctx, w, outbox.Draft{Type: "gone", Payload: []byte("p")})
		return errUndo
	})
	r.in(func(ctx context.Context) error {
		if _, err := r.db.Collection("orders").InsertOne(ctx, bson.D{{Key: "state", Value: "paid"}}); err != nil {
			return err
		}
		for _, d := range []outbox.Draft{{Payload: []byte("p")}, {Type: "t", Payload: make([]byte, 1001)}, {Type: "\xff", Payload: []byte("p")},
			{Type: "t", Payload: []byte("p"), Headers: map[string]string{"a\x00": "b"}}, {Type: "t", Payload: []byte("p"), Fields: map[string]any{"f": func() {}}}} {
			_, err := w.Write(ctx, d)
			if _, ok := errors.AsType[*outbox.DraftError](err); !ok {
				t.Errorf("%.60v: %v", d, err)
			}
		}
		_, err := w.Write(ctx, outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k"})
		if dup, ok := errors.AsType[*outbox.DuplicateError](err); !ok || dup.First != id || dup.Column != "idempotency_key" {
			t.Errorf("a duplicate: %v", err)
		}
		again := outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k", Once: true}
		new := outbox.Draft{ID: "mine", Type: "new", Payload: []byte("p"), IdempotencyKey: "k2", Once: true}
		written, err := w.WriteAll(ctx, []outbox.Draft{again, new, {Type: "new", Payload: []byte("p")}, {Type: "new", Payload: []byte("p"), IdempotencyKey: "k2", Once: true}})
		if err != nil || len(written) != 4 || !written[0].Duplicate || written[0].ID != id || written[1].ID != "mine" || written[1].Duplicate || !written[3].Duplicate || written[3].ID != "mine" {
			t.Errorf("%+v, %v", written, err)
		}
		if _, err := w.WriteAll(ctx, []outbox.Draft{{Type: "lost", Payload: []byte("p")}, {ID: "mine", Type: "t", Payload: []byte("p")}}); !errors.Is(err, outbox.ErrDuplicate) {
			t.Errorf("an id twice: %v", err)
		}
		return nil
	})
	if n := r.count(bson.D{{Key: "type", Value: "new"}}); n != 2 || r.count(bson.D{}) != 3 {
		t.Errorf("new documents: %d, all: %d", n, r.count(bson.D{}))
	}
	if _, err := w.Write(t.Context(), outbox.Draft{Type: "t", Payload: []byte("p")}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("without a session: %v", err)
	}
}

// TestConcurrentDuplicate: a key that another transaction writes meanwhile is a conflict, after which the transaction finds it.
func TestConcurrentDuplicate(t *testing.T) {
	r := newRig(t)
	w := r.writer(outbox.Options{})
	d := outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k", Once: true}
	var first string
	tries := 0
	r.in(func(ctx context.Context) error {
		tries++
		// The first read is where the transaction's state of the database is taken.
		if _, err := r.db.Collection("outbox").CountDocuments(ctx, bson.D{}); err != nil {
			return err
		}
		if first == "" {
			r.in(func(inner context.Context) error { first = r.must(inner, w, d); return nil })
		}
		written, err := w.WriteAll(ctx, []outbox.Draft{d})
		if err == nil && (!written[0].Duplicate || written[0].ID != first) {
			t.Errorf("%+v, want a duplicate of %s", written, first)
		}
		if err != nil && !outboxmongo.Retryable(err) {
			t.Errorf("a conflict that is not retried: %v", err)
		}
		return err
	})
	if tries != 2 {
		t.Errorf("the transaction ran %d times, want 2", tries)
	}
}

// TestTransactor: an error and a panic undo what was done.
func TestTransactor(t *testing.T) {
	r := newRig(t)
	w := r.writer(outbox.Options{})
	do := w.Transactor(r.client, nil)
	order := func(ctx context.Context) error {
		_, err := r.db.Collection("orders").InsertOne(ctx, bson.D{{Key: "state", Value: "paid"}})
		return err
	}
	draft := []outbox.Draft{{Type: "t", Payload: []byte("p")}}
	if written, err := do.Do(t.Context(), func(ctx context.Context, _ *mongo.Session) ([]outbox.Draft, error) { return draft, order(ctx) }); err != nil || len(written) != 1 {
		t.Errorf("%+v, %v", written, err)
	}
	if _, err := do.Do(t.Context(), func(ctx context.Context, _ *mongo.Session) ([]outbox.Draft, error) {
		return draft, errors.Join(order(ctx), errUndo)
	}); !errors.Is(err, errUndo) {
		t.Error(err)
	}
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, err := do.Do(t.Context(), func(ctx context.Context, _ *mongo.Session) ([]outbox.Draft, error) {
			if err := order(ctx); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
		t.Errorf("the panic is gone: %v", err)
	}()
	n, err := r.db.Collection("orders").CountDocuments(t.Context(), bson.D{})
	if err != nil || n != 1 || r.count(bson.D{}) != 1 {
		t.Errorf("orders: %d, messages: %d, %v; want one of each", n, r.count(bson.D{}), err)
	}
}

func TestNew(t *testing.T) {
	r := newRig(t)
	other := r.table
	other.Name = "elsewhere"
	w, err := outboxmongo.New(t.Context(), r.db, other, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.in(func(ctx context.Context) error {
		if _, err := w.Write(ctx, outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k", Once: true}); err == nil || !strings.Contains(err.Error(), "unique index") {
			t.Errorf("Once without an index: %v", err)
		}
		return nil
	})
	if _, err := outboxmongo.New(t.Context(), r.db, r.table, outbox.Options{Savepoint: true}); err == nil {
		t.Error("a savepoint is promised")
	}
}

// TestExample runs it.
func TestExample(t *testing.T) {
	server := servers.SharedMongo(t)
	client := server.Client(t)
	shop := client.Database("shop")
	defer func() {
		if err := shop.Drop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := shop.Collection("orders").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "42"}}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MONGODB_URL", server.URL())
	Example()
	for name, filter := range map[string]bson.D{"orders": {{Key: "state", Value: "paid"}}, "outbox": {{Key: "type", Value: "OrderPaid"}, {Key: "status", Value: "pending"}}} {
		if n, err := shop.Collection(name).CountDocuments(t.Context(), filter); err != nil || n != 1 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
