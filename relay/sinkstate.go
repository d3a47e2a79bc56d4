package relay

import (
	"context"
	"strings"
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
	gathers   time.Time         // no call before: it waits for more to send at once
	pauses    map[string]*pause // destinations that are misconfigured, by name
	why       string            // last reason for not being open
	reported  string            // state that was last reported

	// down is since when the sink takes nothing; zero while it does. park: everything for it goes to the database.
	down      time.Time
	park      bool
	unproven  bool      // it was parked because others starved, and has taken nothing since
	probing   bool      // the breaker's one delivery is in flight, or asked for
	probed    time.Time // when the database was last asked for one
	successes int       // answers in all

	troubles map[sink.Destination]*trouble // destinations that are not reached
}

// destination is where order is kept within a sink.
type destination struct {
	sink.Destination
	ready    []*lane
	inflight int
	listed   bool
	answered int // the number of its last answer among the sink's, to tell one unreachable message from an unreachable destination
}

// pause is a misconfigured destination.
type pause struct {
	why     string
	since   time.Time
	probe   time.Time
	probing bool
}

const (
	probePause = 30 * time.Second // misconfigured destinations are probed this often
	// parkAfter is how long a sink may take nothing before its lanes are parked, so that the log and the others flow on.
	parkAfter = 5 * time.Second
	// mostIdleLanes are kept per sink for groups that come again soon, and not more than memory allows for.
	mostIdleLanes = 4096
	laneMemory    = 4 << 10 // bytes of memory that allow for an idle lane
	// mostIdleDestinations are kept per sink for messages that come again soon.
	mostIdleDestinations = 1024
	// pauseKept is how long after its probe was due a pause is kept that nothing in memory waits for.
	pauseKept = 10 * probePause
)

func newSinkState(name string, bit uint64, s sink.Sink, memory int64) *sinkState {
	st := &sinkState{name: name, bit: bit, sink: s, lanes: map[string]*lane{},
		dests: map[sink.Destination]*destination{}, pauses: map[string]*pause{}, asleep: newSleepers(),
		troubles: map[sink.Destination]*trouble{}, most: int(min(mostIdleLanes, memory/laneMemory)),
		sweepAt: mostIdleDestinations}
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

// accepts tells whether the sink takes deliveries now, and whether only one, as a probe.
func (s *sinkState) accepts(now time.Time) (ok, probe bool) {
	if s.paused || now.Before(s.throttled) {
		return false, false
	}
	ok, probe = s.breaker.allows(now)
	if probe && s.probing {
		return false, true
	}
	return ok, probe
}

// wholePause is the pause of a sink with one destination.
func (s *sinkState) wholePause() *pause {
	if s.to != nil {
		return nil
	}
	for _, p := range s.pauses {
		return p
	}
	return nil
}

// state names the sink's state for people.
func (s *sinkState) state(now time.Time) string {
	switch {
	case s.paused:
		return "paused"
	case s.breaker.open:
		return "broken"
	case now.Before(s.throttled):
		return "throttled"
	case s.to == nil && len(s.pauses) > 0:
		return "paused"
	}
	return "open"
}

// destinationOf returns the queue of a destination.
func (s *sinkState) destinationOf(d sink.Destination) *destination {
	q := s.dests[d]
	if q == nil {
		s.forgetIdle()
		d.Name = strings.Clone(d.Name) // it outlives the chunk of memory that its first message lies in
		q = &destination{Destination: d}
		s.dests[d] = q
		s.all = append(s.all, q)
	}
	return q
}

// forgetIdle drops the destinations that nothing is in flight to and nothing waits for, once there are many: messages may
// choose any number of them. They are looked through again only when there are twice as many as were needed.
func (s *sinkState) forgetIdle() {
	if len(s.all) < s.sweepAt {
		return
	}
	var kept []*destination // not in place: who asks may be on the way through all of them
	for _, q := range s.all {
		if q.idle() {
			delete(s.dests, q.Destination)
		} else {
			kept = append(kept, q)
		}
	}
	s.all, s.sweepAt = kept, max(2*len(kept), mostIdleDestinations)
}

// idle tells that nothing of the destination needs to be remembered.
func (q *destination) idle() bool { return len(q.ready) == 0 && q.inflight == 0 && !q.listed }

// forgetPauses drops the pauses that were due for a probe long ago, and that nothing in memory waits for: what was parked because
// of them was dropped by an operator, or sent elsewhere. If not, the next call that is refused begins the pause anew.
func (s *sinkState) forgetPauses(now time.Time) {
	if s.to == nil { // it is the state of the sink
		return
	}
	var used map[string]bool
	for name, p := range s.pauses {
		if p.probing || now.Sub(p.probe) < pauseKept {
			continue
		}
		if used == nil {
			used = s.usedNames()
		}
		if !used[name] {
			delete(s.pauses, name)
		}
	}
}

// usedNames are the names of the destinations that are not idle.
func (s *sinkState) usedNames() map[string]bool {
	used := map[string]bool{}
	for _, q := range s.all {
		if !q.idle() {
			used[q.Name] = true
		}
	}
	return used
}

// full tells whether a destination has as many calls in flight as it may have.
func (s *sinkState) full(q *destination) bool {
	return s.limits.PerDestination > 0 && q.inflight >= s.limits.PerDestination
}

// list puts a destination into the turn if it has something to send and may send it.
func (s *sinkState) list(q *destination) {
	if q.listed || len(q.ready) == 0 || s.full(q) {
		return
	}
	q.listed = true
	s.turn = append(s.turn, q)
}

// relist puts destinations back into the turn whose pause is over or due for a probe.
func (s *sinkState) relist() {
	for _, q := range s.all {
		s.list(q)
	}
}

// lift ends the pause of a destination. What waits for it, in any of its partitions, may go on.
func (s *sinkState) lift(name string) {
	delete(s.pauses, name)
	s.relist()
}

// liftAll ends all pauses.
func (s *sinkState) liftAll() {
	clear(s.pauses)
	s.relist()
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
	if s.breaker.open && !s.probing {
		earliest(s.breaker.probe)
	}
	for _, p := range s.pauses {
		if !p.probing {
			earliest(p.probe)
		}
	}
	if !s.down.IsZero() && !s.park {
		earliest(s.down.Add(parkAfter))
	}
	return at
}
