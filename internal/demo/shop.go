package demo

import (
	"context"
	"errors"
	"fmt"
)

// A shop is an application with an outbox: each step of an order changes the order and writes a message, in one
// transaction.
type shop struct {
	till till
	// committed are the messages in the order of their commits.
	committed []message
}

// A message is what the shop wrote.
type message struct{ aggregate, id, kind, payload string }

func (m message) group() string { return m.aggregate + ":" + m.id }

// The life of an order.
const (
	placed  = "order.placed"
	paid    = "order.paid"
	packed  = "order.packed"
	shipped = "order.shipped"
)

const (
	orders = 6
	// The one message that shipping refuses: the shop made a mistake in it.
	badOrder, badStep = 3, paid
	badAmount         = -20
	goodAmount        = 20
)

// open makes the shop's own table; the outbox table was made by init.
func (s *shop) open(ctx context.Context, at *place) error {
	till, err := at.open(ctx)
	if err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	s.till = till
	if err := till.makeOrders(ctx); err != nil {
		return errors.Join(fmt.Errorf("open the shop: %w", err), s.close(ctx))
	}
	return nil
}

func (s *shop) close(ctx context.Context) error { return s.till.close(context.WithoutCancel(ctx)) }

// trade takes all orders through a part of their life, and welcomes one customer an order on the first.
func (s *shop) trade(ctx context.Context, steps ...string) error {
	for _, step := range steps {
		for n := 1; n <= orders; n++ {
			if err := s.step(ctx, n, step); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *shop) step(ctx context.Context, n int, step string) error {
	order := fmt.Sprintf("order-%d", n)
	amount := goodAmount
	if n == badOrder && step == badStep {
		amount = badAmount
	}
	messages := []message{{"order", order, step, fmt.Sprintf(`{"order": %q, "amount": %d}`, order, amount)}}
	if step == placed {
		messages = append(messages, message{"customer", fmt.Sprintf("customer-%d", n), "customer.welcomed", `{"coupon": "HELLO"}`})
	}
	if err := s.till.write(ctx, order, step, messages); err != nil {
		return fmt.Errorf("write to the shop's outbox: %w", err)
	}
	s.committed = append(s.committed, messages...)
	return nil
}

// left counts rows that are still in the outbox.
func (s *shop) left(ctx context.Context) (int, error) { return s.till.left(ctx) }
