package relay

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/sink"
)

const (
	// outageNames is how many failing destinations one log line names.
	outageNames = 5
	// permanentAlarm permanent answers in a row without a delivery look like a fault of the destination.
	permanentAlarm = 5
)

// failedCall counts a call that delivered nothing because of an error of this class.
func (dp *dispatcher) failedCall(c *call, class sink.Class, err error, now time.Time) {
	s, l, several := c.sink, c.runs[0].lane, len(c.runs) > 1
	if s.To == nil {
		if s.Breaker.Failed(now, l, several, dp.othersActive(s, l), class, err.Error()) {
			s.Stall(now)
		}
		return
	}
	others := len(c.to.Ready) > 0 || c.to.Inflight > 0
	if c.to.Blamed(class) && c.to.Breaker.Failed(now, l, several, others, class, err.Error()) {
		s.Failing++
		dp.e.log.Debug("destination fails", "sink", s.Name, "destination", outbox.Shorten(c.to.Name), "partition", c.to.Partition,
			"class", class.String(), "error", outbox.Shorten(err.Error()))
	}
	// If one destination cannot be reached, maybe none can. Any other answer shows that the sink was reached.
	switch {
	case class != sink.ClassUnreachable:
		if s.Reached() {
			dp.opened(s, now)
		}
	case s.Breaker.Failed(now, c.to, false, s.OthersActive(c.to, now), class, err.Error()):
		s.Stall(now)
	}
}

// logOutage logs that a sink begins to fail, still fails, or works again.
func (dp *dispatcher) logOutage(s *lane.Sink, now time.Time) {
	o := &s.Outage
	switch fails := s.Fails(); {
	case fails && o.Since.IsZero():
		o.Since, o.Logged = now, now
		dp.e.log.Warn("sink fails", dp.outageOf(s)...)
	case fails && now.Sub(o.Logged) >= lane.OutageLog:
		o.Logged = now
		dp.e.log.Warn("sink still fails", append(dp.outageOf(s), "for", now.Sub(o.Since).Round(time.Second).String())...)
	case !fails && !o.Since.IsZero():
		dp.e.log.Info("sink works again", "sink", s.Name, "failed_for", now.Sub(o.Since).Round(time.Millisecond).String())
		o.Since = time.Time{}
	}
}

// outageOf describes a sink's outage for the log: the last answer, how much waits, and some of the destinations that fail.
func (dp *dispatcher) outageOf(s *lane.Sink) []any {
	b := s.FailingBreaker()
	fields := []any{"sink", s.Name, "class", b.Class.String(), "error", outbox.Shorten(b.Why), "queued", s.Queued, "waiting_groups", s.Waiting()}
	var names []string
	for _, q := range s.All {
		if name := outbox.Shorten(q.Name); q.Breaker.Fails() && !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == outageNames {
			break
		}
	}
	if len(names) > 0 {
		fields = append(fields, "destinations", s.Failing, "some", names)
	}
	return fields
}

// logFailure logs a failed message, or a failed call of several messages with d as the first. It logs at most one per sink and minute: later failures
// repeat the first, or show in the metrics.
func (dp *dispatcher) logFailure(s *lane.Sink, d *lane.Delivery, messages int, class sink.Class, err error, now time.Time) {
	if !s.Outage.Failure.IsZero() && now.Sub(s.Outage.Failure) < lane.OutageLog {
		return
	}
	s.Outage.Failure = now
	dp.e.log.Warn("delivery failed", "sink", s.Name, "destination", outbox.Shorten(d.Destination.Name), "type", outbox.Shorten(d.Message.Type), "id", outbox.Shorten(d.Message.ID),
		"class", class.String(), "error", outbox.Shorten(err.Error()), "messages", messages, "tries", d.Tries)
}

// logPermanent warns of a destination that refuses message after message for good.
func (dp *dispatcher) logPermanent(s *lane.Sink, err error) {
	if s.Outage.Permanent++; s.Outage.Permanent == permanentAlarm {
		dp.e.log.Warn("sink refuses message after message for good", "sink", s.Name,
			"in_a_row", permanentAlarm, "error", outbox.Shorten(err.Error()))
	}
}
