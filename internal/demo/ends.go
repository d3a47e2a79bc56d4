package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// An arrival is a message that reached one of the demo's ends.
type arrival struct{ id, kind, group, position string }

// A receipts takes down what arrives at an end.
type receipts struct {
	mu       sync.Mutex
	arrived  []arrival
	changed  chan struct{} // closed and made anew with each arrival
	repeated int
	seen     map[string]bool
}

func newReceipts() *receipts { return &receipts{changed: make(chan struct{}), seen: map[string]bool{}} }

// add takes down an arrival; repetitions are counted only.
func (l *receipts) add(a arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[a.id] {
		l.repeated++
	} else {
		l.seen[a.id] = true
		l.arrived = append(l.arrived, a)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// wait waits until at least n messages have arrived.
func (l *receipts) wait(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		got, changed := len(l.arrived), l.changed
		l.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d messages, of which %d came: %w", n, got, context.Cause(ctx))
		case <-changed:
		}
	}
}

// snapshot returns the receipts so far, and how many repetitions there were.
func (l *receipts) snapshot() ([]arrival, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]arrival(nil), l.arrived...), l.repeated
}

// shipping is an HTTP service that is down at first, and that refuses amounts below zero.
type shipping struct {
	*receipts
	server *http.Server
	url    string
	done   chan error

	mu sync.Mutex
	up bool
}

func startShipping(ctx context.Context) (*shipping, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the shipping service: %w", err)
	}
	s := &shipping{receipts: newReceipts(), url: "http://" + l.Addr().String() + "/events", done: make(chan error, 1)}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

func (s *shipping) close() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// start makes the service answer.
func (s *shipping) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = true
}

// ServeHTTP implements http.Handler.
func (s *shipping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		http.Error(w, "shipping is down", http.StatusServiceUnavailable)
		return
	}
	var order struct {
		Amount int `json:"amount"`
	}
	if err := json.Unmarshal(body, &order); err != nil || order.Amount < 0 {
		http.Error(w, "amount is below zero", http.StatusUnprocessableEntity)
		return
	}
	s.add(arrival{id: r.Header.Get("id"), kind: r.Header.Get("tailbox-type"), group: r.Header.Get("tailbox-group"),
		position: r.Header.Get("tailbox-position")})
	w.WriteHeader(http.StatusNoContent)
}

// ledger reads what the sink of kind stdout writes, line by line.
type ledger struct {
	*receipts
	rest []byte
}

// Write implements io.Writer.
func (d *ledger) Write(p []byte) (int, error) {
	d.rest = append(d.rest, p...)
	for {
		line, rest, ok := bytes.Cut(d.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		var m struct{ ID, Type, Group, Position string }
		if err := json.Unmarshal(line, &m); err != nil {
			return 0, fmt.Errorf("read a line of the ledger: %w", err)
		}
		d.add(arrival{id: m.ID, kind: m.Type, group: m.Group, position: m.Position})
		d.rest = rest
	}
}
