package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// fillers is how many connections fill a table.
const fillers = 4

// inParallel has several fillers write rows, which they take in shares of a transaction.
func inParallel(rows, perTxn int, write func(share func() (first, n int)) error) error {
	var mu sync.Mutex
	next := 0
	share := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		first := next
		next = min(next+perTxn, rows)
		return first, next - first
	}
	errs := make(chan error, fillers)
	for range fillers {
		go func() { errs <- write(share) }()
	}
	var failed error
	for range fillers {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// A bound is what a source's drains are held to, in terms of a bare reader's rate.
type bound struct{ keep, delete float64 }

func boundOf(kind string) bound {
	if kind == kindMongoDB {
		return bound{keep: 0.9, delete: 0.4}
	}
	return bound{keep: 0.85, delete: 0.4}
}

// runDrain drains the same backlog by a bare reader, a relay that keeps the rows, and one that deletes them; beside them stands how
// fast the server deletes rows at all.
func runDrain(kind string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		figures := map[string][]drain{}
		for round := range b.rounds {
			if err := b.drainRound(ctx, kind, round, figures); err != nil {
				return err
			}
		}
		bare := kind + ", bare reader"
		if !b.relays {
			b.table.add(bare, "", figures["bare"], nil, 0, 0)
		}
		b.table.add(kind+", discard, keep", bare, figures["keep"], figures["bare"], boundOf(kind).keep, 0)
		b.table.add(kind+", discard, delete", bare, figures["delete"], figures["bare"], boundOf(kind).delete, 0)
		var rates, shares []float64
		for i, d := range figures["by hand"] {
			rates, shares = append(rates, d.rate()), append(shares, figures["delete"][i].rate()/d.rate())
		}
		if len(rates) == 0 {
			return nil
		}
		b.table.note(kind+", rows deleted by hand, nobody reading", spreadOf(rates, "%.0f")+" rows/s", true, "")
		b.table.note(kind+", relay with delete over rows deleted by hand", spreadOf(shares, "%.2f"), true, "")
		return nil
	}
}

func (b *bench) drainRound(ctx context.Context, kind string, round int, figures map[string][]drain) (err error) {
	g, err := b.ground(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.drop(ctx)) }()
	names := its(b, []string{"keep", "delete"})
	if !b.relays {
		names = append(names, "bare") // at the end: the relays' init makes the table
	}
	readers := make([]*reader, len(names))
	for i, name := range names {
		if name == "bare" {
			readers[i], err = b.bareOn(ctx, g, b.rows)
		} else {
			readers[i], err = b.relayOn(ctx, g, name, discardSink)
		}
		if err != nil {
			return err
		}
	}
	end, err := backlog(ctx, g, b.rows, perTxn)
	if err != nil {
		return err
	}
	for _, i := range rand.Perm(len(names)) {
		d, err := b.drain(ctx, g, readers[i], end, b.rows)
		if err != nil {
			return err
		}
		figures[names[i]] = append(figures[names[i]], d)
		fmt.Printf("  round %d: %-8s %8.0f msg/s, %5.2f µs processor a message, %3d MB\n", round+1, names[i], d.rate(), d.micros(), d.rss>>20)
	}
	if b.relays {
		return nil
	}
	return byHand(ctx, g, b.rows/3, round, figures)
}

// byHand measures how fast the server deletes rows for one connection.
func byHand(ctx context.Context, g ground, rows, round int, figures map[string][]drain) error {
	e, ok := g.(emptier)
	if !ok {
		return nil
	}
	if err := g.fill(ctx, rows, perTxn); err != nil {
		return err
	}
	rows, took, err := e.empty(ctx)
	if err != nil {
		return fmt.Errorf("delete rows by hand: %w", err)
	}
	d := drain{rows: rows, took: took}
	figures["by hand"] = append(figures["by hand"], d)
	fmt.Printf("  round %d: %-8s %8.0f rows/s\n", round+1, "by hand", d.rate())
	return nil
}

// backlog writes rows, and returns where they end in the log. One row more shows a reader of the log that they have ended.
func backlog(ctx context.Context, g ground, rows, perTxn int) (end string, err error) {
	if err := g.fill(ctx, rows, perTxn); err != nil {
		return "", fmt.Errorf("fill: %w", err)
	}
	if end, err = g.end(ctx); err != nil {
		return "", err
	}
	w, err := g.writer(ctx)
	if err != nil {
		return "", err
	}
	return end, errors.Join(w.write(ctx, rows, 0), w.close(ctx))
}

// runLargest drains one large transaction within a small bound of memory.
func runLargest(kind string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) (err error) {
		rows := min(b.largest, mostInOne)
		g, err := b.ground(ctx, kind)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.drop(ctx)) }()
		var readers []*reader
		for _, onDelivered := range []string{"keep", "delete"} {
			r, err := b.relayOn(ctx, g, onDelivered, "memory: 16MiB\n"+discardSink)
			if err != nil {
				return err
			}
			readers = append(readers, r)
		}
		end, err := backlog(ctx, g, rows, rows)
		if err != nil {
			return err
		}
		for i, onDelivered := range []string{"keep", "delete"} {
			d, err := b.drain(ctx, g, readers[i], end, rows)
			if err != nil {
				return err
			}
			b.table.note(fmt.Sprintf("%s, discard, %s, memory: 16MiB, one transaction of %d rows", kind, onDelivered, rows),
				fmt.Sprintf("%.0f msg/s, at most %.1f MB", d.rate(), float64(d.rss)/1e6), d.rss <= 96e6, "<= 96 MB")
			b.table.measure(kind+", one transaction, "+onDelivered+", bytes of memory", true, float64(d.rss))
		}
		return nil
	}
}

// mostInOne bounds the rows of one transaction.
const mostInOne = 500_000
