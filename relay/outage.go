package relay

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// An outage is the time in which a sink, or some of its destinations, fail. People hear of it by sink.
type outage struct {
	since     time.Time // zero: there is none
	logged    time.Time
	failure   time.Time // when the failure of a message was last logged
	permanent int       // permanent answers in a row, without a delivery
}

const (
	// outageLog is how often an outage is logged while it lasts, and the failure of a message of each sink.
	outageLog = time.Minute
	// outageNames of failing destinations stand in a log line.
	outageNames = 5
	// permanentAlarm permanent answers in a row without a delivery look like a fault of the destination.
	permanentAlarm = 5
)

// failedCall counts a call that delivered nothing because of an error of this class.
func (e *engine) failedCall(c *call, class sink.Class, err error, now time.Time) {
	s, l, several := c.sink, c.runs[0].lane, len(c.runs) > 1
	if s.to == nil {
		if s.breaker.failed(now, l, several, e.othersActive(s, l), class, err.Error()) {
			s.down = now
		}
		return
	}
	if others := len(c.to.ready) > 0 || c.to.inflight > 0; c.to.breaker.failed(now, l, several, others, class, err.Error()) {
		s.failing++
		e.log.Debug("destination fails", "sink", s.name, "destination", outbox.Shorten(c.to.Name), "partition", c.to.Partition,
			"class", class.String(), "error", outbox.Shorten(err.Error()))
	}
	// What keeps one of several destinations from being reached may concern all of them; any other answer is one of the sink.
	switch {
	case class != sink.ClassUnreachable:
		if s.reached() {
			e.opened(s, now)
		}
	case s.breaker.failed(now, c.to, false, s.othersWork(c.to, now), class, err.Error()):
		s.down = now
	}
}

// othersWork tells whether another destination has something to send, or took something lately.
func (s *sinkState) othersWork(q *destination, now time.Time) bool {
	return slices.ContainsFunc(s.all, func(other *destination) bool {
		return other != q && (!other.idle() || now.Sub(other.breaker.delivered) < outageLog)
	})
}

// endsOutage takes note that a call says that its destination, and so its sink, works. It tells whether one of them failed before.
func (s *sinkState) endsOutage(q *destination, delivered bool, now time.Time) bool {
	over := s.recovered(q)
	over = s.reached() || over
	q.breaker.close() // what has failed in a row is over, too
	if delivered {
		s.breaker.delivered, q.breaker.delivered = now, now
	}
	return over
}

// reached takes note that the sink is not out of reach as a whole, and tells whether it was before.
func (s *sinkState) reached() bool {
	if !s.breaker.close() {
		return false
	}
	s.recoverAll(func(b *breaker) bool { return b.class == sink.ClassUnreachable }) // they were so because of the sink
	return true
}

// logOutage logs that a sink begins to fail, still fails, or works again.
func (e *engine) logOutage(s *sinkState, now time.Time) {
	o := &s.outage
	switch fails := s.fails(); {
	case fails && o.since.IsZero():
		o.since, o.logged = now, now
		e.log.Warn("sink fails", e.outageOf(s)...)
	case fails && now.Sub(o.logged) >= outageLog:
		o.logged = now
		e.log.Warn("sink still fails", append(e.outageOf(s), "for", now.Sub(o.since).Round(time.Second).String())...)
	case !fails && !o.since.IsZero():
		e.log.Info("sink works again", "sink", s.name, "failed_for", now.Sub(o.since).Round(time.Millisecond).String())
		o.since = time.Time{}
	}
}

// outageOf describes a sink's outage for the log: the last answer, how much waits, and some of the destinations that fail.
func (e *engine) outageOf(s *sinkState) []any {
	b := s.failingBreaker()
	fields := []any{"sink", s.name, "class", b.class.String(), "error", outbox.Shorten(b.why), "queued", s.queued, "waiting_groups", s.waiting()}
	var names []string
	for _, q := range s.all {
		if name := outbox.Shorten(q.Name); q.breaker.fails() && !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == outageNames {
			break
		}
	}
	if len(names) > 0 {
		fields = append(fields, "destinations", s.failing, "some", names)
	}
	return fields
}

// failingBreaker is that of the sink if it fails, else that of its first destination that does.
func (s *sinkState) failingBreaker() *breaker {
	if i := slices.IndexFunc(s.all, func(q *destination) bool { return q.breaker.fails() }); !s.breaker.fails() && i >= 0 {
		return &s.all[i].breaker
	}
	return &s.breaker
}

// waiting is how many lanes of a sink have deliveries in the database or in memory.
func (s *sinkState) waiting() int {
	n := len(s.asleep.set)
	for _, l := range s.lanes {
		if l.blocked || l.queue.len()+l.arrivals.len() > 0 {
			n++
		}
	}
	return n
}

// logFailure logs the failure of a message, or of a call of several whose first it is, once a sink a minute: what fails next says the same, or
// shows in the metrics.
func (e *engine) logFailure(s *sinkState, d *delivery, messages int, class sink.Class, err error, now time.Time) {
	if !s.outage.failure.IsZero() && now.Sub(s.outage.failure) < outageLog {
		return
	}
	s.outage.failure = now
	e.log.Warn("delivery failed", "sink", s.name, "destination", outbox.Shorten(d.Destination.Name), "type", outbox.Shorten(d.Message.Type), "id", outbox.Shorten(d.Message.ID),
		"class", class.String(), "error", outbox.Shorten(err.Error()), "messages", messages, "tries", d.tries)
}

// logPermanent warns of a destination that refuses message after message for good.
func (e *engine) logPermanent(s *sinkState, err error) {
	if s.outage.permanent++; s.outage.permanent == permanentAlarm {
		e.log.Warn("sink refuses message after message for good: each becomes a dead letter", "sink", s.name,
			"in_a_row", permanentAlarm, "error", outbox.Shorten(err.Error()))
	}
}
