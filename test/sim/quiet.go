package sim

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// Bounds of the quiet phase: far beyond what retries, probes, breakers and reconciling need.
const (
	quietTime  = 15 * time.Minute
	quietSteps = 20000
)

// settleDown is the quiet phase: nothing fails any more, an operator deals with what is dead, and all must end
// settled (I6); then the relay is stopped.
func (w *World) settleDown(subject Subject) {
	w.logf("quiet phase")
	w.quiet = true
	for _, t := range w.server.txns {
		t.visible = true
	}
	for i := range w.sinks {
		w.sinks[i].mode = sinkUp
	}
	begin, asked := time.Now(), time.Time{}
	for last := w.step + quietSteps; ; {
		w.step++
		synctest.Wait()
		w.intake()
		w.reap()
		if w.violation != nil {
			return
		}
		if ready := w.ready(); len(ready) > 0 {
			w.advance(ready[w.rng.IntN(len(ready))])
			if w.step < last {
				continue
			}
		}
		why := w.unsettled()
		switch {
		case why == "":
			w.stopAll()
			return
		case w.step >= last || time.Since(begin) > quietTime:
			w.fail("I6", "after %v and %d steps without faults: %s", time.Since(begin), w.step, why)
			return
		case len(w.running()) == 0:
			w.start(subject)
			continue
		case time.Since(asked) > 4*time.Second:
			asked = time.Now()
			w.operate()
		}
		time.Sleep(time.Duration(1+w.rng.IntN(1000)) * time.Millisecond)
	}
}

// operate is the operator of the quiet phase, who resumes, replays and drops until nothing waits for him.
func (w *World) operate() {
	s := &w.server
	for _, r := range s.requests {
		if !r.done {
			return
		}
	}
	for _, l := range s.held {
		s.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{l.Group}})
		return
	}
	if len(s.paused) > 0 {
		s.ask(checkpoint.VerbResume, checkpoint.Selection{Sinks: append([]string(nil), s.paused...)})
		return
	}
	for _, p := range s.parked {
		switch {
		case p.live() && p.m.fault == outbox.FaultTooLarge: // of a route that retries for ever
			s.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{p.Message.ID}, States: []checkpoint.State{p.State}})
			return
		case p.State != checkpoint.StateDead:
		case p.Sink == "" || p.InTable || p.m.fault != "":
			s.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{p.Message.ID}})
			return
		case p.Blocks && w.rng.IntN(4) == 0:
			s.ask(checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{p.Message.Group}})
			return
		case p.Blocks:
			s.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
			return
		}
	}
}

// unsettled says what keeps the schedule from its end, or nothing.
func (w *World) unsettled() string {
	s := &w.server
	var all []string
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, r := range s.requests {
		if !r.done {
			note("request %d %s is not done", r.ID, r.Verb)
		}
	}
	for _, p := range s.parked {
		if p.State == checkpoint.StateDropped && (len(s.of(p.m)) > 0 || p.m.table.onDelivered == outbox.Keep || !p.m.present) {
			continue // kept for the whole message, or no row tells when that is settled
		}
		if p.State != checkpoint.StateDead || p.Blocks || p.Sink == "" || p.m.fault != "" {
			note("%s is %s at %q, blocks %v", p.m, p.State, p.Sink, p.Blocks)
		}
	}
	last := uint64(0)
	for _, m := range w.messages {
		for _, name := range m.names() {
			if f := m.fate(name); !w.settledAt(m, name) {
				note("%s never reached %q", m, name)
			} else if m.reset && m.present && f.fresh == 0 && !f.passed && w.parkedAt(m, name) == nil {
				note("%s was asked for again and never reached %q", m, name)
			}
		}
		if m.logged {
			last = max(last, m.lsn)
		}
		if m.present && m.table.onDelivered != outbox.Keep && m.status != delivered && len(s.of(m)) == 0 {
			note("the row of %s is still there, %s", m, m.status)
		}
	}
	if s.holder == nil || s.holder.inst.dead {
		note("nobody holds the lock")
	}
	switch c := s.checkpoint; {
	case c == nil:
		note("there is no checkpoint")
	case c.SweepPending:
		note("the sweep has not ended")
	case place(c.Resume) < last:
		note("the checkpoint stays at %s", c.Resume)
	case s.slot == nil || s.slot.confirmed < last:
		note("the server was not told about the checkpoint %s", c.Resume)
	}
	if len(all) > 4 {
		all = append(all[:4], "…")
	}
	return strings.Join(all, "; ")
}

// stopAll ends the relays as SIGTERM does, and waits for them.
func (w *World) stopAll() {
	for _, inst := range w.running() {
		w.stop(inst)
	}
	begin := time.Now()
	for len(w.running()) > 0 && w.violation == nil {
		w.step++
		synctest.Wait()
		w.intake()
		w.reap()
		if ready := w.ready(); len(ready) > 0 {
			w.advance(ready[w.rng.IntN(len(ready))])
			continue
		}
		if time.Since(begin) > w.plan.ShutdownTimeout+10*time.Second {
			w.fail("stop", "a soft stop took longer than %v", time.Since(begin))
		}
		time.Sleep(100 * time.Millisecond)
	}
	if w.violation == nil && w.server.holder != nil {
		w.fail("stop", "the lock is still held after a soft stop")
	}
}
