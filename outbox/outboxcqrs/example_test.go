package outboxcqrs_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxcqrs"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
)

// ShipOrder is a command, OrderShipped the event that comes of it.
type (
	ShipOrder    struct{ Order, Address string }
	OrderShipped struct{ Order, Address string }
)

// newShipOrder makes the handler of a command. If a transaction conflicts with another one, the handler tries it up to 5 times.
func newShipOrder(pool *pgxpool.Pool, w *outboxpgx.Writer) outboxcqrs.Handler[ShipOrder] {
	transactions := w.Transactor(pool, pgx.TxOptions{IsoLevel: pgx.Serializable})
	messages := outboxcqrs.JSON(func(e OrderShipped, d *outbox.Draft) { d.Topic, d.Key = "order", e.Order })
	return outboxcqrs.Handle(transactions, messages, shipOrder, outboxcqrs.Options{Attempts: 5})
}

// shipOrder works in the transaction of the handler, and returns what has happened.
func shipOrder(ctx context.Context, tx pgx.Tx, c ShipOrder) ([]OrderShipped, error) {
	tag, err := tx.Exec(ctx, "UPDATE orders SET state = 'shipped' WHERE id = $1 AND state = 'paid'", c.Order)
	switch {
	case err != nil:
		return nil, err
	case tag.RowsAffected() == 0:
		return nil, errors.New("the order is not paid")
	}
	return []OrderShipped{{c.Order, c.Address}}, nil
}

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	table, err := outbox.NewTable("debezium", "public.outbox")
	if err != nil {
		panic(err)
	}
	w, err := outboxpgx.New(ctx, pool, table, outbox.Options{})
	if err != nil {
		panic(err)
	}
	ship := newShipOrder(pool, w)
	if err := ship(ctx, ShipOrder{Order: "42", Address: "12 Main Street"}); err != nil {
		panic(err)
	}
}

// TestExample runs it.
func TestExample(t *testing.T) {
	r := newRig(t)
	if _, err := r.pool.Exec(t.Context(), "ALTER TABLE orders ADD COLUMN state text DEFAULT 'paid'"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", r.pool.Config().ConnString())
	Example()
	if _, messages := r.state(); messages != `OrderShipped{"Order": "42", "Address": "12 Main Street"}42` {
		t.Error(messages)
	}
}
