package relay

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// Classes returns the names of the error classes that Events.Answered is called with.
func Classes() []string {
	var names []string
	for c := sink.ClassRejected; c <= sink.ClassNotAttempted; c++ {
		names = append(names, c.String())
	}
	return names
}

// Classes that the relay gives itself.
const (
	// classSuperseded: a newer message of the group went in the place of this one.
	classSuperseded = "superseded"
	// classUnroutable: no route matches, or the message cannot be shaped for the sink.
	classUnroutable = "unroutable"
)

// DeadClasses returns the names of the error classes that a dead letter at a sink can have: those of answers that cost an attempt, and those that the relay
// gives itself.
func DeadClasses() []string {
	free := []string{sink.ClassThrottled.String(), sink.ClassNotAttempted.String()}
	names := slices.DeleteFunc(Classes(), func(name string) bool { return slices.Contains(free, name) })
	return append(names, sink.ClassCrash.String(), classSuperseded, outbox.FaultUndecodable, classUnroutable, outbox.FaultTooLarge)
}

// Events tells an observer what the relay does: metrics are built from it, and tests wait for it instead of sleeping. Nil fields are skipped. The
// engine's goroutine calls them, so they must not block. If one call will do for a batch, none is made for each message.
type Events struct {
	// State: standby, locked out (a session that is no relay holds the lock), connecting (this relay holds it), sweeping, tailing, stuck (nothing
	// more can be read, or a row cannot be settled, until an operator acts), disconnected (another term follows), stopped; and why.
	State func(state, why string)
	// Received: a batch of the log with n messages arrived; lag is how far the reader is behind, in bytes and since commit.
	Received func(n int, lagBytes int64, lag time.Duration)
	// Delivered: n deliveries of a route were acknowledged; latency is commit to ack of the oldest of them.
	Delivered func(sink, route string, n int, latency time.Duration)
	// Answered: n deliveries were answered with an error of this class (one of Classes), or with none ("").
	Answered func(sink, class string, n int)
	// Called: a call with n deliveries took d.
	Called func(sink string, n int, d time.Duration)
	// Deliveries: a sink answered a call, and the engine has decided what follows. It runs in the way of every call, and must not keep what it is given.
	Deliveries func(Answers)
	// Parked: n deliveries became durable in a parked state. Dead: n of them ended as dead letters, with this class.
	Parked func(sink string, state checkpoint.State, n int)
	Dead   func(sink, route, class string, n int)
	// Replayed: n dead deliveries were asked for again. Skipped: n deliveries were not sent. why: settled (the log repeated them), gone (the
	// application removed the rows), tenant (they are another pipeline's).
	Replayed func(n int)
	Skipped  func(why string, n int)
	// Settled: a transaction with n outcomes took d. Saved: it held a checkpoint.
	Settled func(n int, d time.Duration, saved bool)
	// SinkState: open (deliveries flow), failing (it, or a destination of it, delivers nothing), paused (by an operator), throttled; why is
	// the last error.
	SinkState func(sink, state, why string)
	// Found: a comparison found n pending rows that the source did not bring (R11), and they are delivered.
	Found func(n int)
	// Cleaned: n delivered rows were removed, because their retention was over.
	Cleaned func(n int)
	// Bug: the engine was about to enter a state that it must never be in. It ends the term instead.
	Bug func(err error)
	// Gap: a log position was lost and is healed by a sweep, or accepted.
	Gap func(why string)
	// Memory in use and lanes by state, sampled.
	Sampled func(Sample)
}

// Answers are what a sink answered to one call.
type Answers struct {
	Sink       string
	Deliveries []*sink.Delivery
	// Errs has an error or nil for each delivery; a nil slice means that all are delivered.
	Errs []error
	// Dead are those of the deliveries that become dead letters now.
	Dead []*sink.Delivery
	// Started is when the call began, and Took how long it lasted.
	Started time.Time
	Took    time.Duration
}

// A Sample is the relay's state at one moment.
type Sample struct {
	Memory, MemoryLimit int64
	CheckpointAge       time.Duration
	Sinks               map[string]SinkSample
}

// A SinkSample is the state of one sink at one moment.
type SinkSample struct {
	State              string // open, failing, paused, throttled
	Why                string
	Open, Parked, Held int // lanes
	Queued             int // deliveries in memory
	InFlight           int
	// OldestUndelivered is the age of the oldest message in memory that the sink has not taken, by the database's clock; 0: there is none.
	OldestUndelivered time.Duration
}

// state logs and reports to observers that the engine reads. The log also shows from where.
func (e *engine) state(name string) {
	e.log.Info(name, "from", string(e.start.From), "log", e.start.Log) //nolint:sloglint // Each caller gives a constant.
	e.tellState(name, "")
}

// tellState tells observers what the relay does.
func (e *engine) tellState(name, why string) {
	if f := e.cfg.Events.State; f != nil {
		f(name, why)
	}
}

// sample tells observers how things stand.
func (e *engine) sample(now time.Time) {
	f := e.cfg.Events.Sampled
	if f == nil {
		return
	}
	s := Sample{
		Memory:      e.intake.memory.InUse() + e.poller.polledBytes,
		MemoryLimit: e.cfg.Memory,
		Sinks:       make(map[string]SinkSample, len(e.sinks)),
	}
	if e.settler.tracker.Len() > 0 || e.settler.bareProgress() {
		s.CheckpointAge = now.Sub(e.settler.savedAt)
	}
	ages := e.undelivered(now)
	everywhere := 0 // groups that are held at every sink
	for _, l := range e.sinks[0].Lanes {
		if l.IsHeld() {
			everywhere++
		}
	}
	for i, st := range e.sinks[1:] {
		x := SinkSample{State: st.Condition(now).String(), Why: st.Why, Queued: st.Queued, InFlight: st.Inflight, OldestUndelivered: ages[i+1], Held: everywhere}
		x.Parked = len(st.Asleep.Set)
		for _, l := range st.Lanes {
			switch {
			case e.heldEverywhere(l):
			case l.IsHeld():
				x.Held++
			case l.Blocked():
				x.Parked++
			case !l.Idle():
				x.Open++
			}
		}
		s.Sinks[st.Name] = x
	}
	f(s)
}

// undelivered returns, for each sink, the age of the oldest message in memory that it has not taken. The list is in reading order, so
// the first message with the sink's part open is the oldest. A message that is scheduled grows old from that time on.
func (e *engine) undelivered(now time.Time) []time.Duration {
	ages := make([]time.Duration, len(e.sinks))
	var seek uint64 // sinks whose first message is still to be found
	for _, s := range e.sinks[1:] {
		if s.Queued+s.Inflight > 0 {
			seek |= s.Bit
		}
	}
	if seek == 0 {
		return ages
	}
	answered := e.fairness.withOutcome()
	at := e.session.clock.at(now)
	for m := e.list.Next; m != &e.list && seek != 0; m = m.Next {
		found := m.Left &^ answered[m] & seek
		if found == 0 {
			continue
		}
		since := m.CommitTime
		if m.Scheduled() {
			since = m.AvailableAt
		}
		if since.IsZero() || since.After(at) {
			continue
		}
		for i, s := range e.sinks {
			if found&s.Bit != 0 {
				ages[i] = at.Sub(since)
			}
		}
		seek &^= found
	}
	return ages
}
