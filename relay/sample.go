package relay

import "time"

// sample tells observers how things stand.
func (e *engine) sample(now time.Time) {
	f := e.cfg.Events.Sampled
	if f == nil {
		return
	}
	s := Sample{
		Memory:      e.memory.Used.Load() + int64(e.polledBytes),
		MemoryLimit: e.cfg.Memory,
		Sinks:       make(map[string]SinkSample, len(e.sinks)),
	}
	if e.tracker.Len() > 0 || e.bareProgress() {
		s.CheckpointAge = now.Sub(e.savedAt)
	}
	ages := e.undelivered(now)
	for i, st := range e.sinks[1:] {
		x := SinkSample{State: st.Condition(now).String(), Why: st.Why, Queued: st.Queued, InFlight: st.Inflight, OldestUndelivered: ages[i+1]}
		x.Parked = len(st.Asleep.Set)
		for _, l := range st.Lanes {
			switch {
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
	answered := e.withOutcome()
	at := e.clock.at(now)
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
