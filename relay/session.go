package relay

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// A session is the one session with the store that holds the lock (R12). It does one operation at a time, each in a goroutine of its own; all
// else in it belongs to the engine's goroutine.
type session struct {
	e     *engine
	store checkpoint.Store
	// opCtx is the context of the store's operations. It ends with the term.
	opCtx context.Context //nolint:containedctx // It lives as long as the session.

	busy     bool        // an operation is under way
	stored   chan func() // updates of the engine by finished operations, which the engine's goroutine calls
	answered time.Time   // when the store's last answer was asked for
	pinged   time.Time   // for the clock's sake
	clock    dbClock
}

// operate runs one operation of the store in a goroutine of its own; what it returns is called by the engine's goroutine
// when the operation has succeeded. An error ends the term: the session is not to be trusted any more.
func (ss *session) operate(op func(context.Context) (func(), error)) {
	ss.busy = true
	go func() {
		at := time.Now() // before op: if the process is frozen during op, the answer must not look recent
		then, err := op(ss.opCtx)
		ss.stored <- func() {
			if err != nil {
				ss.e.failed = err
				return
			}
			ss.answered = at
			then()
		}
	}()
}

// trusted reports whether the session answered lately enough for a delivery to start (R12).
func (ss *session) trusted(now time.Time) bool { return elapsed(ss.answered, now) < sessionTrust }

// elapsed returns an upper bound on the time since then. The monotonic clock may stand still while a virtual machine is suspended, and the wall clock
// may be set back, so the larger difference counts. If the wall clock was set forward, the only cost is one ping.
func elapsed(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
