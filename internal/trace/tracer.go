package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
)

// Results of spans, as Config.Count is called with them.
const (
	// Sent: the collector took them.
	Sent = "sent"
	// Refused: the collector answered that it does not take them.
	Refused = "refused"
	// Dropped: they were lost here, because the queue was full or no collector took them in time.
	Dropped = "dropped"
)

// Results lists the results of spans.
func Results() []string { return []string{Sent, Refused, Dropped} }

// A Config is what a tracer needs beside its settings.
type Config struct {
	Pipeline, Version string
	// Count is told what became of n spans. It must not block.
	Count  func(result string, n int)
	Logger *slog.Logger
}

// A Sink is what spans say of a sink.
type Sink struct {
	Kind string
	// Address and Port are the server's; "" and 0 if the sink has no single one.
	Address string
	Port    int
}

// A Tracer makes spans of attempts, and sends them while Run runs.
type Tracer struct {
	cfg      Config
	settings *Settings
	sinks    atomic.Pointer[map[string]Sink]
	// scratch and text belong to the caller of Answered: spans and texts are made in them.
	scratch, text []byte

	// wake is told when a batch is full.
	wake chan struct{}
	mu   sync.Mutex
	// waiting holds encoded spans, at most settings.most and a batch that was put back.
	waiting [][]byte
}

// New makes a tracer. sinks are those of the configuration, by name.
func New(s *Settings, c Config, sinks map[string]Sink) *Tracer {
	t := &Tracer{cfg: c, settings: s, wake: make(chan struct{}, 1)}
	t.SetSinks(sinks)
	return t
}

// SetSinks takes over the sinks of another configuration.
func (t *Tracer) SetSinks(sinks map[string]Sink) { t.sinks.Store(&sinks) }

// Answered makes spans of the attempts that a sink has answered, but for deliveries that it did not try. It keeps nothing of them, and never waits. One goroutine
// calls it.
func (t *Tracer) Answered(a relay.Answers) {
	room := t.room()
	dropped := 0
	for i, d := range a.Deliveries {
		var err error
		if a.Errs != nil {
			err = a.Errs[i]
		}
		class, _, _ := sink.Classify(err)
		if err != nil && class == sink.ClassNotAttempted {
			continue
		}
		s := span{start: a.Started, end: a.Started.Add(a.Took), failed: err != nil}
		p, ok := parentOf(d)
		if ok {
			s.parent, s.trace = &p, p.trace
		} else {
			s.trace = rootOf(t.cfg.Pipeline, d)
		}
		switch {
		case !t.settings.sampler.takes(s.trace, s.parent):
			continue
		case room <= 0:
			dropped++
			continue
		}
		room--
		for s.id == (spanID{}) { // zeros are no ID
			binary.NativeEndian.PutUint64(s.id[:], rand.Uint64()) //nolint:gosec // An ID is no secret.
		}
		outcome := "delivered"
		switch {
		case slices.Contains(a.Dead, d):
			outcome = "dead"
		case err != nil:
			outcome = "retry"
		}
		t.put(t.encode(&s, &a, d, outcome, class))
	}
	if dropped > 0 {
		t.cfg.Count(Dropped, dropped)
	}
}

// rootOf returns the trace of a message without one. It is made of what identifies the message, so that all its attempts at all sinks are in one trace.
func rootOf(pipeline string, d *sink.Delivery) (id traceID) {
	var room [256]byte
	m := d.Message
	b := append(append(room[:0], pipeline...), 0)
	b = append(append(b, m.Table...), 0)
	b = append(m.Position.Append(b), m.ID...)
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	return id
}

// encode returns a span of its own memory: messages point into large chunks, which must not be kept.
func (t *Tracer) encode(s *span, a *relay.Answers, d *sink.Delivery, outcome string, class sink.Class) []byte {
	const f = spanAttributes
	m, to := d.Message, (*t.sinks.Load())[a.Sink]
	topic := short(d.Topic)
	s.name = "send"
	if topic != "" {
		s.name = "send " + topic
	}
	b := appendSpan(t.scratch[:0], s)
	b = appendText(b, f, "messaging.system", to.Kind)
	b = appendText(b, f, "messaging.operation.type", "send")
	b = appendText(b, f, "messaging.operation.name", "send")
	if topic != "" {
		b = appendText(b, f, "messaging.destination.name", topic)
	}
	b = appendText(b, f, "messaging.message.id", short(m.ID))
	b = appendInt(b, f, "messaging.message.body.size", int64(len(d.Value)))
	if to.Address != "" {
		b = appendText(b, f, "server.address", to.Address)
	}
	if to.Port != 0 {
		b = appendInt(b, f, "server.port", int64(to.Port))
	}
	if s.failed {
		b = appendText(b, f, "error.type", class.String())
	}
	b = appendText(b, f, "tailbox.pipeline", t.cfg.Pipeline)
	b = appendText(b, f, "tailbox.sink", a.Sink)
	b = appendText(b, f, "tailbox.outcome", outcome)
	b = appendInt(b, f, "tailbox.attempt", int64(d.Attempt))
	b = appendInt(b, f, "tailbox.call.deliveries", int64(len(a.Deliveries)))
	b = appendText(b, f, "tailbox.type", short(m.Type))
	if group := m.GroupText(); group != "" {
		b = appendText(b, f, "tailbox.group", short(group))
	}
	t.text = m.Position.Append(t.text[:0])
	b = appendText(b, f, "tailbox.position", string(t.text))
	if !m.CommitTime.IsZero() {
		t.text = m.CommitTime.UTC().AppendFormat(t.text[:0], time.RFC3339Nano)
		b = appendText(b, f, "tailbox.committed_at", string(t.text))
		b = appendReal(b, f, "tailbox.end_to_end_seconds", max(0, s.end.Sub(m.CommitTime).Seconds()))
	}
	t.scratch = b
	return slices.Clone(b)
}

// room returns how many spans the queue can take. It can only grow until Answered returns.
func (t *Tracer) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settings.most - len(t.waiting)
}

func (t *Tracer) put(span []byte) {
	t.mu.Lock()
	t.waiting = append(t.waiting, span)
	full := len(t.waiting) >= t.settings.batch
	t.mu.Unlock()
	if full {
		select {
		case t.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// take moves the oldest spans out of the queue, at most a batch.
func (t *Tracer) take() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(t.settings.batch, len(t.waiting))
	if n == 0 {
		return nil
	}
	batch := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	return batch
}

// putBack makes the spans of a batch the oldest again.
func (t *Tracer) putBack(batch [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(batch, t.waiting...)
}

// waits returns how many spans wait.
func (t *Tracer) waits() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
