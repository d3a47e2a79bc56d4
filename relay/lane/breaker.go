package lane

import (
	"time"

	"github.com/tailbox/tailbox/sink"
)

// A Breaker notices that a destination fails as a whole, and keeps it from being tried by every lane. It saves work and keeps
// order; no message dies because of it. It is pure: the time is an argument. The zero value is closed.
//
//	state    what may be sent
//	closed   everything
//	resting  nothing
//	probing  ProbesPerRound heads, each in a call of its own
//
// Calls in a row that deliver nothing open it. A delivery, an answer that is permanent, an operator, or nothing left to send closes it.
type Breaker struct {
	state    breakerState
	failures int       // calls in a row that delivered nothing
	began    time.Time // time of the first one
	first    any       // its lane or destination
	several  bool      // other lanes or destinations, too
	// delivered is when the destination last took a message.
	delivered time.Time
	Since     time.Time     // when it left closed
	Next      time.Time     // when the next round of probes begins
	wait      time.Duration // between the rounds after that
	left      int           // probes of this round that were not sent yet
	round     int64         // the sink's latest call when this round began
	tried     time.Time     // when a call last failed
	Class     sink.Class    // of that failure
	Why       string
}

// A breakerState says what may be sent to a destination.
type breakerState uint8

// The states of a breaker.
const (
	breakerClosed  breakerState = iota // everything
	breakerResting                     // nothing, until the next round of probes
	breakerProbing                     // the rest of a round of probes
	breakerStates
)

// String returns the name of the state.
func (s breakerState) String() string { return [...]string{"closed", "resting", "probing"}[s] }

// A breakerEvent changes the state of a breaker.
type breakerEvent uint8

const (
	breakerOpens  breakerEvent = iota // calls in a row have delivered nothing
	breakerProbes                     // a probe is sent, and further ones of its round follow
	breakerRests                      // the last probe of a round is sent
	breakerCloses
	breakerEvents
)

// breakerTransitions are all changes of state: by the event, and the state before. An event that a state does not allow keeps it: a closed
// breaker has no probes, and an open one does not open again.
//
//nolint:gochecknoglobals // a table that nobody changes
var breakerTransitions = [breakerEvents][breakerStates]breakerState{
	breakerOpens:  {breakerClosed: breakerResting, breakerResting: breakerResting, breakerProbing: breakerProbing},
	breakerProbes: {breakerClosed: breakerClosed, breakerResting: breakerProbing, breakerProbing: breakerProbing},
	breakerRests:  {breakerClosed: breakerClosed, breakerResting: breakerResting, breakerProbing: breakerResting},
	breakerCloses: {breakerClosed: breakerClosed, breakerResting: breakerClosed, breakerProbing: breakerClosed},
}

func (b *Breaker) on(ev breakerEvent) { b.state = breakerTransitions[ev][b.state] }

// The limits of a breaker.
const (
	breakerCalls = 5
	// So few are enough if they span breakerLong and the last class is unavailable or unreachable, because a single lane retries ever less often.
	breakerLongCalls = 3
	breakerLong      = 2 * time.Second

	breakerQuiet   = time.Second // without a delivery
	ProbesPerRound = 8
	ProbeMinWait   = time.Second
	// probeMaxWait bounds how late the relay notices that a destination works again.
	probeMaxWait = 15 * time.Second
	// actWait is the wait if only an operator can help.
	actWait = 30 * time.Second
)

// Fails reports whether the destination fails as a whole.
func (b *Breaker) Fails() bool { return b.state != breakerClosed }

// Failed counts a call that delivered nothing, and returns true if the breaker has just opened. from is the call's lane, or its destination if the
// sink has several. several: the call had more than one lane. others: another lane or destination may work. Then failures of one alone do not open
// the breaker, because that one may be the cause.
func (b *Breaker) Failed(now time.Time, from any, several, others bool, class sink.Class, why string) bool {
	b.tried, b.Class, b.Why = now, class, why
	if b.Fails() {
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
	b.on(breakerOpens)
	b.Since, b.wait, b.left = now, ProbeMinWait, 0
	b.schedule(now)
	return true
}

// enough reports whether so many calls in a row have failed that the destination is to blame.
func (b *Breaker) enough(now time.Time) bool {
	speaks := b.Class == sink.ClassUnavailable || b.Class == sink.ClassUnreachable
	return b.failures >= breakerCalls || speaks && b.failures >= breakerLongCalls && now.Sub(b.began) >= breakerLong
}

// schedule sets the time of the next round.
func (b *Breaker) schedule(now time.Time) {
	if b.Class == sink.ClassMisconfigured { // an operator has to act: it is not over in a second
		b.wait = actWait
	}
	b.Next = now.Add(b.wait)
	b.wait = min(2*b.wait, probeMaxWait)
}

// Close lets everything be sent again, and returns true if it was not before.
func (b *Breaker) Close() bool {
	was := b.Fails()
	b.on(breakerCloses)
	*b = Breaker{state: b.state, delivered: b.delivered}
	return was
}

// Allows reports whether deliveries may be sent, and whether only single heads, as probes.
func (b *Breaker) Allows(now time.Time) (ok, probe bool) {
	if !b.Fails() {
		return true, false
	}
	return b.RoundDue(now) || b.left > 0, true
}

// RoundDue reports whether a round of probes is to begin.
func (b *Breaker) RoundDue(now time.Time) bool { return b.Fails() && !now.Before(b.Next) }

// RoundOf returns the number of the sink's last call before the present round of probes. If a new round is due, it returns latest.
func (b *Breaker) RoundOf(now time.Time, latest int64) int64 {
	switch {
	case !b.Fails():
		return 0
	case b.RoundDue(now):
		return latest
	}
	return b.round
}

// Probed notes that a probe is sent, after the sink's latest call. A closed breaker has none.
func (b *Breaker) Probed(now time.Time, latest int64) {
	if !b.Fails() {
		return
	}
	if b.RoundDue(now) {
		b.left, b.round = ProbesPerRound, latest
		b.schedule(now)
	}
	b.left--
	if b.left > 0 {
		b.on(breakerProbes)
	} else {
		b.on(breakerRests)
	}
}
