// Package alert decides which alerts a process sends about a pipeline, and when. A Watch looks at Facts again and again, and returns Messages: one when
// a condition begins, one each Repeat while it lasts, and one when it is over. The package has no clock, no goroutine and no I/O, so that scripts and
// random schedules can test it.
//
// Alerts live in memory. A relay that stops, or that loses the lock, says so for each alert that it has sent: the next relay sends again what still
// holds. A relay that is killed says nothing.
package alert

import "time"

// A Key names an alert: a condition, and the sink that it is about.
type Key struct {
	Condition Condition
	// Sink is "" for a condition of the whole pipeline, and for messages that no sink could be found for.
	Sink string
}

// A State is how an alert stands.
type State uint8

// The states of an alert.
const (
	quiet    State = iota // the condition does not hold
	pending               // it holds, but not for long enough
	firing                // it holds, and operators know
	clearing              // operators know, and it does not hold any more, but not for long enough
	states
)

func (s State) String() string {
	return [...]string{"quiet", "pending", "firing", "clearing"}[s]
}

// An event is what a look at the facts says of a condition.
type event uint8

const (
	seen  event = iota // it holds
	ripe               // it holds, and has held for long enough
	gone               // it does not hold
	over               // it does not hold, and has not held for long enough
	leave              // this process does not watch any more
	events
)

// next is the transition table.
//
//nolint:gochecknoglobals // a table that nobody changes
var next = [states][events]State{
	quiet:    {seen: pending, ripe: firing, gone: quiet, over: quiet, leave: quiet},
	pending:  {seen: pending, ripe: firing, gone: quiet, over: quiet, leave: quiet},
	firing:   {seen: firing, ripe: firing, gone: clearing, over: quiet, leave: quiet},
	clearing: {seen: firing, ripe: firing, gone: clearing, over: quiet, leave: quiet},
}

// A Kind says why a message is sent.
type Kind uint8

// The kinds of messages.
const (
	Fired    Kind = iota // the condition holds
	Repeated             // it still holds
	Over                 // it holds no more
	Left                 // this process stops watching, and it held until then
)

func (k Kind) String() string {
	return [...]string{"firing", "repeated", "over", "left"}[k]
}

// A Message is one to send.
type Message struct {
	Key
	Kind Kind
	// At is when the message was made, Since when the condition began, and Until when it ended; zero if it holds.
	At, Since, Until time.Time
	// Value was measured last, and Limit is the configuration's, both in the unit of the condition.
	Value, Limit int64
	// Detail says more of the value: causes, or groups.
	Detail string
}

// an alert is one condition of one sink.
type alert struct {
	state  State
	since  time.Time // when the condition began
	goneAt time.Time // when it was first not seen, while clearing
	due    time.Time // when it is to be repeated
	value  int64
	detail string
}

// A timing says how long a condition has to last.
type timing struct {
	// toFire is how long it has to hold, toClear how long it has to be gone.
	toFire, toClear time.Duration
	// repeat is after how long a message is repeated; 0: never.
	repeat time.Duration
	// notBefore is until when nothing fires.
	notBefore time.Time
}

// look takes over what was seen of the condition. send is whether a message has to be sent, and of which kind.
func (a *alert) look(now time.Time, holds bool, t *timing) (kind Kind, send bool) {
	was := a.state
	switch {
	case holds && was == quiet:
		a.since = now
	case !holds && was == firing:
		a.goneAt = now
	}
	return a.enter(now, a.judge(now, holds, t), t)
}

// judge says which event a look is.
func (a *alert) judge(now time.Time, holds bool, t *timing) event {
	switch {
	case holds && now.Sub(a.since) >= t.toFire && !now.Before(t.notBefore):
		return ripe
	case holds:
		return seen
	case now.Sub(a.goneAt) >= t.toClear:
		return over
	}
	return gone
}

// enter changes the state, and says what has to be sent because of it.
func (a *alert) enter(now time.Time, e event, t *timing) (kind Kind, send bool) {
	was := a.state
	a.state = next[was][e]
	known := was == firing || was == clearing // operators have a message
	switch {
	case a.state == firing && !known:
		a.due = now.Add(t.repeat)
		return Fired, true
	case a.state == firing && t.repeat > 0 && !now.Before(a.due):
		// The cadence stays, unless a whole turn was missed.
		if a.due = a.due.Add(t.repeat); !now.Before(a.due) {
			a.due = now.Add(t.repeat)
		}
		return Repeated, true
	case a.state == quiet && known && e == leave:
		return Left, true
	case a.state == quiet && known:
		return Over, true
	}
	return 0, false
}
