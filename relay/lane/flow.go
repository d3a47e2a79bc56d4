package lane

import (
	"fmt"
	"time"
)

// A Condition is what people see of a sink: in the metrics, in the status and in the log.
type Condition uint8

// The conditions of a sink.
const (
	noCondition Condition = iota // nothing was reported yet
	SinkOpen
	SinkThrottled // it asked to slow down
	SinkFailing   // it, or a destination of it, delivers nothing
	SinkPaused    // by an operator
	conditions
)

// String returns the name that the metrics, the status and the log show.
func (c Condition) String() string {
	return [...]string{"", "open", "throttled", "failing", "paused"}[c]
}

// MayBecome reports whether next may follow c. Only open follows paused, because if an operator resumes a sink, everything else that kept it from
// accepting deliveries ends, too.
func (c Condition) MayBecome(next Condition) bool {
	switch c {
	case noCondition:
		return true
	case SinkPaused:
		return next == SinkOpen
	}
	return next != noCondition
}

// A Flow says where a sink's deliveries wait while they cannot be sent.
type Flow uint8

// The flows of a sink.
const (
	Flowing    Flow = iota // in memory: the sink takes deliveries
	Stalled                // in memory: the sink has taken none since a moment ago
	Spilling               // in the database: the sink has taken none for ParkAfter
	TooSlow                // in the database: other sinks starved, and this one has taken none since
	CatchingUp             // in the database: other sinks starved, but this one takes some
	flows
)

// String returns the name that an error shows.
func (f Flow) String() string {
	return [...]string{"flowing", "stalled", "spilling", "too slow", "catching up"}[f]
}

// A FlowEvent changes the flow of a sink.
type FlowEvent uint8

// The events that change a flow.
const (
	EvStall   FlowEvent = iota // the sink fails, rests, or was paused
	EvSpill                    // that has gone on for ParkAfter
	EvStarve                   // other sinks starve because of this one
	EvDeliver                  // it took a delivery
	EvFlow                     // nothing keeps it from taking deliveries any more, or nothing is queued for it
	flowEvents
)

// String returns the name that an error shows.
func (ev FlowEvent) String() string {
	return [...]string{"stall", "spill", "starve", "deliver", "flow"}[ev]
}

// noFlow says that an event is not allowed.
const noFlow = flows

// flowSteps are all changes of a sink's flow that there are.
//
//nolint:gochecknoglobals // a table that nobody changes
var flowSteps = [flowEvents][flows]Flow{
	//          flowing   stalled   spilling  tooSlow     catchingUp
	EvStall:   {Stalled, Stalled, Spilling, Spilling, Spilling},
	EvSpill:   {noFlow, Spilling, Spilling, noFlow, noFlow},
	EvStarve:  {TooSlow, Spilling, noFlow, noFlow, noFlow},
	EvDeliver: {Flowing, Stalled, Spilling, CatchingUp, CatchingUp},
	EvFlow:    {Flowing, Flowing, Flowing, Flowing, Flowing},
}

// On changes the sink's flow. An event that the flow does not allow is a bug, which ends the term.
func (s *Sink) On(ev FlowEvent) {
	to := flowSteps[ev][s.Flow]
	if to == noFlow {
		s.Broken(fmt.Errorf("%w: sink %q: event %q while it is %s", ErrBug, s.Name, ev, s.Flow))
		return
	}
	s.Flow = to
}

// Parks reports whether everything for the sink goes to the database.
func (s *Sink) Parks() bool { return s.Flow >= Spilling }

// IsDown reports whether the sink takes nothing.
func (s *Sink) IsDown() bool { return s.Flow == Stalled || s.Flow == Spilling }

// idleness tracks for how long a sink has had nothing to do while the source waited for memory.
type idleness struct {
	Idles bool          // since the last turn
	Spell time.Duration // since the last check
	Level time.Duration
}

// idleDecay is how many times faster the level falls than it rises: a sink starves if it is idle more than four fifths of the time. A sink that is
// only a little faster than another does not starve, because parking the other one's messages would cost more than it gains.
const idleDecay = 4

// Next returns the level of idleness after some time: at ParkAfter the sink starves. A moment with something to do does not end
// it: a sink that starves gets a batch now and then.
func (h idleness) Next(took time.Duration) time.Duration {
	return min(max(0, h.Level+h.Spell-idleDecay*(took-h.Spell)), ParkAfter)
}
