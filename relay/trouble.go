package relay

import (
	"time"

	"github.com/tailbox/tailbox/sink"
)

// A trouble is a destination that is not reached, maybe while others of its sink are: a partition without a leader, or with too
// few replicas in sync. Its messages are not at fault, and it has no breaker: they are tried now and then, free of attempts.
type trouble struct {
	since time.Time // of the calls that did not reach it, with no answer in between
	last  time.Time
}

// troubleKept is how long a trouble is remembered that nothing is sent to any more. What is parked for it comes back before.
const troubleKept = 5 * time.Minute

// unanswered notes a call that did not reach its destination. A sink with one destination has its breaker for that.
func (s *sinkState) unanswered(to sink.Destination, now time.Time) {
	if s.to == nil {
		return
	}
	t := s.troubles[to]
	if t == nil {
		t = &trouble{since: now}
		s.troubles[to] = t
	}
	t.last = now
}

// answered notes an answer of a destination. The number is the sink's, so that it is no lower where the destination was
// forgotten meanwhile.
func (s *sinkState) answered(q *destination) {
	s.successes++
	q.answered = s.successes
	delete(s.troubles, q.Destination)
}

// forgetTroubles drops those that nothing was sent to for long.
func (s *sinkState) forgetTroubles(now time.Time) {
	for to, t := range s.troubles {
		if now.Sub(t.last) > troubleKept {
			delete(s.troubles, to)
		}
	}
}

// poisonous counts an answer of "unreachable" to a lane's head, and tells whether the head itself is the cause: its
// destination has answered others meanwhile. What other destinations answer says nothing about it.
func (l *lane) poisonous(head *delivery) bool {
	s := l.sink
	head.unreached++
	if head.unreached == 1 {
		head.reachedBefore = s.successes
	}
	return head.unreached >= unreachedLimit && s.destinationOf(head.Destination).answered > head.reachedBefore && !s.breaker.open
}

// unreached waits for the next try of a head that did not reach its destination, free of attempts: in memory, or parked where
// the destination was not reached for as long as a sink may take nothing.
func (e *engine) unreached(l *lane, head *delivery, err error, now time.Time) {
	s := l.sink
	if s.breaker.open {
		if l.polling {
			e.putBack(l, s.breaker.wait+2*e.cfg.Tick) // the next probe is another lane's head
			return
		}
	} else if t := s.troubles[head.Destination]; t != nil && now.Sub(t.since) >= parkAfter {
		f := &failure{wait: min(now.Sub(t.since), probePause), class: sink.ClassUnreachable.String(), err: err.Error()}
		if l.polling {
			e.putBack(l, f.wait)
			return
		}
		e.parkHead(l, f, now)
		return
	}
	e.wait(l, freeRetry<<min(head.unreached, 3), now)
}
