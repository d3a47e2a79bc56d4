package lane

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// Destination is where order is kept within a sink, and what can fail by itself.
type Destination struct {
	sink.Destination
	Ready    []*Lane
	Inflight int
	Listed   bool
	history
	// Breaker is used if the sink has several destinations. Otherwise Sink.Breaker takes its place.
	Breaker Breaker
}

// A history is what a sink remembers of a destination that it forgets.
type history struct {
	Record record
	last   lastCall
}

// A lastCall is what became of the last call to a destination that says something about it.
type lastCall uint8

const (
	lastUnknown lastCall = iota // there was none, or the sink does not remember it
	lastAnswered
	lastFailed
)

const (
	// mostDestinations is how many destinations a sink keeps in memory before it forgets the idle ones. Messages to those may come again soon.
	mostDestinations = 1024
	// outageKept is how long after its last call a destination counts as failing if nothing is sent to it any more: an operator dropped its
	// deliveries, or they were sent elsewhere.
	outageKept = 20 * probeMaxWait
	// sharedWait is the time between tries of a message to a destination that shares its name with others and takes nothing until an operator acts. Each
	// try costs the database a write.
	sharedWait = time.Minute
)

// DestinationOf returns the queue of a destination.
func (s *Sink) DestinationOf(d sink.Destination) *Destination {
	q := s.dests[d]
	if q == nil {
		s.forgetIdle()
		d.Name = strings.Clone(d.Name) // it outlives the chunk of memory that its first message lies in
		q = &Destination{Destination: d, history: s.historyOf(d)}
		s.dests[d] = q
		s.All = append(s.All, q)
	}
	return q
}

// forgetIdle drops the destinations that nothing is in flight to and nothing waits for, once there are many: messages may
// choose any number of them. They are looked through again only when there are twice as many as were needed.
func (s *Sink) forgetIdle() {
	if len(s.All) < s.forgetAt {
		return
	}
	var kept []*Destination // not in place: a caller may be ranging over s.All
	for _, q := range s.All {
		if !q.idle() {
			kept = append(kept, q)
			continue
		}
		if q.history != (history{}) {
			s.histories.add(q.Destination, q.history)
		}
		s.recovered(q)
		delete(s.dests, q.Destination)
	}
	s.All, s.forgetAt = kept, max(2*len(kept), mostDestinations)
}

// historyOf returns the history of a destination that is not in memory. If it was forgotten, too, no delivery is a witness, and no message is alone.
func (s *Sink) historyOf(d sink.Destination) history {
	h, ok := s.histories.get(d)
	if !ok && s.histories.forgot {
		return history{Record: record{several: true}}
	}
	return h
}

// Answered notes that a destination has delivered a message of a call, or refused it for good.
func (s *Sink) Answered(q *Destination) {
	q.last = lastAnswered
	if s.To != nil {
		s.answered.add(q.Name, struct{}{})
	}
}

// Failed notes that a call has failed.
func (q *Destination) Failed() { q.last = lastFailed }

// works reports whether a destination is likely to answer. If none of its own calls tells, one to another destination of its name may: among thousands of
// topics that do not exist, a new partition of a topic that works must not wait for a turn of each.
func (s *Sink) works(q *Destination) bool {
	if q.last == lastUnknown {
		_, known := s.answered.get(q.Name)
		return known
	}
	return q.last == lastAnswered
}

// Judge applies the rule of the witness to a failure of a call that carried d alone. If several names share the destination (Shared), a delivery to
// one name does not show that another one works, so only a rejected failure can have a witness.
func (q *Destination) Judge(d *Delivery, call int64, class sink.Class, epoch int64) Judgement {
	r := q.Record
	if q.Shared && class != sink.ClassRejected {
		r.delivered = 0
	}
	return r.judge(d, call, class, epoch)
}

// Blamed reports whether a failure of this class says something about the whole destination. If several names share it (Shared), the server
// answers misconfigured and rejected for the name of the message alone, so that the other names must not wait because of it.
func (q *Destination) Blamed(class sink.Class) bool {
	return !q.Shared || class != sink.ClassMisconfigured && class != sink.ClassRejected
}

// Unmade reports whether a failure of this class says that one of the names which share the destination does not exist, say. Only an operator can help, and
// no breaker slows the name down.
func (q *Destination) Unmade(class sink.Class) bool {
	return q.Shared && class == sink.ClassMisconfigured
}

// Delay is how long the head d, which has just failed, waits for its next attempt. If only an operator can help and no breaker slows its name
// down, it is sharedWait: such names may be thousands.
func (q *Destination) Delay(d *Delivery, class sink.Class, rnd *rand.Rand) time.Duration {
	if q.Unmade(class) && d.Tries > 1 {
		return sharedWait
	}
	return Delay(d.Route.Retry, d.Tries, rnd)
}

// idle reports whether nothing but the record of the destination has to be remembered.
func (q *Destination) idle() bool { return len(q.Ready) == 0 && q.Inflight == 0 && !q.Listed }

// Full reports whether a destination has as many calls in flight as it may have.
func (s *Sink) Full(q *Destination) bool {
	return s.Limits.PerDestination > 0 && q.Inflight >= s.Limits.PerDestination
}

// List appends a destination to the run queue if it has something to send and may send it.
func (s *Sink) List(q *Destination) {
	if q.Listed || len(q.Ready) == 0 || s.Full(q) {
		return
	}
	q.Listed = true
	s.RunQueue.add(q, s.works(q))
}

// Relist puts destinations back into the run queue if their outage is over, or a probe is due.
func (s *Sink) Relist() {
	for _, q := range s.All {
		s.List(q)
	}
}

// BreakerOf returns the breaker for a destination: the sink's own if the sink has only one destination.
func (s *Sink) BreakerOf(q *Destination) *Breaker {
	if s.To == nil {
		return &s.Breaker
	}
	return &q.Breaker
}

// Fails reports whether the sink, or a destination of it, fails.
func (s *Sink) Fails() bool { return s.Breaker.Fails() || s.Failing > 0 }

// recovered closes the breaker of one of several destinations.
func (s *Sink) recovered(q *Destination) bool {
	if s.To == nil || !q.Breaker.Close() {
		return false
	}
	s.Failing--
	return true
}

// RecoverAll closes the breakers of all destinations that match.
func (s *Sink) RecoverAll(match func(*Breaker) bool) {
	for _, q := range s.All {
		if q.Breaker.Fails() && match(&q.Breaker) {
			s.recovered(q)
		}
	}
	s.Relist()
}

// ForgetOutages closes the breakers of destinations that nothing in memory waits for, and nothing was sent to for long.
func (s *Sink) ForgetOutages(now time.Time) {
	if s.Failing == 0 {
		return
	}
	for _, q := range s.All {
		if q.Breaker.Fails() && q.idle() && now.Sub(q.Breaker.tried) > outageKept {
			s.recovered(q)
		}
	}
}

// UntilProbe returns how long a requeued delivery waits if its destination fails. It returns 0 if the whole sink fails, because the poller then asks
// for probes only.
func (s *Sink) UntilProbe(q *Destination, now time.Time) time.Duration {
	if s.Breaker.Fails() {
		return 0
	}
	return max(q.Breaker.Next.Sub(now), 0)
}

// ProbeFirst moves the lane that is to be probed next to the front of Ready: one whose head never failed, else the one whose head was tried longest
// ago. It returns false if every head has failed in calls after number round.
func (q *Destination) ProbeFirst(now time.Time, round int64) bool {
	best, failed := -1, false
	for i, l := range q.Ready {
		switch {
		case !l.Sendable(now):
		case l.Queue.At(0).FailedAfter(round):
			failed = true
		case best < 0 || l.Queue.At(0).triedBefore(q.Ready[best].Queue.At(0)):
			best = i
		}
	}
	if best > 0 {
		l := q.Ready[best]
		q.Ready = slices.Insert(slices.Delete(q.Ready, best, best+1), 0, l)
	}
	return best >= 0 || !failed
}

// FailedAfter reports whether d failed after this call of its sink.
func (d *Delivery) FailedAfter(call int64) bool {
	return d.Tries > 0 && d.Failed.Epoch == d.Lane.Sink.Epoch && d.Failed.Call > call
}

// triedBefore reports whether d failed longer ago than another delivery of its destination, or never did.
func (d *Delivery) triedBefore(other *Delivery) bool {
	switch {
	case other.Tries == 0:
		return false
	case d.Tries == 0:
		return true
	case d.Failed.Epoch != other.Failed.Epoch:
		return d.Failed.Epoch != d.Lane.Sink.Epoch // another term's is earlier
	}
	return d.Failed.Call < other.Failed.Call
}
