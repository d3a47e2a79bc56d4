package lane

import (
	"context"
	"slices"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// A Sink is what the engine knows of one sink.
type Sink struct {
	Name   string
	Broken func(error) // reports a bug
	Bit    uint64      // the sink's part of a message, in the tracker
	Sink   sink.Sink
	Limits sink.Limits
	To     func(*Delivery) sink.Destination // nil: one destination

	Lanes    map[string]*Lane
	Asleep   sleepers // lanes that have nothing in memory, and wait for what the database holds
	spare    []*Lane  // to be used again
	most     int      // idle lanes that are kept for groups that come again soon
	dests    map[sink.Destination]*Destination
	All      []*Destination // in the order they were first seen
	forgetAt int            // forgetIdle drops idle destinations once there are so many
	RunQueue turns          // of destinations with lanes that can start a run
	Inflight int
	Queued   int // deliveries in memory
	// Polled is how many lanes have deliveries of the poller in memory, and PolledBytes how much these take. PassedOver: something may be due that was
	// not asked for, because so much was in memory.
	Polled      int
	PolledBytes int64
	PassedOver  bool
	Idleness    idleness

	// Calls is the context of the sink's calls: its end cuts them off.
	Calls context.Context //nolint:containedctx // It lives as long as the sink is used, through many calls.
	Cut   context.CancelCauseFunc

	Breaker   Breaker
	Paused    bool      // by an operator
	Throttled time.Time // until when it rests
	Throttle  Throttle
	Gathers   time.Time // no call before: it waits for more to send at once
	Why       string    // last reason for not being open
	Reported  Condition // the last Condition that was reported
	Outage    outage

	Flow  Flow
	Down  time.Time // since when it takes nothing
	Asked time.Time // when the database was last asked for probes

	Epoch     int64                             // of the term, to tell its calls from those of others
	Number    int64                             // of the latest call
	Failing   int                               // destinations that fail; only of a sink with several
	histories recent[sink.Destination, history] // of destinations that were forgotten
	answered  recent[string, struct{}]          // names of destinations that have answered; a failure takes none out, since others of the name may work
}

const (
	// ParkAfter is how long a sink may take nothing before its lanes are parked, so that the log and the others flow on.
	ParkAfter = 5 * time.Second
	// mostIdleLanes is how many lanes a sink keeps before it forgets the idle ones. Messages of their groups may come again soon. With little memory it
	// keeps fewer (laneMemory).
	mostIdleLanes = 4096
	laneMemory    = 4 << 10 // bytes of memory for each lane that is kept
)

// NewSink returns what is known of a sink before anything was sent to it. Memory is all that the relay may queue, in bytes.
func NewSink(name string, bit uint64, s sink.Sink, memory int64) *Sink {
	st := &Sink{Name: name, Bit: bit, Sink: s, Lanes: map[string]*Lane{},
		dests: map[sink.Destination]*Destination{}, Asleep: newSleepers(), most: int(min(mostIdleLanes, memory/laneMemory)),
		forgetAt: mostDestinations}
	if s == nil { // the sink "" of messages that cannot be routed
		return st
	}
	st.Limits = s.Limits()
	st.Limits.Concurrency = max(st.Limits.Concurrency, 1)
	if d, ok := s.(sink.Destinations); ok {
		st.To = func(x *Delivery) sink.Destination { return d.Destination(&x.Delivery) }
	}
	return st
}

// TopicFault is why the sink can carry no message of the delivery's topic; nil if it can.
func (s *Sink) TopicFault(d *Delivery) *Failure {
	if err := s.Limits.CheckTopic(d.Topic); err != nil {
		return &Failure{Class: sink.ClassPermanent.String(), Err: err.Error()}
	}
	return nil
}

// Begin gives the sink's next calls a context of their own.
func (s *Sink) Begin(ctx context.Context) { s.Calls, s.Cut = context.WithCancelCause(ctx) }

// Accepts reports whether the sink takes deliveries now, and whether only single heads, as probes.
func (s *Sink) Accepts(now time.Time) (ok, probe bool) {
	if s.Paused || now.Before(s.Throttled) {
		return false, false
	}
	return s.Breaker.Allows(now)
}

// Condition is what people see of the sink. Several reasons may keep it from taking deliveries: the first of these counts.
func (s *Sink) Condition(now time.Time) Condition {
	switch {
	case s.Paused:
		return SinkPaused
	case s.Fails():
		return SinkFailing
	case now.Before(s.Throttled):
		return SinkThrottled
	}
	return SinkOpen
}

// Wake is when something of the sink changes by itself; zero = never.
func (s *Sink) Wake(now time.Time) time.Time {
	var at time.Time
	earliest := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	earliest(s.Throttled)
	earliest(s.Gathers)
	if s.Breaker.Fails() {
		earliest(s.Breaker.Next)
	}
	if s.Failing > 0 {
		for _, q := range s.All {
			if q.Breaker.Fails() && len(q.Ready) > 0 {
				earliest(q.Breaker.Next)
			}
		}
	}
	if s.Flow == Stalled {
		earliest(s.Down.Add(ParkAfter))
	}
	return at
}

// Reached notes that the sink can be reached, and reports whether its breaker was open before.
func (s *Sink) Reached() bool {
	if !s.Breaker.Close() {
		return false
	}
	s.RecoverAll(func(b *Breaker) bool { return b.Class == sink.ClassUnreachable }) // these could not be reached only because the sink could not
	return true
}

// EndOutage closes the breakers of q and its sink, because a call showed that both work. It reports whether one was open.
func (s *Sink) EndOutage(q *Destination, delivered bool, now time.Time) bool {
	over := s.recovered(q)
	over = s.Reached() || over
	q.Breaker.Close() // this also resets the count of failures in a row
	if delivered {
		s.Breaker.delivered, q.Breaker.delivered = now, now
	}
	return over
}

// OthersActive reports whether another destination has something to send, or took something lately.
func (s *Sink) OthersActive(q *Destination, now time.Time) bool {
	return slices.ContainsFunc(s.All, func(other *Destination) bool {
		return other != q && (!other.idle() || now.Sub(other.Breaker.delivered) < OutageLog)
	})
}

// FailingBreaker returns the sink's breaker if it is open, else that of the first failing destination.
func (s *Sink) FailingBreaker() *Breaker {
	if i := slices.IndexFunc(s.All, func(q *Destination) bool { return q.Breaker.Fails() }); !s.Breaker.Fails() && i >= 0 {
		return &s.All[i].Breaker
	}
	return &s.Breaker
}

// Waiting is how many lanes of a sink have deliveries in the database or in memory.
func (s *Sink) Waiting() int {
	n := len(s.Asleep.Set)
	for _, l := range s.Lanes {
		if l.Blocked() || l.Queue.Len()+l.Backlog.Len() > 0 {
			n++
		}
	}
	return n
}

// Stall takes note that the sink takes nothing from now on.
func (s *Sink) Stall(now time.Time) {
	s.On(EvStall)
	s.Down = now
}

// An outage is the time in which a sink, or some of its destinations, fail. tailbox logs it per sink, not per destination.
type outage struct {
	Since     time.Time // zero: there is none
	Logged    time.Time
	Failure   time.Time // when the failure of a message was last logged
	Permanent int       // permanent answers in a row, without a delivery
}

// OutageLog is how often the relay logs a lasting outage of a sink, and how often a failed message of it.
const OutageLog = time.Minute
