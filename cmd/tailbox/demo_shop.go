package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A demoShop is an application with an outbox: each step of an order changes the order and writes a message, in one
// transaction.
type demoShop struct {
	conn *pgx.Conn
	// committed are the messages in the order of their commits.
	committed []demoMessage
}

// A demoMessage is what the shop wrote.
type demoMessage struct{ id, kind, group string }

// demoSteps is the life of an order.
var demoSteps = []string{"order.placed", "order.paid", "order.packed", "order.shipped"}

const (
	demoOrders = 6
	// The one message that shipping refuses: the shop made a mistake in it.
	demoBadOrder, demoBadStep = 3, "order.paid"
	demoBadAmount             = -20
	demoGoodAmount            = 20
)

const demoOrdersTable = `CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL)`

// open makes the shop's own table; the outbox table was made by init.
func (s *demoShop) open(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	s.conn = conn
	if _, err := conn.Exec(ctx, demoOrdersTable); err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	return nil
}

// trade takes all orders through a part of their life, and welcomes one customer an order on the first.
func (s *demoShop) trade(ctx context.Context, steps ...string) error {
	for _, step := range steps {
		for n := 1; n <= demoOrders; n++ {
			if err := s.step(ctx, n, step); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *demoShop) step(ctx context.Context, n int, step string) error {
	order := fmt.Sprintf("order-%d", n)
	amount := demoGoodAmount
	if n == demoBadOrder && step == demoBadStep {
		amount = demoBadAmount
	}
	var written []demoMessage
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, status) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET status = $2`,
			order, step); err != nil {
			return err
		}
		m, err := writeDemo(ctx, tx, "order", order, step, fmt.Sprintf(`{"order": %q, "amount": %d}`, order, amount))
		if err != nil {
			return err
		}
		written = append(written, m)
		if step != demoSteps[0] {
			return nil
		}
		m, err = writeDemo(ctx, tx, "customer", fmt.Sprintf("customer-%d", n), "customer.welcomed", `{"coupon": "HELLO"}`)
		written = append(written, m)
		return err
	})
	if err != nil {
		return fmt.Errorf("write to the shop's outbox: %w", err)
	}
	s.committed = append(s.committed, written...)
	return nil
}

func writeDemo(ctx context.Context, tx pgx.Tx, aggregate, id, kind, payload string) (demoMessage, error) {
	m := demoMessage{kind: kind, group: aggregate + ":" + id}
	err := tx.QueryRow(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ($1, $2, $3, $4::jsonb) RETURNING id::text`,
		aggregate, id, kind, payload).Scan(&m.id)
	return m, err
}

// left counts rows that are still in the outbox.
func (s *demoShop) left(ctx context.Context) (n int, err error) {
	err = s.conn.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&n)
	return n, err
}
