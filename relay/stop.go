package relay

import (
	"context"
	"time"
)

// stopped tells whether a soft stop is over. When its time is up, calls in flight are cut off, and what they answer
// is settled if that can be done soon; the rest is delivered again by the next start.
func (e *engine) stopped(now time.Time, stopCalls context.CancelFunc) bool {
	if e.quiet() {
		return true
	}
	if now.Before(e.deadline) {
		return false
	}
	if e.cut {
		e.log.Warn("stopped before everything was settled", "in_flight", e.inflight)
		return true
	}
	e.log.Warn("shutdown_timeout is over: calls in flight are cut off", "in_flight", e.inflight)
	e.cut = true
	e.deadline = now.Add(cutGrace)
	stopCalls()
	return false
}

// leave waits for what the term has begun: the source, an operation of the store, and calls. A call that ignores its context is given up, or
// a sink that hangs would keep the relay from stopping, or another one from taking over.
func (e *engine) leave(running int) {
	defer close(e.over)
	grace := cutGrace
	if e.cut {
		grace = 0 // they had it
	}
	patience := time.After(grace)
	for running > 0 || e.inflight > 0 || e.busy {
		var given <-chan time.Time
		if running == 0 && !e.busy {
			given = patience
		}
		select {
		case <-given:
			e.log.Error("calls do not end though they were cut off: giving them up", "in_flight", e.inflight)
			return
		case <-e.ended:
			running--
		case <-e.answers:
			e.inflight--
		case <-e.stored:
			e.busy = false
		case a := <-e.asks:
			a.reply <- nil
		case <-e.received:
		case c := <-e.cautions:
			c.reply <- context.Canceled
		}
	}
}
