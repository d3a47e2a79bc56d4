package main

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

// A demoArrival is a message that reached one of the demo's ends.
type demoArrival struct{ id, kind, group, position string }

// A demoLog takes down what arrives at an end.
type demoLog struct {
	mu       sync.Mutex
	arrived  []demoArrival
	changed  chan struct{} // closed and made anew with each arrival
	repeated int
	seen     map[string]bool
}

func newDemoLog() *demoLog { return &demoLog{changed: make(chan struct{}), seen: map[string]bool{}} }

// add takes down an arrival; repetitions are counted only.
func (l *demoLog) add(a demoArrival) {
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
func (l *demoLog) wait(ctx context.Context, n int) error {
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

// snapshot returns the arrivals so far, and how many repetitions there were.
func (l *demoLog) snapshot() ([]demoArrival, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]demoArrival(nil), l.arrived...), l.repeated
}

// demoShipping is an HTTP service that is down at first, and that refuses amounts below zero.
type demoShipping struct {
	*demoLog
	server *http.Server
	url    string
	done   chan error

	mu      sync.Mutex
	up      bool
	refused chan struct{} // closed at the first refusal
	failed  chan struct{} // closed at the first request while it is down
}

func startDemoShipping(ctx context.Context) (*demoShipping, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the shipping service: %w", err)
	}
	s := &demoShipping{demoLog: newDemoLog(), url: "http://" + l.Addr().String() + "/events", done: make(chan error, 1),
		refused: make(chan struct{}), failed: make(chan struct{})}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

func (s *demoShipping) close() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// start makes the service answer.
func (s *demoShipping) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = true
}

// ServeHTTP implements http.Handler.
func (s *demoShipping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		closeOnce(s.failed)
		http.Error(w, "shipping is down", http.StatusServiceUnavailable)
		return
	}
	var order struct {
		Amount int `json:"amount"`
	}
	if err := json.Unmarshal(body, &order); err != nil || order.Amount < 0 {
		closeOnce(s.refused)
		http.Error(w, "amount is below zero", http.StatusUnprocessableEntity)
		return
	}
	s.add(demoArrival{id: r.Header.Get("id"), kind: r.Header.Get("tailbox-type"), group: r.Header.Get("tailbox-group"),
		position: r.Header.Get("tailbox-position")})
	w.WriteHeader(http.StatusNoContent)
}

// closeOnce closes a channel that only one goroutine at a time may close.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// demoLedger reads what the sink of kind stdout writes, line by line.
type demoLedger struct {
	*demoLog
	rest []byte
}

// Write implements io.Writer.
func (d *demoLedger) Write(p []byte) (int, error) {
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
		d.add(demoArrival{id: m.ID, kind: m.Type, group: m.Group, position: m.Position})
		d.rest = rest
	}
}
