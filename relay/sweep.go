package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// sweepWay is how long a sweep stands in the way of who wants to lock its table: somebody who gives up soon costs nothing, then.
const sweepWay = 5 * time.Second

// errSweepInTheWay ends a term: the next one sweeps again what is still pending, after whoever waits.
var errSweepInTheWay = errors.New("somebody waits to lock a table that is being swept, such as ALTER TABLE does, and the sweep's rows cannot be settled before: " +
	"the sweep makes way, and begins again")

// makeWay ends a sweep whose transaction is waited for by somebody for whom its own rows wait: neither would come to an end, and the
// applications would wait behind them. A settlement without rows, as there are between two tries of theirs, tells nothing of it.
func (e *engine) makeWay(s *settlement, done *checkpoint.Settled, now time.Time) {
	switch {
	case e.phase == phaseSweeping && len(s.rows) == 0:
	case e.phase != phaseSweeping || !done.Awaited:
		e.awaited = time.Time{}
	case e.awaited.IsZero():
		e.awaited = now
	case now.Sub(e.awaited) >= sweepWay:
		e.failed = errSweepInTheWay
	}
}
