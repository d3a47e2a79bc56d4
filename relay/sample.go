package relay

import "time"

// sample tells observers how things stand.
func (e *engine) sample(now time.Time) {
	f := e.cfg.Events.Sampled
	if f == nil {
		return
	}
	s := Sample{
		Memory:      e.memory.used.Load() + int64(e.polledBytes),
		MemoryLimit: e.cfg.Memory,
		Sinks:       make(map[string]SinkSample, len(e.sinks)),
	}
	if e.tracker.Len() > 0 || e.bareProgress() {
		s.CheckpointAge = now.Sub(e.savedAt)
	}
	ages := e.undelivered(now)
	for i, st := range e.sinks[1:] {
		x := SinkSample{State: st.state(now), Why: st.why, Queued: st.queued, InFlight: st.inflight, OldestUndelivered: ages[i+1]}
		x.Parked = len(st.asleep.set)
		for _, l := range st.lanes {
			switch {
			case l.held:
				x.Held++
			case l.blocked:
				x.Parked++
			case !l.idle():
				x.Open++
			}
		}
		s.Sinks[st.name] = x
	}
	f(s)
}

// undelivered returns, for each sink, the age of the oldest message in memory that it has not taken. The list is in reading order, so
// the first message with the sink's part open is the oldest. A message that is scheduled grows old from that time on.
func (e *engine) undelivered(now time.Time) []time.Duration {
	ages := make([]time.Duration, len(e.sinks))
	var seek uint64 // sinks whose first message is still to be found
	for _, s := range e.sinks[1:] {
		if s.queued+s.inflight > 0 {
			seek |= s.bit
		}
	}
	if seek == 0 {
		return ages
	}
	answered := e.withOutcome()
	at := e.clock.at(now)
	for m := e.list.next; m != &e.list && seek != 0; m = m.next {
		found := m.left &^ answered[m] & seek
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
			if found&s.bit != 0 {
				ages[i] = at.Sub(since)
			}
		}
		seek &^= found
	}
	return ages
}
