package stream

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// A standbyGate holds a confirmation back until the standbys have its checkpoint. The server synchronises our slot as soon as a standby has the log
// up to the slot's position. The checkpoint's commit comes later in the log: if a standby were promoted in between, its slot would be ahead of its
// checkpoint.
type standbyGate struct {
	// passed: confirmations up to it may be sent to the server.
	passed atomic.Uint64

	mu          sync.Mutex
	held, until pgrepl.LSN // held may pass once the standbys have the log up to until
}

// look finds out what may pass: confirmed was durable before the server was asked, end was the end of its log then.
func (g *standbyGate) look(confirmed, end pgrepl.LSN, list []upstream.StandbySlot) (opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.passed.Load()
	if len(list) == 0 {
		g.passed.Store(math.MaxUint64)
		return before != math.MaxUint64
	}
	have := pgrepl.LSN(math.MaxUint64)
	for i := range list {
		have = min(have, list[i].At)
	}
	if before == math.MaxUint64 { // the setting is new
		before = uint64(confirmed)
	}
	for range 2 {
		if g.held != 0 && have >= g.until {
			before, g.held = max(before, uint64(g.held)), 0
		}
		if g.held == 0 && uint64(confirmed) > before {
			g.held, g.until = confirmed, end
		}
	}
	opened = before > g.passed.Load()
	g.passed.Store(before)
	return opened
}

const (
	// standbyEvery is how often the standbys are looked at, and lastEvery and lastLook how often and how long at the end of a stream.
	standbyEvery = time.Second
	lastEvery    = 50 * time.Millisecond
	lastLook     = time.Second
	// awayFor is how long standbys may be away before somebody is told: one that is started anew is away for a moment.
	awayFor = 5 * time.Second
)

// lastLooks waits a moment until the last confirmation may pass. Otherwise the slot stays behind the checkpoint, and the server keeps more log.
func (w *watch) lastLooks(ctx context.Context, status *statusWriter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	tick := time.NewTicker(lastEvery)
	defer tick.Stop()
	for pgrepl.LSN(w.gate.passed.Load()) < status.wanted() {
		if err := w.look(ctx); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell logs standbys that hold delivery up, once, and when they are back.
func (w *watch) tell(list []upstream.StandbySlot, now time.Time) {
	why := upstream.AwayWarning(list)
	switch {
	case why == "" && w.awayTold:
		w.cfg.Log().Info("the standbys that Postgres waits for are back", "away", now.Sub(w.awaySince).Round(time.Second).String())
	case why != "" && !w.awaySince.IsZero() && !w.awayTold && now.Sub(w.awaySince) >= awayFor:
		w.cfg.Log().Warn("Postgres sends no message: it waits for standbys that synchronized_standby_slots names", "slots", why, "fix", upstream.AwayFix)
		w.awayTold = true
	}
	switch {
	case why == "":
		w.awaySince, w.awayTold = time.Time{}, false
	case w.awaySince.IsZero():
		w.awaySince = now
	}
}
