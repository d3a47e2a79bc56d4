// Package tail shows deliveries to those who watch, as sinks answer them. Nobody who watches slows the relay: each watcher gets a sample of at most
// PerSecond deliveries a second, and one that does not take what it is given is dropped.
package tail

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/sink"
)

const (
	// PerSecond is how many deliveries a watcher gets within a second, at most.
	PerSecond = 100
	// MostWatchers bounds how many watch at once.
	MostWatchers = 32
	// MostOfOne bounds how many watch by one name, so that it leaves some to others.
	MostOfOne = 24
	// waiting is how many deliveries may wait for a watcher: one that leaves more is dropped.
	waiting = 2 * PerSecond
	// mostPayload is how many bytes of a payload are shown.
	mostPayload = 2 << 10
)

// ErrFull means that MostWatchers watch already, and ErrOften that MostOfOne watch by one name.
var (
	ErrFull  = errors.New("too many watch already")
	ErrOften = errors.New("too many watch by this name already")
)

// An Attempt is one delivery that a sink has answered.
type Attempt struct {
	At       time.Time `json:"at" doc:"When the sink answered."`
	Sink     string    `json:"sink"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Group    string    `json:"group,omitempty"`
	Topic    string    `json:"topic"`
	Position string    `json:"position"`
	Attempt  int       `json:"attempt" doc:"Counts from 1."`
	Outcome  string    `json:"outcome" enum:"delivered,failed"`
	Class    string    `json:"class,omitempty" doc:"The class of the failure."`
	// Latency is from the commit to the answer.
	Latency float64 `json:"latency_seconds" doc:"From the commit of the message to the answer."`
	Bytes   int     `json:"bytes" doc:"The size of the payload."`
	Payload string  `json:"payload,omitempty" doc:"The first 2 KiB of a payload that is text."`
	Skipped int     `json:"skipped,omitempty" doc:"Deliveries that matched and were left out since the one before."`
}

// A Filter says what somebody watches. Texts that are empty match all.
type Filter struct {
	Sink, Type, Group, Topic string
	// Payload: show what messages hold.
	Payload bool
}

func (f *Filter) matches(sinkName string, d *sink.Delivery) bool {
	return (f.Sink == "" || f.Sink == sinkName) && (f.Type == "" || f.Type == d.Message.Type) && (f.Group == "" || f.Group == d.Message.GroupText()) &&
		(f.Topic == "" || f.Topic == d.Topic)
}

// all: it matches every delivery.
func (f *Filter) all() bool { return f.Sink == "" && f.Type == "" && f.Group == "" && f.Topic == "" }

// A Watcher gets deliveries until its channel is closed: because it was dropped, or because the hub is.
type Watcher struct {
	C      <-chan Attempt
	c      chan Attempt
	name   string
	filter Filter
	// second is the one in which sent were given; skipped were left out since.
	second        int64
	sent, skipped int
}

// A Hub hands deliveries to watchers. It is safe for concurrent use.
type Hub struct {
	watched  atomic.Bool
	mu       sync.Mutex
	closed   bool
	watchers map[*Watcher]struct{}
}

// Watch begins to watch, in somebody's name. The watcher must be given to Leave when it is not read any more.
func (h *Hub) Watch(name string, f Filter) (*Watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) >= MostWatchers {
		return nil, ErrFull
	}
	same := 0
	for w := range h.watchers {
		if w.name == name {
			same++
		}
	}
	if same >= MostOfOne {
		return nil, ErrOften
	}
	c := make(chan Attempt, waiting)
	w := &Watcher{C: c, c: c, name: name, filter: f}
	if h.closed {
		close(c)
		return w, nil
	}
	if h.watchers == nil {
		h.watchers = map[*Watcher]struct{}{}
	}
	h.watchers[w] = struct{}{}
	h.watched.Store(true)
	return w, nil
}

// Leave ends a watcher.
func (h *Hub) Leave(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(w)
}

// Close ends all watchers.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.watchers {
		h.drop(w)
	}
}

func (h *Hub) drop(w *Watcher) {
	if _, ok := h.watchers[w]; !ok {
		return
	}
	delete(h.watchers, w)
	close(w.c)
	h.watched.Store(len(h.watchers) > 0)
}

// Answered shows the answers of a sink to deliveries, one for each; nil: all are delivered. It keeps nothing of them, and never waits for a watcher.
func (h *Hub) Answered(sinkName string, ds []*sink.Delivery, errs []error, now time.Time) {
	if !h.watched.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if !w.answered(sinkName, ds, errs, now) {
			h.drop(w) // it does not take what it is given
		}
	}
}

// answered gives a watcher its sample, and reports whether it takes it.
func (w *Watcher) answered(sinkName string, ds []*sink.Delivery, errs []error, now time.Time) bool {
	if now.Unix() > w.second {
		w.second, w.sent = now.Unix(), 0
	}
	if errs == nil && w.sent >= PerSecond && w.filter.all() {
		w.skipped += len(ds) // twenty of them must not look at each delivery of a relay that is busy
		return true
	}
	for i, d := range ds {
		var class sink.Class
		failed := errs != nil && errs[i] != nil
		if failed {
			class, _, _ = sink.Classify(errs[i])
		}
		switch {
		case failed && class == sink.ClassNotAttempted, !w.filter.matches(sinkName, d):
			continue
		case w.sent >= PerSecond:
			w.skipped++
			continue
		}
		one := show(sinkName, d, now, w.filter.Payload)
		if failed {
			one.Outcome, one.Class = "failed", class.String()
		}
		one.Skipped = w.skipped
		select {
		case w.c <- one:
			w.sent++
			w.skipped = 0
		default:
			return false
		}
	}
	return true
}

// show makes what watchers see of a delivery that succeeded.
func show(sinkName string, d *sink.Delivery, now time.Time, payload bool) Attempt {
	m := d.Message
	// A message's texts are parts of large pieces of memory, which would stay for as long as a watcher has one of them.
	one := Attempt{At: now, Sink: sinkName, ID: strings.Clone(m.ID), Type: strings.Clone(m.Type), Group: strings.Clone(m.GroupText()), Topic: strings.Clone(d.Topic), Position: m.Position.String(),
		Attempt: d.Attempt, Outcome: "delivered", Latency: max(0, now.Sub(m.CommitTime).Seconds()), Bytes: len(d.Value)}
	if payload {
		text := d.Value[:min(len(d.Value), mostPayload)]
		for n := 0; n < utf8.UTFMax && len(text) < len(d.Value) && len(text) > 0 && !utf8.Valid(text); n++ {
			text = text[:len(text)-1] // the cut was within a character
		}
		if utf8.Valid(text) {
			one.Payload = string(text)
		}
	}
	return one
}
