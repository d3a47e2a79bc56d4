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
	for _, st := range e.sinks[1:] {
		x := SinkSample{State: st.state(now), Why: st.why, Queued: st.queued, InFlight: st.inflight}
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
