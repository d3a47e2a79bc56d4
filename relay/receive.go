package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/relay/memory"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// received is a batch of the log after routing, on its way from the source's goroutine to the engine's.
type received struct {
	batch *source.Batch
	found bool // by a reconciliation: not from the log
	bytes int64
	items []routed
}

// routed is a message with what the router made of it. The delivery is that for the route's first sink; those for further
// sinks begin as copies of it.
type routed struct {
	msg      lane.Message
	delivery lane.Delivery
	err      error // the message cannot be routed
	foreign  bool  // it is another pipeline's: passed over
}

// made is how many bytes the router made of the message, beside its own: JSON has more of them than the payload that it holds.
func (r *routed) made() int {
	value, payload := r.delivery.Value, r.msg.Payload
	if len(value) == 0 || len(payload) > 0 && &value[0] == &payload[0] {
		return 0
	}
	return len(value)
}

// emit takes a batch from the source: it routes, waits for memory, and hands over. It runs in the source's goroutine.
func (e *engine) emit(ctx context.Context, b *source.Batch) error {
	in := &received{batch: b, items: make([]routed, len(b.Messages))}
	mem := &memory.Batch{Left: len(b.Messages)}
	for i, m := range b.Messages {
		e.route(&in.items[i], m, mem)
		in.bytes += int64(m.Size() + in.items[i].made())
	}
	mem.Bytes = in.bytes
	if in.bytes > 0 {
		if err := e.memory.Acquire(ctx, in.bytes); err != nil {
			return err
		}
	}
	select {
	case e.received <- in:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// route asks the router. It touches nothing of the engine that changes.
func (e *engine) route(r *routed, m *outbox.Message, mem *memory.Batch) {
	r.delivery.Message = m
	r.delivery.Source = e.cfg.Pipeline
	r.msg = lane.Message{Message: m, Batch: mem, Kept: e.kept(m.Table)}
	if e.cfg.Ours != nil && !e.cfg.Ours(m) {
		r.foreign = true
		return
	}
	r.msg.Route, r.err = e.cfg.Router.Route(m, &r.delivery.Delivery)
	r.delivery.Msg, r.delivery.Route = &r.msg, r.msg.Route
	if e.cfg.Receipts != nil && e.cfg.Receipts(m.Table) {
		r.msg.Receipts = &lane.Receipts{}
	}
}

// kept tells whether nothing is to be done about the delivered rows of a table.
func (e *engine) kept(table string) bool { return e.cfg.Kept != nil && e.cfg.Kept(table) }

// onReceived puts a batch's messages into the tracker and its deliveries into lanes.
func (e *engine) onReceived(in *received, now time.Time) {
	b := in.batch
	tail := e.phase == phaseTailing && !in.found
	marks := b.Marks
	e.readAny = e.readAny || len(in.items) > 0
	e.idleLog = e.idleLog || !e.readAny
	foreign := 0
	for i := range in.items {
		switch r := &in.items[i]; {
		case r.foreign:
			foreign++
			r.msg.Batch.Done(e.memory)
		case i < len(b.ParkedAt):
			e.take(r, b.ParkedAt[i], tail, now)
		default:
			e.take(r, nil, tail, now)
		}
		for len(marks) > 0 && marks[0].N == i+1 && tail {
			e.tracker.End(marks[0].Resume)
			marks = marks[1:]
		}
	}
	if foreign > 0 {
		e.skipped("tenant", foreign)
	}
	if b.Resume != "" && tail {
		e.tracker.End(b.Resume)
	}
	e.unsaved += b.LogBytes
	if tail && len(b.Messages) > 0 {
		e.inTransaction = b.Resume == "" && (len(b.Marks) == 0 || b.Marks[len(b.Marks)-1].N < len(b.Messages))
	} else if tail && b.Resume != "" {
		e.inTransaction = false
	}
	var lag time.Duration
	if n := len(b.Messages); n > 0 {
		lag = e.clock.at(now).Sub(b.Messages[n-1].CommitTime)
		if tail {
			e.lagging = lag > farBehind
		}
	}
	e.admit()
	if b.Barrier != "" {
		e.onBarrier(b.Barrier)
	}
	if f := e.cfg.Events.Received; f != nil {
		f(len(b.Messages), b.CommitLag, lag)
	}
}

// take puts one message into the tracker, and its deliveries into lanes, but for those at sinks where one is parked already.
func (e *engine) take(r *routed, parkedAt []string, tail bool, now time.Time) {
	e.remember(&r.msg)
	r.msg.Parked = len(parkedAt) > 0
	targets := e.targetsOf(r)
	r.msg.Left = partsOf(targets)
	for _, name := range parkedAt {
		if s := e.byName[name]; s != nil {
			r.msg.Left &^= s.Bit
		}
	}
	if tail {
		e.track(r)
	} else {
		e.swept++
	}
	e.fan(r, targets, now)
}

// targetsOf are the sinks that a message goes to: those of its route, or the sink "" when it cannot be routed or decoded.
func (e *engine) targetsOf(r *routed) []*lane.Sink {
	if r.err != nil || r.msg.Fault != nil && r.msg.Fault.Class == outbox.FaultUndecodable {
		return e.sinks[:1]
	}
	if ss, ok := e.targets[r.msg.Route]; ok {
		return ss
	}
	var ss []*lane.Sink
	for _, name := range r.msg.Route.To {
		if s := e.byName[name]; s != nil {
			ss = append(ss, s)
		}
	}
	e.targets[r.msg.Route] = ss
	return ss
}

func partsOf(ss []*lane.Sink) uint64 {
	var parts uint64
	for _, s := range ss {
		parts |= s.Bit
	}
	return parts
}

// track gives a message of the tail its number, and takes out what the checkpoint says is settled (R9).
func (e *engine) track(r *routed) {
	m := &r.msg
	parts := m.Left
	if len(e.covered) > 0 {
		e.drop(m)
	}
	e.lastSeen = m.Position
	open := m.Left
	if (m.Left != 0 || m.Parked) && (!m.Kept || m.Parked) {
		open |= rowPart
	}
	m.Row = open&rowPart != 0
	m.Seq = e.tracker.Add(m.Position, parts|open, open)
}

// drop takes out the parts of a message that settled_above names: the log repeats them after a restart.
func (e *engine) drop(m *lane.Message) {
	if checkpoint.Covers(e.covered[checkpoint.Whole], m.Position) {
		m.Left, m.Parked = 0, false
		e.skipped("settled", 1)
		return
	}
	for i, name := range e.names {
		bit := uint64(1) << i
		if m.Left&bit != 0 && checkpoint.Covers(e.covered[name], m.Position) {
			m.Left &^= bit
			m.Parked = true // it may have been settled by parking it
			e.skipped("settled", 1)
		}
	}
	if m.Position.Compare(e.coveredEnd) > 0 {
		e.covered = nil
	}
}

func (e *engine) skipped(why string, n int) {
	if f := e.cfg.Events.Skipped; f != nil {
		f(why, n)
	}
}

// fan puts a message's deliveries into their lanes.
func (e *engine) fan(r *routed, targets []*lane.Sink, now time.Time) {
	m := &r.msg
	if m.Left == 0 {
		e.allSettled(m)
		return
	}
	var further []lane.Delivery
	if len(targets) > 1 {
		further = make([]lane.Delivery, len(targets)-1)
		for i := range further {
			further[i] = r.delivery
		}
	}
	for i, s := range targets {
		if m.Left&s.Bit == 0 {
			continue
		}
		d := &r.delivery
		if i > 0 {
			d = &further[i-1]
		}
		e.enqueue(s, d, r.err, now)
	}
}

// enqueue puts one delivery from the tail at the end of its lane.
func (e *engine) enqueue(s *lane.Sink, d *lane.Delivery, unroutable error, now time.Time) {
	m := d.Msg
	group := m.Group
	wait := m.AvailableAt.Sub(e.clock.at(now))
	scheduled := m.Scheduled() && wait > 0
	if scheduled && s.Sink != nil {
		group = "" // outside the order promise: a lane of its own
	}
	l := s.Lane(group)
	d.Lane = l
	d.Doomed = e.doom(m)
	if m.Receipts != nil {
		d.Receipt = &sink.Receipt{}
	}
	if s.Sink == nil {
		d.Doomed = faultOf(m, unroutable)
	} else if d.Doomed == nil {
		d.Doomed = s.TopicFault(d)
	}
	s.Queued++
	switch {
	case s.Sink == nil:
		e.park(l, d, d.Doomed)
	case scheduled:
		e.park(l, d, &lane.Failure{Wait: wait})
	case e.closed(l) || l.Arrivals.Len() > 0:
		l.Arrivals.Push(d)
		e.review(l)
	default:
		l.Queue.Push(d)
		e.offer(l, now)
	}
}

// doom is why a message must not be sent at all, though it has its place in its lane.
func (e *engine) doom(m *lane.Message) *lane.Failure {
	switch {
	case m.Fault != nil:
		return &lane.Failure{Class: m.Fault.Class, Err: m.Fault.Reason}
	case m.Seq != 0:
		return e.proven(m.Position)
	}
	return nil
}

// faultOf is the failure of a message that cannot be routed or decoded.
func faultOf(m *lane.Message, unroutable error) *lane.Failure {
	if m.Fault != nil {
		return &lane.Failure{State: checkpoint.StateDead, Blocks: m.Group != "", Class: m.Fault.Class,
			Err: m.Fault.Reason}
	}
	return &lane.Failure{State: checkpoint.StateDead, Blocks: m.Group != "", Class: "unroutable",
		Err: fmt.Sprint(unroutable)}
}

// closed tells whether what arrives for a lane has to wait in the database.
func (e *engine) closed(l *lane.Lane) bool {
	return l.Mode != lane.Open || l.Sink.Parks() || e.unroutable(l)
}

// unroutable tells whether the lane's group is blocked at every sink: a message of it waits under the sink "", or an
// operator holds the group without naming a sink.
func (e *engine) unroutable(l *lane.Lane) bool {
	s := e.sinks[0]
	if l.Group == "" || len(s.Lanes)+len(s.Asleep.Set) == 0 {
		return false
	}
	u := s.Lanes[l.Group]
	if u == nil {
		return s.Asleep.Has(l.Group)
	}
	return u.Mode != lane.Open || u.Is(lane.Parking) && u.Failure.Blocks || u.Is(lane.Settling)
}

// heldEverywhere tells whether an operator holds the lane's group without naming a sink.
func (e *engine) heldEverywhere(l *lane.Lane) bool {
	u := e.sinks[0].Lanes[l.Group]
	return l.Sink.Sink != nil && u != nil && u.IsHeld()
}
