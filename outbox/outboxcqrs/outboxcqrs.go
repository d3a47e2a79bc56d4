// Package outboxcqrs turns a function of a typed command that returns typed events into a handler that makes one
// transaction of it: it begins one, runs the function, writes the events to the outbox, and commits.
//
//	pay := outboxcqrs.Handle(writer.Transactor(pool, pgx.TxOptions{}), outboxcqrs.JSON(address),
//		func(ctx context.Context, tx pgx.Tx, c PayOrder) ([]Event, error) { … }, outboxcqrs.Options{})
//	…
//	err := pay(ctx, PayOrder{Order: 42})
//
// The transactions are those of outboxsql, outboxpgx, outboxgorm or outboxmongo: each has a Transactor. Handlers can be
// moved to the outbox one by one: Wrap takes one that exists as it is.
package outboxcqrs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// A Transactor makes a business change and its messages one transaction, which is a T in the driver's words.
type Transactor[T any] interface {
	// Do runs f in a transaction, writes the messages that f returns, and commits. Whatever fails, and a panic, rolls it back.
	Do(ctx context.Context, f func(ctx context.Context, tx T) ([]outbox.Draft, error)) ([]outbox.Written, error)
	// Retryable reports whether a transaction failed only because another one ran beside it.
	Retryable(err error) bool
}

// A Marshaler makes a message of an event. It may be called concurrently.
type Marshaler[E any] interface {
	Marshal(ctx context.Context, event E) (outbox.Draft, error)
}

// MarshalFunc is a function as a Marshaler.
type MarshalFunc[E any] func(ctx context.Context, event E) (outbox.Draft, error)

// Marshal calls the function.
func (f MarshalFunc[E]) Marshal(ctx context.Context, event E) (outbox.Draft, error) {
	return f(ctx, event)
}

// JSON makes messages whose payload is the event as JSON, and whose type is what the event's method EventType() string says, or else the
// name of its Go type, such as OrderPaid. The function sets what else the message needs, such as topic and key; it may be nil.
func JSON[E any](address func(event E, d *outbox.Draft)) Marshaler[E] {
	return MarshalFunc[E](func(_ context.Context, event E) (outbox.Draft, error) {
		typ, err := typeOf(event)
		if err != nil {
			return outbox.Draft{}, err
		}
		payload, err := outbox.JSON(event)
		if err != nil {
			return outbox.Draft{}, err
		}
		d := outbox.Draft{Type: typ, Payload: payload}
		if address != nil {
			address(event, &d)
		}
		return d, nil
	})
}

// typeOf names an event.
func typeOf(event any) (string, error) {
	if named, ok := event.(interface{ EventType() string }); ok {
		return named.EventType(), nil
	}
	t := reflect.TypeOf(event)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Name() == "" {
		return "", fmt.Errorf("name the type of event %T: give it a method EventType() string", event)
	}
	return t.Name(), nil
}

// Options of a handler. The zero value is good.
type Options struct {
	// Attempts is how often at most the transaction is done where it fails because another one ran beside it: serialization failures and
	// deadlocks. 0 and 1 mean that it is not done again. The function runs each time, so it must do nothing outside of the transaction.
	Attempts int
	// Backoff is the time before attempt n, counted from 2; nil is a random time of up to 10 ms, doubled with each, of 1 s at most.
	Backoff func(n int) time.Duration
}

// A Handler carries out a command. Its error is that of the function, of writing, or of the transaction; then nothing was done.
type Handler[C any] func(ctx context.Context, command C) error

// Handle makes a handler of a function that works in a transaction and returns what has happened. The function neither
// commits nor rolls back. A panic of it rolls back, and goes on.
func Handle[C, E, T any](t Transactor[T], m Marshaler[E], f func(ctx context.Context, tx T, command C) ([]E, error), o Options) Handler[C] {
	return func(ctx context.Context, command C) error {
		for n := 1; ; n++ {
			_, err := t.Do(ctx, func(ctx context.Context, tx T) ([]outbox.Draft, error) {
				events, err := f(ctx, tx, command)
				if err != nil {
					return nil, err
				}
				return drafts(ctx, m, events)
			})
			if err == nil || n >= o.Attempts || !t.Retryable(err) || !wait(ctx, o, n+1) {
				return err
			}
		}
	}
}

// drafts makes messages of events.
func drafts[E any](ctx context.Context, m Marshaler[E], events []E) ([]outbox.Draft, error) {
	list := make([]outbox.Draft, len(events))
	for i, e := range events {
		var err error
		if list[i], err = m.Marshal(ctx, e); err != nil {
			return nil, fmt.Errorf("make a message of event %d, a %T: %w", i+1, e, err)
		}
	}
	return list, nil
}

// wait lets the time before attempt n pass; it is false if the context ends.
func wait(ctx context.Context, o Options, n int) bool {
	var d time.Duration
	if o.Backoff != nil {
		d = o.Backoff(n)
	} else {
		d = rand.N(min(10*time.Millisecond<<min(n-2, 10), time.Second))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Wrap is Handle for a function that knows no transaction: the function, and what it calls, find it with Tx in the context.
func Wrap[C, E, T any](t Transactor[T], m Marshaler[E], f func(ctx context.Context, command C) ([]E, error), o Options) Handler[C] {
	return Handle(t, m, func(ctx context.Context, tx T, command C) ([]E, error) {
		return f(context.WithValue(ctx, key[T]{}, tx), command)
	}, o)
}

// key is where a context holds a transaction of its kind.
type key[T any] struct{}

// Tx is the transaction of the handler that runs, if one made by Wrap does.
func Tx[T any](ctx context.Context) (tx T, ok bool) {
	tx, ok = ctx.Value(key[T]{}).(T)
	return tx, ok
}

// Decode makes a handler of commands as they come over the wire, such as with json.Unmarshal.
func Decode[C any](unmarshal func(data []byte, into any) error, h Handler[C]) func(ctx context.Context, data []byte) error {
	return func(ctx context.Context, data []byte) error {
		var command C
		if err := unmarshal(data, &command); err != nil {
			return fmt.Errorf("read command %T: %w", command, err)
		}
		return h(ctx, command)
	}
}
