package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// An Endpoint is an HTTP server that keeps messages in a ledger, and misbehaves when it is told to.
type Endpoint struct {
	Ledger *Ledger
	Addr   string

	tb     testing.TB
	mu     sync.Mutex
	server *http.Server // nil while it is down
	faults *Faults
	answer func(Request) Answer
	seen   int
}

type clientConnKey struct{}

// A Request is what an endpoint was asked to keep.
type Request struct {
	Deliveries []Delivery
	// Each says that the client wants an answer for each message.
	Each bool
	At   time.Time
	// From is the header x-relay, by which a test tells relays apart.
	From string
}

// An Answer is what an endpoint does with a request.
type Answer struct {
	Status     int // 0 = 200
	RetryAfter string
	// Drop: it does not keep the messages. With status 200 that would be a lie, so nobody does that.
	Drop bool
	// Hang: no answer, until the client goes away. Reset: the connection is reset instead of an answer.
	Hang, Reset bool
	// Delay before the answer.
	Delay time.Duration
	// Retry names the indexes of deliveries that are not kept and are to be sent again, where each is answered.
	Retry []int
}

// NewEndpoint starts one.
func NewEndpoint(tb testing.TB, ledger *Ledger) *Endpoint {
	tb.Helper()
	e := &Endpoint{Ledger: ledger, Addr: servers.FreeAddr(tb), tb: tb}
	e.Up()
	tb.Cleanup(e.Down)
	return e
}

// URL of the endpoint. With each in its path it answers each message of a request by itself.
func (e *Endpoint) URL(each bool) string {
	if each {
		return "http://" + e.Addr + "/each"
	}
	return "http://" + e.Addr + "/"
}

// Up makes it listen.
func (e *Endpoint) Up() {
	e.tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		return
	}
	l, err := servers.ListenAgain(e.Addr)
	if err != nil {
		e.tb.Errorf("listen: %v", err)
		return
	}
	s := &http.Server{Handler: http.HandlerFunc(e.serve), ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, clientConnKey{}, conn)
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				e.Ledger.Unheard(conn.(*clientConn).unheard())
			}
		}}
	e.server = s
	go func() { _ = s.Serve(clientListener{l}) }() // ends with Close
}

// Down makes it refuse connections, and cuts those it has.
func (e *Endpoint) Down() {
	e.mu.Lock()
	s := e.server
	e.server = nil
	e.mu.Unlock()
	if s != nil {
		_ = s.Close() // its connections are cut either way
	}
}

// Misbehave turns random faults on, or off with nil.
func (e *Endpoint) Misbehave(f *Faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
}

// Answer sets what decides about requests, before random faults; nil = all are kept.
func (e *Endpoint) Answer(f func(Request) Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

// Requests is how many came.
func (e *Endpoint) Requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(clientConnKey{}).(*clientConn)
	c.told(nil)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone, and its request incomplete
	}
	ds, err := parseRequest(r.Header, body)
	if err != nil {
		e.Ledger.Broke("changed", "a request is not what it should be: %v: %.200q", err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := Request{Deliveries: ds, Each: strings.HasPrefix(r.URL.Path, "/each"), At: time.Now(), From: r.Header.Get("X-Relay")}
	e.mu.Lock()
	e.seen++
	var a Answer
	if e.answer != nil {
		a = e.answer(q)
	}
	if e.faults != nil && a.plain() {
		a = e.faults.choose(q)
	}
	kept := e.keep(q, a) // under the lock, so that what is kept has an order
	server := e.server
	e.mu.Unlock()
	e.respond(w, r, q, a)
	switch {
	case a.Drop || a.hidden():
	case r.Context().Err() != nil || e.wentDown(server):
		e.Ledger.Unheard(kept) // it did not wait for the answer, or was cut off from it
	default:
		c.told(kept)
	}
}

// wentDown reports whether a server's connections were cut, or are about to be.
func (e *Endpoint) wentDown(server *http.Server) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server != server
}

// hidden tells that what is kept is not told.
func (a Answer) hidden() bool { return a.Hang || a.Reset || a.Status >= 300 }

func (a Answer) plain() bool {
	return !a.Drop && !a.Hang && !a.Reset && a.Retry == nil && (a.Status == 0 || a.Status == 200)
}

// keep puts what the answer keeps into the ledger.
func (e *Endpoint) keep(q Request, a Answer) (kept []Delivery) {
	if a.Drop {
		return nil
	}
	for i, d := range q.Deliveries {
		if !contains(a.Retry, i) {
			kept = append(kept, d)
		}
	}
	e.Ledger.Deliver(a.hidden(), kept...)
	return kept
}

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func (e *Endpoint) respond(w http.ResponseWriter, r *http.Request, q Request, a Answer) {
	if a.Delay > 0 {
		wait(r.Context(), a.Delay)
	}
	switch {
	case a.Hang:
		wait(r.Context(), time.Minute)
		return
	case a.Reset:
		reset(w)
		return
	}
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	status := a.Status
	if status == 0 {
		status = http.StatusOK
	}
	if !q.Each || status != http.StatusOK {
		answer(w, status, nil)
		return
	}
	type result struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	results := make([]result, len(q.Deliveries))
	for i, d := range q.Deliveries {
		results[i] = result{d.ID, "delivered"}
		if contains(a.Retry, i) {
			results[i].Status = "retry"
		}
	}
	body, err := json.Marshal(map[string]any{"results": results})
	if err != nil {
		e.tb.Errorf("make answer: %v", err)
	}
	answer(w, status, body)
}

// answer sends a whole answer: once it returns, only a connection that was cut before keeps the client from it.
func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
	_ = http.NewResponseController(w).Flush()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reset ends a connection without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // cut already
	}
	if tcp, ok := conn.(*clientConn).Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it ends in order, which is a fault too
	}
	_ = conn.Close()
}

// parseRequest reads any of the formats of the sink http.
func parseRequest(h http.Header, body []byte) ([]Delivery, error) {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	switch {
	case kind == "application/cloudevents+json":
		d, err := parseEvent(body)
		return []Delivery{d}, err
	case kind == "application/cloudevents-batch+json":
		var events []json.RawMessage
		if err := json.Unmarshal(body, &events); err != nil {
			return nil, err
		}
		ds := make([]Delivery, len(events))
		for i, text := range events {
			var err error
			if ds[i], err = parseEvent(text); err != nil {
				return nil, err
			}
		}
		return ds, nil
	case h.Get("Tailbox-Ids") != "":
		return parseArray(h, body)
	}
	attempt, err := strconv.Atoi(h.Get("Tailbox-Attempt"))
	if err != nil {
		return nil, fmt.Errorf("header tailbox-attempt: %w", err)
	}
	return []Delivery{{ID: h.Get("Id"), Group: h.Get("Tailbox-Group"), Position: h.Get("Tailbox-Position"), Attempt: attempt, Payload: body}}, nil
}

func parseArray(h http.Header, body []byte) ([]Delivery, error) {
	var payloads []json.RawMessage
	if err := json.Unmarshal(body, &payloads); err != nil {
		return nil, err
	}
	ids, positions := strings.Split(h.Get("Tailbox-Ids"), ","), strings.Split(h.Get("Tailbox-Positions"), ",")
	if len(ids) != len(payloads) || len(positions) != len(payloads) {
		return nil, fmt.Errorf("%d ids, %d positions, %d payloads", len(ids), len(positions), len(payloads))
	}
	ds := make([]Delivery, len(ids))
	for i := range ids {
		id, err := url.PathUnescape(ids[i])
		if err != nil {
			return nil, err
		}
		ds[i] = Delivery{ID: id, Position: positions[i], Payload: payloads[i]}
	}
	return ds, nil
}

func parseEvent(text []byte) (Delivery, error) {
	var m struct {
		ID       string          `json:"id"`
		Group    string          `json:"tailboxgroup"`
		Position string          `json:"tailboxposition"`
		Attempt  int             `json:"tailboxattempt"`
		Data     json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(text, &m)
	if err == nil && m.ID == "" {
		err = errors.New("no id")
	}
	return Delivery{ID: m.ID, Group: m.Group, Position: m.Position, Attempt: m.Attempt, Payload: m.Data}, err
}
