package relay

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// sinkState is what the engine knows of one sink.
type sinkState struct {
	name   string
	bit    uint64 // the sink's part of a message, in the tracker
	sink   sink.Sink
	limits sink.Limits
	to     func(*delivery) sink.Destination // nil: one destination

	lanes    map[string]*lane
	asleep   sleepers // lanes that have nothing in memory, and wait for what the database holds
	spare    []*lane  // to be used again
	most     int      // idle lanes that are kept for groups that come again soon
	dests    map[sink.Destination]*destination
	all      []*destination // in the order they were first seen
	sweepAt  int            // so many destinations are looked through for those that are idle
	turn     []*destination // those with lanes that can start a run, in turn
	inflight int
	queued   int // deliveries in memory
	hunger   hunger

	calls context.Context // ends when the calls in flight must
	cut   context.CancelCauseFunc

	breaker   breaker
	paused    bool      // by an operator
	throttled time.Time // until when it rests
	throttle  throttle
	gathers   time.Time // no call before: it waits for more to send at once
	why       string    // last reason for not being open
	reported  string    // state that was last reported
	outage    outage

	// down is since when the sink takes nothing; zero while it does. park: everything for it goes to the database.
	down     time.Time
	park     bool
	unproven bool      // it was parked because others starved, and has taken nothing since
	asked    time.Time // when the database was last asked for probes

	epoch   int64   // of the term, to tell its calls from those of others
	number  int64   // of the latest call
	records records // of destinations that were forgotten
	failing int     // destinations that fail; only of a sink with several
}

const (
	// parkAfter is how long a sink may take nothing before its lanes are parked, so that the log and the others flow on.
	parkAfter = 5 * time.Second
	// mostIdleLanes are kept per sink for groups that come again soon, and not more than memory allows for.
	mostIdleLanes = 4096
	laneMemory    = 4 << 10 // bytes of memory that allow for an idle lane
)

func newSinkState(name string, bit uint64, s sink.Sink, memory int64) *sinkState {
	st := &sinkState{name: name, bit: bit, sink: s, lanes: map[string]*lane{},
		dests: map[sink.Destination]*destination{}, asleep: newSleepers(), most: int(min(mostIdleLanes, memory/laneMemory)),
		sweepAt: mostDestinations}
	if s == nil { // the sink "" of messages that cannot be routed
		return st
	}
	st.limits = s.Limits()
	st.limits.Concurrency = max(st.limits.Concurrency, 1)
	if d, ok := s.(sink.Destinations); ok {
		st.to = func(x *delivery) sink.Destination { return d.Destination(&x.Delivery) }
	}
	return st
}

// topicFault is why the sink can carry no message of the delivery's topic; nil if it can.
func (s *sinkState) topicFault(d *delivery) *failure {
	if err := s.limits.CheckTopic(d.Topic); err != nil {
		return &failure{class: sink.ClassPermanent.String(), err: err.Error()}
	}
	return nil
}

// begin gives the sink's next calls a context of their own.
func (s *sinkState) begin(ctx context.Context) { s.calls, s.cut = context.WithCancelCause(ctx) }

// accepts tells whether the sink takes deliveries now, and whether only single heads, as probes.
func (s *sinkState) accepts(now time.Time) (ok, probe bool) {
	if s.paused || now.Before(s.throttled) {
		return false, false
	}
	return s.breaker.allows(now)
}

// state names the sink's state for people.
func (s *sinkState) state(now time.Time) string {
	switch {
	case s.paused:
		return "paused"
	case s.fails():
		return "failing"
	case now.Before(s.throttled):
		return "throttled"
	}
	return "open"
}

// wake is when something of the sink changes by itself; zero = never.
func (s *sinkState) wake(now time.Time) time.Time {
	var at time.Time
	earliest := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	earliest(s.throttled)
	earliest(s.gathers)
	if s.breaker.fails() {
		earliest(s.breaker.next)
	}
	if s.failing > 0 {
		for _, q := range s.all {
			if q.breaker.fails() && len(q.ready) > 0 {
				earliest(q.breaker.next)
			}
		}
	}
	if !s.down.IsZero() && !s.park {
		earliest(s.down.Add(parkAfter))
	}
	return at
}
