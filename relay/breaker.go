package relay

import (
	"time"

	"github.com/tailbox/tailbox/sink"
)

// A breaker notices that a destination fails as a whole, and keeps it from being tried by every lane. It saves work and keeps
// order; no message dies because of it. It is pure: the time is an argument. The zero value is closed.
//
//	state    what may be sent                      leaves it
//	closed   everything                            to resting: calls in a row delivered nothing
//	resting  nothing                               to probing: the time of the next round has come
//	probing  probesPerRound heads, each in a call  to resting: all of them were sent
//	                                               of its own
//
// A delivery, an answer that is permanent, an operator, or nothing left to send closes it.
type breaker struct {
	state    breakerState
	failures int       // calls in a row that delivered nothing
	began    time.Time // when the first of them did
	first    any       // whose it was: the lane, or the destination
	several  bool      // there were others
	// delivered is when the destination last took a message.
	delivered time.Time
	since     time.Time     // when it left closed
	next      time.Time     // when the next round of probes begins
	wait      time.Duration // between the rounds after that
	left      int           // probes of this round that were not sent yet
	round     int64         // the sink's latest call when this round began
	tried     time.Time     // when a call last failed
	class     sink.Class    // of that failure
	why       string
}

type breakerState uint8

const (
	breakerClosed breakerState = iota
	breakerResting
	breakerProbing
)

const (
	breakerCalls = 5
	// Fewer calls open it if they took longer and their answers speak of the destination: a single lane tries ever more seldom.
	breakerLongCalls = 3
	breakerLong      = 2 * time.Second

	breakerQuiet   = time.Second // without a delivery
	probesPerRound = 8
	probeMinWait   = time.Second
	probeMaxWait   = 30 * time.Second
)

// fails tells whether the destination fails as a whole.
func (b *breaker) fails() bool { return b.state != breakerClosed }

// failed counts a call that delivered nothing. From is the lane that it was of; or, if the breaker is that of a sink with several
// destinations, the destination. Several tells that the call was of more than one, others that another one is not known to fail: then
// the failures of one alone do not open the breaker, for it may be the cause. It returns true if the breaker has just opened.
func (b *breaker) failed(now time.Time, from any, several, others bool, class sink.Class, why string) bool {
	b.tried, b.class, b.why = now, class, why
	if b.fails() {
		return false
	}
	if b.failures == 0 {
		b.began, b.first, b.several = now, from, false
	}
	b.several = b.several || several || b.first != from
	b.failures++
	if !b.enough(now) || others && !b.several || now.Sub(b.delivered) < breakerQuiet {
		return false
	}
	b.state, b.since, b.wait, b.left = breakerResting, now, probeMinWait, 0
	b.schedule(now)
	return true
}

// enough tells whether so many calls in a row have failed that the destination may.
func (b *breaker) enough(now time.Time) bool {
	speaks := b.class == sink.ClassUnavailable || b.class == sink.ClassUnreachable
	return b.failures >= breakerCalls || speaks && b.failures >= breakerLongCalls && now.Sub(b.began) >= breakerLong
}

// schedule sets the time of the next round.
func (b *breaker) schedule(now time.Time) {
	if b.class == sink.ClassMisconfigured { // an operator has to act: it is not over in a second
		b.wait = probeMaxWait
	}
	b.next = now.Add(b.wait)
	b.wait = min(2*b.wait, probeMaxWait)
}

// close lets everything be sent again, and returns true if it was not before.
func (b *breaker) close() bool {
	was := b.fails()
	*b = breaker{delivered: b.delivered}
	return was
}

// allows tells whether deliveries may be sent, and whether only single heads, as probes.
func (b *breaker) allows(now time.Time) (ok, probe bool) {
	if !b.fails() {
		return true, false
	}
	return b.roundDue(now) || b.left > 0, true
}

// roundDue tells whether a round of probes is to begin.
func (b *breaker) roundDue(now time.Time) bool { return b.fails() && !now.Before(b.next) }

// roundOf is the number of the sink's latest call when the round began, of which a probe would be now. A round that is due begins now.
func (b *breaker) roundOf(now time.Time, latest int64) int64 {
	switch {
	case !b.fails():
		return 0
	case b.roundDue(now):
		return latest
	}
	return b.round
}

// probed notes that a probe is sent, after the sink's latest call. A closed breaker has none.
func (b *breaker) probed(now time.Time, latest int64) {
	if !b.fails() {
		return
	}
	if b.roundDue(now) {
		b.left, b.round = probesPerRound, latest
		b.schedule(now)
	}
	b.left--
	b.state = breakerResting
	if b.left > 0 {
		b.state = breakerProbing
	}
}
