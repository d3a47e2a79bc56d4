package relay

import (
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// destination is where order is kept within a sink, and what can fail by itself.
type destination struct {
	sink.Destination
	ready    []*lane
	inflight int
	listed   bool
	record   record
	// breaker is that of the destination alone. A sink with one destination has its own for that.
	breaker breaker
}

const (
	// mostDestinations that nothing waits for are kept per sink for messages that come again soon.
	mostDestinations = 1024
	// outageKept is how long after the last call a destination is taken for failing to which nothing is sent any more: what was parked
	// because of it was dropped by an operator, or sent elsewhere.
	outageKept = 10 * probeMaxWait
)

// destinationOf returns the queue of a destination.
func (s *sinkState) destinationOf(d sink.Destination) *destination {
	q := s.dests[d]
	if q == nil {
		s.forgetIdle()
		d.Name = strings.Clone(d.Name) // it outlives the chunk of memory that its first message lies in
		q = &destination{Destination: d, record: s.records.take(d)}
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
		if !q.idle() {
			kept = append(kept, q)
			continue
		}
		s.records.keep(q.Destination, q.record)
		s.recovered(q)
		delete(s.dests, q.Destination)
	}
	s.all, s.sweepAt = kept, max(2*len(kept), mostDestinations)
}

// idle tells that nothing of the destination needs to be remembered but its record.
func (q *destination) idle() bool { return len(q.ready) == 0 && q.inflight == 0 && !q.listed }

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

// relist puts destinations back into the turn whose outage is over, or that are due for a probe.
func (s *sinkState) relist() {
	for _, q := range s.all {
		s.list(q)
	}
}

// breakerOf is what tells whether a destination fails.
func (s *sinkState) breakerOf(q *destination) *breaker {
	if s.to == nil {
		return &s.breaker
	}
	return &q.breaker
}

// fails tells whether the sink, or a destination of it, fails.
func (s *sinkState) fails() bool { return s.breaker.fails() || s.failing > 0 }

// recovered closes the breaker of one of several destinations.
func (s *sinkState) recovered(q *destination) bool {
	if s.to == nil || !q.breaker.close() {
		return false
	}
	s.failing--
	return true
}

// recoverAll closes the breakers of all destinations that match.
func (s *sinkState) recoverAll(match func(*breaker) bool) {
	for _, q := range s.all {
		if q.breaker.fails() && match(&q.breaker) {
			s.recovered(q)
		}
	}
	s.relist()
}

// forgetOutages closes the breakers of destinations that nothing in memory waits for, and nothing was sent to for long.
func (s *sinkState) forgetOutages(now time.Time) {
	if s.failing == 0 {
		return
	}
	for _, q := range s.all {
		if q.breaker.fails() && q.idle() && now.Sub(q.breaker.tried) > outageKept {
			s.recovered(q)
		}
	}
}

// untilProbe is when what is put back because its destination fails is due. A sink that fails as a whole is asked for nothing but probes.
func (s *sinkState) untilProbe(q *destination, now time.Time) time.Duration {
	if s.breaker.fails() {
		return 0
	}
	return max(q.breaker.next.Sub(now), 0)
}

// probeFirst moves the lane to the front of the queue that is to be probed next: one whose head never failed, else the one whose head was
// tried longest ago. It returns false if each of them has failed since the round began, after this call of the sink.
func (q *destination) probeFirst(now time.Time, round int64) bool {
	best, failed := -1, false
	for i, l := range q.ready {
		switch {
		case !l.sendable(now):
		case l.queue.at(0).failedAfter(round):
			failed = true
		case best < 0 || l.queue.at(0).triedBefore(q.ready[best].queue.at(0)):
			best = i
		}
	}
	if best > 0 {
		l := q.ready[best]
		q.ready = slices.Insert(slices.Delete(q.ready, best, best+1), 0, l)
	}
	return best >= 0 || !failed
}

// failedAfter tells whether d failed after this call of its sink.
func (d *delivery) failedAfter(call int64) bool {
	return d.tries > 0 && d.failed.Epoch == d.lane.sink.epoch && d.failed.Call > call
}

// triedBefore tells whether d failed longer ago than another delivery of its destination, or never did.
func (d *delivery) triedBefore(other *delivery) bool {
	switch {
	case other.tries == 0:
		return false
	case d.tries == 0:
		return true
	case d.failed.Epoch != other.failed.Epoch:
		return d.failed.Epoch != d.lane.sink.epoch // another term's is earlier
	}
	return d.failed.Call < other.failed.Call
}
