package outboxcqrs_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxcqrs"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// An Event of the shop.
type Event interface{ order() string }

// OrderPaid is an event whose type is its name.
type OrderPaid struct{ Order string }

func (e OrderPaid) order() string { return e.Order }

type shipped struct{ Order string }

func (e *shipped) order() string { return e.Order }

// EventType names the event.
func (e *shipped) EventType() string { return "OrderShipped" }

// PayOrder is a command.
type PayOrder struct {
	Order string
	Fail  string
}

// A rig is a database with a business table and an outbox.
type rig struct {
	*testing.T
	pool    *pgxpool.Pool
	writer  *outboxpgx.Writer
	marshal outboxcqrs.Marshaler[Event]
}

func newRig(t *testing.T) *rig {
	t.Helper()
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), pg.SocketURL(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	tab, err := outbox.NewTable("debezium", "public.outbox")
	if err != nil {
		t.Fatal(err)
	}
	script, err := postgres.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{tab}}, Publication: "shop"}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Exec(t.Context(), name, script+"; CREATE TABLE orders (id text PRIMARY KEY, paid int NOT NULL DEFAULT 0); INSERT INTO orders VALUES ('42', 0)"); err != nil {
		t.Fatal(err)
	}
	w, err := outboxpgx.New(t.Context(), pool, tab, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, pool, w, outboxcqrs.JSON(func(e Event, d *outbox.Draft) { d.Topic, d.Key = "order", e.order() })}
}

// pay is a handler's function.
func pay(ctx context.Context, tx pgx.Tx, c PayOrder) ([]Event, error) {
	if _, err := tx.Exec(ctx, "UPDATE orders SET paid = paid + 1 WHERE id = $1", c.Order); err != nil {
		return nil, err
	}
	switch c.Fail {
	case "error":
		return nil, errors.New("refused")
	case "panic":
		panic("boom")
	case "event":
		return []Event{OrderPaid{c.Order}, nil}, nil
	}
	return []Event{OrderPaid{c.Order}, &shipped{c.Order}}, nil
}

// state is how often the order was paid, and the messages in the outbox.
func (r *rig) state() (paid int, messages string) {
	r.Helper()
	if err := r.pool.QueryRow(r.Context(), "SELECT paid, (SELECT coalesce(string_agg(type || payload::text || aggregateid, ' ' ORDER BY id), '') FROM outbox) FROM orders").
		Scan(&paid, &messages); err != nil {
		r.Fatal(err)
	}
	return paid, messages
}

// TestHandle: change and events are one; what fails leaves neither.
func TestHandle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := outboxcqrs.Handle(r.writer.Transactor(r.pool, pgx.TxOptions{}), r.marshal, pay, outboxcqrs.Options{})
	if err := h(t.Context(), PayOrder{Order: "42", Fail: "error"}); err == nil || err.Error() != "refused" {
		t.Errorf("error: %v", err)
	}
	if err := h(t.Context(), PayOrder{Order: "42", Fail: "event"}); err == nil || !strings.Contains(err.Error(), "event 2") {
		t.Errorf("an event that cannot be marshalled: %v", err)
	}
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		t.Errorf("the panic is gone: %v", h(t.Context(), PayOrder{Order: "42", Fail: "panic"}))
	}()
	if paid, messages := r.state(); paid != 0 || messages != "" {
		t.Errorf("what failed was done: paid %d, %s", paid, messages)
	}
	if err := outboxcqrs.Decode(json.Unmarshal, h)(t.Context(), []byte(`{"Order": "42"}`)); err != nil {
		t.Error(err)
	}
	if paid, messages := r.state(); paid != 1 || messages != `OrderPaid{"Order": "42"}42 OrderShipped{"Order": "42"}42` {
		t.Errorf("paid %d, %s", paid, messages)
	}
	if err := outboxcqrs.Decode(json.Unmarshal, h)(t.Context(), []byte(`{`)); err == nil || !strings.Contains(err.Error(), "PayOrder") {
		t.Errorf("a command that cannot be read: %v", err)
	}
}

// TestWrap: a function that knows no transaction works in that of the handler.
func TestWrap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := func(ctx context.Context, c PayOrder) ([]Event, error) {
		tx, ok := outboxcqrs.Tx[pgx.Tx](ctx)
		if !ok {
			return nil, errors.New("no transaction in the context")
		}
		return pay(ctx, tx, c)
	}
	if _, err := old(t.Context(), PayOrder{}); err == nil {
		t.Error("a transaction is found outside of a handler")
	}
	h := outboxcqrs.Wrap(r.writer.Transactor(r.pool, pgx.TxOptions{}), r.marshal, old, outboxcqrs.Options{})
	if err := h(t.Context(), PayOrder{Order: "42"}); err != nil {
		t.Fatal(err)
	}
	if paid, messages := r.state(); paid != 1 || !strings.HasPrefix(messages, "OrderPaid") {
		t.Errorf("paid %d, %s", paid, messages)
	}
}

// TestRetry: a transaction that another one ran beside is done again if that is asked for, and nothing of its first attempt is left.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	do := r.writer.Transactor(r.pool, pgx.TxOptions{IsoLevel: pgx.Serializable})
	for _, attempts := range []int{0, 3} {
		var ran atomic.Int32
		h := outboxcqrs.Handle(do, r.marshal, func(ctx context.Context, tx pgx.Tx, c PayOrder) ([]Event, error) {
			var paid int
			if err := tx.QueryRow(ctx, "SELECT paid FROM orders WHERE id = $1", c.Order).Scan(&paid); err != nil {
				return nil, err
			}
			if ran.Add(1) == 1 { // another one, beside it
				if _, err := r.pool.Exec(ctx, "UPDATE orders SET paid = paid + 10"); err != nil {
					return nil, err
				}
			}
			return pay(ctx, tx, c)
		}, outboxcqrs.Options{Attempts: attempts, Backoff: func(int) time.Duration { return time.Microsecond }})
		err := h(t.Context(), PayOrder{Order: "42"})
		if attempts == 0 && (!outboxpgx.Retryable(err) || ran.Load() != 1) {
			t.Errorf("without retry: %v after %d runs", err, ran.Load())
		}
		if attempts > 0 && (err != nil || ran.Load() != 2) {
			t.Errorf("with retry: %v after %d runs, want 2", err, ran.Load())
		}
	}
	if paid, messages := r.state(); paid != 21 || strings.Count(messages, "OrderPaid") != 1 {
		t.Errorf("paid %d, %s; want 21 and one pair", paid, messages)
	}
	// What is no conflict is not tried again, and a context that ends ends it.
	var ran atomic.Int32
	h := outboxcqrs.Handle(do, r.marshal, func(context.Context, pgx.Tx, PayOrder) ([]Event, error) {
		ran.Add(1)
		return nil, errors.New("refused")
	}, outboxcqrs.Options{Attempts: 9})
	if err := h(t.Context(), PayOrder{}); err == nil || ran.Load() != 1 {
		t.Errorf("%v after %d runs", err, ran.Load())
	}
}

// TestJSON: types of events that have no name are refused.
func TestJSON(t *testing.T) {
	t.Parallel()
	m := outboxcqrs.JSON[any](nil)
	if d, err := m.Marshal(t.Context(), &OrderPaid{"1"}); err != nil || d.Type != "OrderPaid" || string(d.Payload) != `{"Order":"1"}` {
		t.Errorf("%+v, %v", d, err)
	}
	for _, event := range []any{nil, struct{ A int }{1}, map[string]int{}, make(chan int)} {
		if _, err := m.Marshal(t.Context(), event); err == nil {
			t.Errorf("%T has a type", event)
		}
	}
}
