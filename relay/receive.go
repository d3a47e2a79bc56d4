package relay

import (
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/sink"
)

// onReceived puts a batch's messages into the tracker and its deliveries into lanes.
func (e *engine) onReceived(in *received, now time.Time) {
	b := in.batch
	tail := e.phase == phaseTailing && !in.found
	marks := b.Marks
	e.safeMode.readAny = e.safeMode.readAny || len(in.items) > 0
	e.safeMode.idleLog = e.safeMode.idleLog || !e.safeMode.readAny
	otherTenant := 0
	for i := range in.items {
		switch r := &in.items[i]; {
		case r.otherTenant:
			otherTenant++
			r.msg.Batch.Done(e.intake.memory)
		case i < len(b.ParkedAt):
			e.take(r, b.ParkedAt[i], tail, now)
		default:
			e.take(r, nil, tail, now)
		}
		for len(marks) > 0 && marks[0].N == i+1 && tail {
			e.settler.tracker.End(marks[0].Resume)
			marks = marks[1:]
		}
	}
	if otherTenant > 0 {
		e.skipped("tenant", otherTenant)
	}
	if b.Resume != "" && tail {
		e.settler.tracker.End(b.Resume)
	}
	e.settler.unsaved += b.LogBytes
	if tail && len(b.Messages) > 0 {
		e.inTransaction = b.Resume == "" && (len(b.Marks) == 0 || b.Marks[len(b.Marks)-1].N < len(b.Messages))
	} else if tail && b.Resume != "" {
		e.inTransaction = false
	}
	var lag time.Duration
	if n := len(b.Messages); n > 0 {
		lag = e.session.clock.at(now).Sub(b.Messages[n-1].CommitTime)
		if tail {
			e.dispatcher.lagging = lag > farBehind
		}
	}
	e.reconciler.admit()
	if b.Barrier != "" {
		e.reconciler.onBarrier(b.Barrier)
	}
	if f := e.cfg.Events.Received; f != nil {
		f(len(b.Messages), b.CommitLag, lag)
	}
}

// take puts one message into the tracker, and its deliveries into lanes, except those that are parked already.
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
		e.sweep.open++
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
	if len(e.settler.covered) > 0 {
		e.settler.drop(m)
	}
	e.settler.lastSeen = m.Position
	open := m.Left
	if (m.Left != 0 || m.Parked) && (!m.Kept || m.Parked) {
		open |= rowPart
	}
	m.Row = open&rowPart != 0
	m.Seq = e.settler.tracker.Add(m.Position, parts|open, open)
}

// drop takes out the parts of a message that settled_above names: the log repeats them after a restart.
func (st *settler) drop(m *lane.Message) {
	if checkpoint.Covers(st.covered[checkpoint.Whole], m.Position) {
		m.Left, m.Parked = 0, false
		st.e.skipped("settled", 1)
		return
	}
	for i, name := range st.e.names {
		bit := uint64(1) << i
		if m.Left&bit != 0 && checkpoint.Covers(st.covered[name], m.Position) {
			m.Left &^= bit
			m.Parked = true // it may have been settled by parking it
			st.e.skipped("settled", 1)
		}
	}
	if m.Position.Compare(st.coveredEnd) > 0 {
		st.covered = nil
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
		e.settler.allSettled(m)
		return
	}
	var further []lane.Delivery
	if len(targets) > 1 {
		further = make([]lane.Delivery, len(targets)-1)
		for i := range further {
			further[i] = r.delivery
		}
	}
	wait := e.wait(m, now) // before another goroutine may see the message
	for i, s := range targets {
		if m.Left&s.Bit == 0 {
			continue
		}
		d := &r.delivery
		if i > 0 {
			d = &further[i-1]
		}
		e.enqueue(s, d, r.err, wait, now)
	}
}

// enqueue puts one delivery from the tail at the end of its lane. wait is how long the message waits for its time.
func (e *engine) enqueue(s *lane.Sink, d *lane.Delivery, unroutable error, wait time.Duration, now time.Time) {
	m := d.Msg
	group := m.Group
	scheduled := m.Scheduled() && wait > 0
	if scheduled && s.Sink != nil {
		group = "" // outside the order promise: a lane of its own
	}
	l := s.Lane(group)
	d.Lane = l
	d.Unsendable = e.unsendable(m)
	if m.Receipts != nil {
		d.Receipt = &sink.Receipt{}
	}
	if s.Sink == nil {
		d.Unsendable = faultOf(m, unroutable)
	} else if d.Unsendable == nil {
		d.Unsendable = s.TopicFault(d)
	}
	s.Queued++
	switch {
	case s.Sink == nil:
		e.parker.park(l, d, d.Unsendable)
	case scheduled:
		e.parker.park(l, d, &lane.Failure{Wait: wait})
	case e.closed(l) || l.Backlog.Len() > 0:
		l.Backlog.Push(d)
		e.touch(l)
	default:
		l.Queue.Push(d)
		e.dispatcher.offer(l, now)
	}
}

// wait is how long the message still has to wait for its time. MariaDB's log has the second of a commit. A time within that second is taken for one that
// had come at the commit if it has come by now: else a column with the default now() would take each message out of its group's order.
func (e *engine) wait(m *lane.Message, now time.Time) time.Duration {
	c := &e.session.clock
	if m.Scheduled() && m.CommitTime.Nanosecond() == 0 && m.AvailableAt.Sub(m.CommitTime) < time.Second {
		now = time.Now() // the engine's is that of its last event, which may be before the commit
		if m.AvailableAt.Sub(c.at(now)) <= c.unsure {
			m.CommitTime = m.AvailableAt
		}
	}
	return m.AvailableAt.Sub(c.at(now))
}

// unsendable returns why a message must not be sent, though it has its place in its lane; nil if it may be.
func (e *engine) unsendable(m *lane.Message) *lane.Failure {
	switch {
	case m.Fault != nil:
		return &lane.Failure{Class: m.Fault.Class, Err: m.Fault.Reason}
	case m.Seq != 0:
		return e.safeMode.quarantined(m.Position)
	}
	return nil
}

// faultOf is the failure of a message that cannot be routed or decoded.
func faultOf(m *lane.Message, unroutable error) *lane.Failure {
	if m.Fault != nil {
		return &lane.Failure{State: checkpoint.StateDead, Blocks: m.Group != "", Class: m.Fault.Class,
			Err: m.Fault.Reason}
	}
	return &lane.Failure{State: checkpoint.StateDead, Blocks: m.Group != "", Class: classUnroutable,
		Err: fmt.Sprint(unroutable)}
}

// closed reports whether what arrives for a lane has to wait in the database.
func (e *engine) closed(l *lane.Lane) bool {
	return l.Mode != lane.Open || l.Sink.Parks() || e.unroutable(l)
}

// unroutable reports whether the lane's group is blocked at every sink: a message of it waits under the sink "", or an
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

// heldEverywhere reports whether an operator holds the lane's group without naming a sink.
func (e *engine) heldEverywhere(l *lane.Lane) bool {
	u := e.sinks[0].Lanes[l.Group]
	return l.Sink.Sink != nil && u != nil && u.IsHeld()
}
