package main

import (
	"context"
	"errors"
	"fmt"
)

// A demoShop is an application with an outbox: each step of an order changes the order and writes a message, in one
// transaction.
type demoShop struct {
	till demoTill
	// committed are the messages in the order of their commits.
	committed []demoMessage
}

// A demoMessage is what the shop wrote.
type demoMessage struct{ aggregate, id, kind, payload string }

func (m demoMessage) group() string { return m.aggregate + ":" + m.id }

// The life of an order.
const (
	demoPlaced  = "order.placed"
	demoPaid    = "order.paid"
	demoPacked  = "order.packed"
	demoShipped = "order.shipped"
)

const (
	demoOrders = 6
	// The one message that shipping refuses: the shop made a mistake in it.
	demoBadOrder, demoBadStep = 3, demoPaid
	demoBadAmount             = -20
	demoGoodAmount            = 20
)

// open makes the shop's own table; the outbox table was made by init.
func (s *demoShop) open(ctx context.Context, db *demoDatabase) error {
	till, err := db.open(ctx)
	if err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	s.till = till
	if err := till.makeOrders(ctx); err != nil {
		return errors.Join(fmt.Errorf("open the shop: %w", err), s.close(ctx))
	}
	return nil
}

func (s *demoShop) close(ctx context.Context) error { return s.till.close(context.WithoutCancel(ctx)) }

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
	messages := []demoMessage{{"order", order, step, fmt.Sprintf(`{"order": %q, "amount": %d}`, order, amount)}}
	if step == demoPlaced {
		messages = append(messages, demoMessage{"customer", fmt.Sprintf("customer-%d", n), "customer.welcomed", `{"coupon": "HELLO"}`})
	}
	if err := s.till.write(ctx, order, step, messages); err != nil {
		return fmt.Errorf("write to the shop's outbox: %w", err)
	}
	s.committed = append(s.committed, messages...)
	return nil
}

// left counts rows that are still in the outbox.
func (s *demoShop) left(ctx context.Context) (int, error) { return s.till.left(ctx) }
