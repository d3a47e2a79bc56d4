package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// A refuser is an endpoint that refuses about every second message once: as a group waits for its first message, nearly all messages are parked.
type refuser struct {
	mu      sync.Mutex
	refused map[string]bool // by id
	taken   map[string]bool
	want    int
	all     chan time.Time // gets the time at which all were taken
}

// ServeHTTP takes a message, or refuses it.
func (s *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what does not come is the relay's loss
	id := r.Header.Get(sink.HeaderID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if crc32.ChecksumIEEE([]byte(id))%2 == 1 && !s.refused[id] {
		s.refused[id] = true
		http.Error(w, "come again", http.StatusInternalServerError)
		return
	}
	s.taken[id] = true
	if len(s.taken) == s.want {
		s.all <- time.Now()
		s.want = 0 // what comes twice is not the last one again
	}
}

// runParked measures what it takes to park, retry and settle.
func runParked(kind string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		rows := b.rows / 8
		var rates, micros []float64
		for range b.rounds {
			d, err := b.parkedRound(ctx, kind, rows)
			if err != nil {
				return err
			}
			rates, micros = append(rates, d.rate()), append(micros, d.micros())
			fmt.Printf("  %s, every second message refused once: %.0f msg/s, %.1f µs processor a message\n", kind, d.rate(), d.micros())
		}
		name := kind + ", parked, retried and settled"
		b.table.measure(name+", msg/s", false, rates...)
		b.table.measure(name+", processor time", true, micros...)
		b.table.note(name, spreadOf(rates, "%.0f")+" msg/s", true, "")
		return nil
	}
}

func (b *bench) parkedRound(ctx context.Context, kind string, rows int) (d drain, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return d, err
	}
	s := &refuser{refused: map[string]bool{}, taken: map[string]bool{}, want: rows, all: make(chan time.Time, 1)}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	g, err := b.ground(ctx, kind)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, g.drop(ctx)) }()
	r, err := b.relayOn(ctx, g, "delete", fmt.Sprintf("retry: {attempts: 20, initial: 50ms, factor: 1, max: 50ms}\nsinks: {out: {kind: http, url: \"http://%s/\", format: single, concurrency: 64}}", l.Addr()))
	if err != nil {
		return d, err
	}
	if err := g.fill(ctx, rows, perTxn); err != nil {
		return d, err
	}
	return b.runUntil(ctx, r, rows, func(p *process) (time.Time, error) { return p.wait(ctx, s.all) })
}
