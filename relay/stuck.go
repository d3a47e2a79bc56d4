package relay

import "time"

// getStuck takes note that nothing more can be read, or that a row cannot be settled, until an operator acts. What was read is settled before the
// relay ends, as far as sinks let it. The poller rests meanwhile.
func (e *engine) getStuck(why error) {
	e.log.Error("an operator has to act: settling what was read", "error", why)
	e.stuck = why
	e.tellState("stuck", why.Error())
	e.progressed(time.Now())
	for _, s := range e.sinks {
		for _, l := range s.lanes {
			e.review(l) // what was held in memory until the poller has caught up is parked
		}
	}
}

// drained tells whether everything that was read is settled.
func (e *engine) drained() bool {
	return e.list.next == &e.list && len(e.received) == 0 && e.inflight == 0 && e.storeIdle() && !e.bareProgress()
}

// progressed renews the patience with which the end waits for what was read to be settled.
func (e *engine) progressed(now time.Time) { e.patience = now.Add(e.cfg.ShutdownTimeout) }

// losePatience begins to stop where what was read cannot be settled: a sink hangs. The next start reads it again.
func (e *engine) losePatience(now time.Time) {
	if e.stuck == nil || e.stopping || now.Before(e.patience) {
		return
	}
	e.log.Warn("what was read is not settled, and no sink answers: stopping", "in_flight", e.inflight)
	e.stopping, e.deadline = true, now
}
