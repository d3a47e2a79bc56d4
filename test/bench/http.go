package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const answerTime = 10 * time.Millisecond

// runHTTP drains into an endpoint that takes 10 ms for each answer. What the endpoint allows at most is the measure.
func runHTTP(ctx context.Context, b *bench) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what does not come is the relay's loss
		pause(answerTime)
	})}
	go func() { _ = s.Serve(l) }() // ends with Close
	defer s.Close()
	for _, test := range []struct {
		name, keys   string
		groups, rows int
		most         float64 // messages a second that the endpoint allows
	}{
		{"HTTP single, 256 at once, 10 ms", "format: single, concurrency: 256", spread, b.rows / 4, 256 / answerTime.Seconds()},
		{"HTTP array of 100, one hot group, 10 ms", "format: array, concurrency: 64", 1, b.rows / 8, 100 / answerTime.Seconds()},
	} {
		var rates []float64
		for range b.rounds {
			d, err := b.httpDrain(ctx, fmt.Sprintf("sinks: {out: {kind: http, url: \"http://%s/\", %s}}", l.Addr(), test.keys), test.groups, test.rows)
			if err != nil {
				return err
			}
			rates = append(rates, d.rate())
			fmt.Printf("  %s: %.0f msg/s\n", test.name, d.rate())
		}
		b.table.measure(test.name+", msg/s", false, rates...)
		b.table.note(test.name, fmt.Sprintf("%s msg/s, %.2f of what the endpoint allows", spreadOf(rates, "%.0f"), median(rates)/test.most), true, "")
	}
	return nil
}

func (b *bench) httpDrain(ctx context.Context, sinks string, groups, rows int) (d drain, err error) {
	db, err := b.newBase(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	r, err := db.relay(ctx, false, withTopic(keepTable, "posted"), sinks)
	if err != nil {
		return d, err
	}
	if err := db.fill(ctx, rows, perTxn, groups); err != nil {
		return d, err
	}
	return db.run(ctx, r, rows)
}
