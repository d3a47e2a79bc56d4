package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A phase says what a term reads.
type phase uint8

const (
	phaseTailing  phase = iota
	phaseSweeping       // rows that were pending when the position was established: the log is read after these
)

// A stage says how a term goes on.
type stage uint8

const (
	running  stage = iota
	draining       // an operator has to act, see cause: what was read is settled, and nothing more is read
	stopping       // nothing is sent any more: what is in flight ends, and is settled
	cutOff         // the calls in flight were cut off
	stages
)

func (s stage) String() string {
	return [...]string{"running", "draining", "stopping", "cut off"}[s]
}

// stageSteps says which stages may follow each stage.
//
//nolint:gochecknoglobals // a table that nobody changes
var stageSteps = [stages][stages]bool{
	running:  {draining: true, stopping: true},
	draining: {stopping: true},
	stopping: {cutOff: true},
}

// enter begins a stage. One that may not follow is a bug, which ends the term.
func (e *engine) enter(next stage) {
	if !stageSteps[e.stage][next] {
		e.broken(fmt.Errorf("%w: the term was %s, and is %s", lane.ErrBug, e.stage, next))
		return
	}
	e.stage = next
}

// stops reports whether nothing is sent any more.
func (e *engine) stops() bool { return e.stage >= stopping }

// drain ends the reading: nothing more can be read, or a row cannot be settled, until an operator acts. What was read is settled before the
// relay ends, as far as the sinks take it. The poller rests meanwhile.
func (e *engine) drain(why error) {
	e.log.Error("an operator has to act: settling what was read", "error", why)
	if e.stage == running {
		e.enter(draining)
	}
	e.cause = why
	e.tellState("stuck", why.Error())
	e.progressed(time.Now())
	for _, s := range e.sinks {
		for _, l := range s.Lanes {
			e.touch(l) // the parker now parks backlogs that waited in memory for the poller
		}
	}
}

// drained reports whether everything that was read is settled.
func (e *engine) drained() bool {
	return e.list.Next == &e.list && len(e.intake.received) == 0 && e.dispatcher.inflight == 0 && e.storeIdle() && !e.settler.bareProgress()
}

// progressed restarts the time limit within which a draining term has to make progress.
func (e *engine) progressed(now time.Time) { e.patience = now.Add(e.cfg.ShutdownTimeout) }

// losePatience stops a draining term that made no progress for ShutdownTimeout, for example because a sink hangs. The next start reads the rest
// again.
func (e *engine) losePatience(now time.Time) {
	if e.stage != draining || now.Before(e.patience) {
		return
	}
	e.log.Warn("what was read is not settled, and no sink answers: stopping", "in_flight", e.dispatcher.inflight)
	e.enter(stopping)
	e.deadline = now
}

// stopSoftly begins a soft stop.
func (e *engine) stopSoftly(why string, now time.Time) {
	e.enter(stopping)
	e.deadline = now.Add(e.cfg.ShutdownTimeout)
	e.log.Info(why, "in_flight", e.dispatcher.inflight, "at_most", e.cfg.ShutdownTimeout.String()) //nolint:sloglint // It is one of two texts.
}

// stopped reports whether a soft stop is over. When its time is up, calls in flight are cut off, and what they answer
// is settled if that can be done soon; the rest is delivered again by the next start.
func (e *engine) stopped(now time.Time, stopCalls context.CancelFunc) bool {
	if e.quiet() {
		return true
	}
	if now.Before(e.deadline) {
		return false
	}
	if e.stage == cutOff {
		e.log.Warn("stopped before everything was settled", "in_flight", e.dispatcher.inflight)
		return true
	}
	e.log.Warn("shutdown_timeout is over: calls in flight are cut off", "in_flight", e.dispatcher.inflight)
	e.enter(cutOff)
	e.deadline = now.Add(cutGrace)
	stopCalls()
	return false
}

// leave waits for what the term has begun: the source, an operation of the store, and calls. A call that ignores its context is given up, or
// a sink that hangs would keep the relay from stopping, or another one from taking over.
func (e *engine) leave(running int) {
	defer close(e.dispatcher.over)
	grace := cutGrace
	if e.stage == cutOff {
		grace = 0 // used up
	}
	patience := time.After(grace)
	for running > 0 || e.dispatcher.inflight > 0 || e.session.busy {
		var given <-chan time.Time
		if running == 0 && !e.session.busy {
			given = patience
		}
		select {
		case <-given:
			e.log.Error("calls do not end though they were cut off: giving them up", "in_flight", e.dispatcher.inflight)
			return
		case <-e.ended:
			running--
		case <-e.dispatcher.answers:
			e.dispatcher.inflight--
		case <-e.session.stored:
			e.session.busy = false
		case a := <-e.settler.asks:
			a.reply <- nil
		case <-e.intake.received:
		case c := <-e.intake.cautions:
			c.reply <- context.Canceled
		}
	}
}

// A Change is the part of a Config that a Relay can exchange while it runs.
type Change struct {
	Sinks  map[string]sink.Sink
	Router *router.Router
	// Hide, Memory and ShutdownTimeout are those of Config.
	Hide            func(text string) string
	Memory          int64
	ShutdownTimeout time.Duration
	// Release, if not nil, is called when the sinks from before are not used any more, and those of the change are not yet: it closes the former.
	Release func(context.Context)
}

// A reload is a change on its way to the relay.
type reload struct {
	Change
	done chan error // nil: the change is in force
}

var (
	// errReload ends a term without a fault: the next one begins in the same session, with what is in Relay.taken.
	errReload = errors.New("reload")
	// ErrStopped means that the relay stopped before a change was in force.
	ErrStopped = errors.New("the relay has stopped")
)

// Reload exchanges a part of the configuration of a relay that runs. It is a soft stop and a start (R9), but the session that holds the lock is kept, so
// that no other relay can come between the two: what is in flight ends and is settled, within ShutdownTimeout, and the log is read again from the
// checkpoint. Nothing else of the state in memory has to fit the new configuration. An error means that all is as before; ctx bounds only
// how long the relay may take to begin. Refused is a change without a sink that has parked deliveries (R9).
func (r *Relay) Reload(ctx context.Context, c Change) error {
	if err := CountSinks(len(c.Sinks)); err != nil {
		return err
	}
	q := &reload{c, make(chan error, 1)}
	select {
	case r.reloads <- q:
	case <-r.over:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-q.done:
		return err
	case <-r.over:
	}
	select {
	case err := <-q.done: // both at once
		return err
	default:
		return ErrStopped
	}
}

// adopt puts the change that was taken into force. loaded is what the database says, under the lock; nil: this is a standby, which looks when it
// takes over.
func (r *Relay) adopt(ctx context.Context, loaded *checkpoint.Loaded) {
	q := r.taken
	if q == nil {
		return
	}
	r.taken = nil
	if loaded != nil {
		if what, fix := ParkedElsewhere(loaded.ParkedSinks, func(sink string) bool { _, ok := q.Sinks[sink]; return ok }); what != "" {
			q.done <- fmt.Errorf("%s: %s", what, fix)
			return
		}
	}
	if q.Release != nil {
		q.Release(ctx)
	}
	r.cfg.Sinks, r.cfg.Router, r.cfg.Hide, r.cfg.Memory, r.cfg.ShutdownTimeout = q.Sinks, q.Router, q.Hide, q.Memory, q.ShutdownTimeout
	r.cfg = r.cfg.withDefaults()
	q.done <- nil
}

// reloadable is where reloads come from while this term can take one.
func (e *engine) reloadable() <-chan *reload {
	if e.stage != running {
		return nil
	}
	return e.reloads
}

// A sweep delivers the rows that were pending when the position was established, before the log is read (R8).
type sweep struct {
	rows source.Snapshot // nil: there is none, or it is over
	done bool            // all rows have been emitted
	open int             // of those, how many are not settled yet
	// awaited is when a settlement first found its rows blocked by a statement that itself waits for the sweep; zero: there is none.
	awaited time.Time
	// hidden is when a settlement first found rows of the sweep locked, without one in between that found none; zero: none is. toldHidden: the log
	// says so.
	hidden     time.Time
	toldHidden bool
}

// hiddenPatience is how long rows may be locked before the log says that the sweep waits for them.
const hiddenPatience = 10 * time.Second

// waits takes note of how many rows of the sweep a settlement found locked. It reports once whether that lasts.
func (s *sweep) waits(hidden int, now time.Time) bool {
	switch {
	case hidden == 0:
		s.hidden, s.toldHidden = time.Time{}, false
	case s.hidden.IsZero():
		s.hidden = now
	case !s.toldHidden && now.Sub(s.hidden) >= hiddenPatience:
		s.toldHidden = true
		return true
	}
	return false
}

// ddlPatience is how long a statement may wait to lock a table before the sweep that it waits for is ended. A statement that gives up sooner costs
// nothing.
const ddlPatience = 5 * time.Second

// errYieldToDDL ends a term, and with it the sweep's transaction, so that the statement that waits can run. The next term sweeps again what is still
// pending.
var errYieldToDDL = errors.New("a statement such as ALTER TABLE waits to lock a table that tailbox sweeps, and they block each other: " +
	"tailbox ends the sweep, lets the statement run, and sweeps again what is still pending")

// yieldToDDL ends a sweep that is deadlocked with DDL: the DDL waits for the sweep's transaction, and the settlement of the sweep's rows waits for
// the DDL. Applications would queue behind both. A settlement without rows says nothing about the DDL, so it does not change awaited.
func (e *engine) yieldToDDL(s *settlement, done *checkpoint.Settled, now time.Time) {
	switch {
	case e.phase == phaseSweeping && len(s.rows) == 0:
	case e.phase != phaseSweeping || !done.Awaited:
		e.sweep.awaited = time.Time{}
	case e.sweep.awaited.IsZero():
		e.sweep.awaited = now
	case now.Sub(e.sweep.awaited) >= ddlPatience:
		e.failed = errYieldToDDL
	}
}
