package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// settledAt reports whether the database needs the log no more for a message at one of its sinks: it was delivered, it
// is parked, or it is named gone, dead or dropped. Sink "" is for messages that go nowhere.
func (w *World) settledAt(m *message, name string) bool {
	f := m.fate(name)
	return f.delivered > 0 || f.gone || f.passed || w.parkedAt(m, name) != nil
}

// parkedAt finds a message's parked delivery at a sink, or the one at the sink "" that stands for all of them.
func (w *World) parkedAt(m *message, name string) *parked {
	for _, p := range m.parked {
		if p.Sink == name || p.Sink == "" {
			return p
		}
	}
	return nil
}

// names are the sinks that a message's deliveries belong to.
func (m *message) names() []string {
	if m.strays() {
		return []string{""}
	}
	var names []string
	for _, i := range m.to {
		names = append(names, sinkNames()[i])
	}
	return names
}

// checkSave looks at a checkpoint that is about to replace another.
func (w *World) checkSave(old, c *checkpoint.Checkpoint, withOutcomes bool) {
	s := &w.server
	switch {
	case !s.resumes[c.Resume]:
		w.fail("I2", "the checkpoint holds %q, which no driver made", c.Resume)
	case c.SourceID != s.sourceID():
		w.fail("R9", "the checkpoint is bound to %q, the server is %q", c.SourceID, s.sourceID())
	case old == nil:
		return
	case c.Log < old.Log:
		w.fail("positions", "the checkpoint's log went back from %d to %d", old.Log, c.Log)
	case c.Log == old.Log && place(c.Resume) < place(old.Resume) && !w.opts.CountDuplicates:
		w.fail("I2", "the checkpoint went back from %s to %s", old.Resume, c.Resume)
	case c.Log == old.Log && !old.SweepPending && c.SweepPending:
		w.fail("R8", "a sweep begins without a new log in positions")
	}
	if c.Log > old.Log { // what is beyond it, or still pending, is delivered anew
		for _, m := range w.messages {
			if m.pendingRow() || m.lsn > place(c.Resume) {
				for _, f := range m.fates() {
					f.durable = 0
				}
			}
		}
	}
	w.checkBare(old, c, withOutcomes)
}

// checkBare: bare progress alone is saved at most every 10 s (R6), or the relay feeds itself. A stop may save once more.
func (w *World) checkBare(old, c *checkpoint.Checkpoint, withOutcomes bool) {
	s := &w.server
	if withOutcomes || c.Log != old.Log || c.SweepPending != old.SweepPending || s.holder == nil || s.holder.inst.stopped ||
		!maps.EqualFunc(c.SettledAbove, old.SettledAbove, slices.Equal) {
		return
	}
	for _, m := range w.messages {
		if m.logged && m.lsn > place(old.Resume) && m.lsn <= place(c.Resume) {
			return
		}
	}
	if by := [2]int{s.holder.id, s.holder.inst.run}; w.bareBy != by { // a reload stops softly within a session
		w.bareBy, w.bare = by, nil
	}
	w.bare = append(w.bare, time.Now())
	// Some may have been late, or went along with outcomes that the database does not see.
	if n := len(w.bare); n > 5 && time.Since(w.bare[n-6]) < 10*time.Second {
		w.fail("R6", "bare progress was saved six times within 10 s")
	}
}

// checkCheckpoint is I2 for the durable checkpoint, and notes what it covers.
func (w *World) checkCheckpoint() {
	c := w.server.checkpoint
	if c.SweepPending {
		return
	}
	at := place(c.Resume)
	for _, m := range w.messages {
		if !m.logged || m.over {
			continue
		}
		if m.lsn > at {
			w.checkAbove(c, m)
			continue
		}
		for _, name := range m.names() {
			if !w.settledAt(m, name) && !m.reset {
				w.fail("I2", "the checkpoint %s covers %s, which %q has not got", c.Resume, m, name)
			}
			w.durable(m, name)
		}
		if m.pendingRow() && !m.acted && !m.reset && reconciled(m) {
			w.fail("I2", "the checkpoint %s covers %s, whose row is still pending", c.Resume, m)
		}
		m.over = w.script != nil && m.status == delivered
	}
}

// checkAbove looks at a message beyond the checkpoint that settled_above may name.
func (w *World) checkAbove(c *checkpoint.Checkpoint, m *message) {
	at := outbox.Position{Log: c.Log, Commit: m.lsn, N: m.n}
	whole := checkpoint.Covers(c.SettledAbove[checkpoint.Whole], at)
	if whole && m.pendingRow() && !m.acted && !m.reset && reconciled(m) {
		w.fail("I2", "settled_above names %s as a whole, whose row is still pending", m)
	}
	for _, name := range m.names() {
		if !whole && !checkpoint.Covers(c.SettledAbove[name], at) {
			continue
		}
		if !w.settledAt(m, name) && !m.reset {
			w.fail("I2", "settled_above names %s, which %q has not got", m, name)
		}
		w.durable(m, name)
	}
}

// durable notes that the database knows of a delivery. Of a row that only the table tells about, it knows when the row
// is dealt with, or while the delivery is parked.
func (w *World) durable(m *message, name string) {
	if f := m.fate(name); f.durable == 0 && (m.logged && !m.reset || !m.pendingRow()) {
		f.durable = max(1, w.step)
	}
}

// checkPark looks at a delivery that is about to be parked.
func (w *World) checkPark(p *parked) {
	if p.Sink != "" && !p.m.strays() && !slices.Contains(p.m.names(), p.Sink) {
		w.fail("routing", "%s is parked at %q", p.m, p.Sink)
	}
	w.durable(p.m, p.Sink)
	w.checkState(p)
}

// checkState looks at the state that a parked delivery gets.
func (w *World) checkState(p *parked) {
	scheduled := !p.m.available.IsZero()
	switch {
	case p.Message.Group == "" && p.Blocks:
		w.fail("R4", "%s has no group, and blocks", p.m)
	case p.Message.Group != "" && p.live() && !p.Blocks && !scheduled:
		w.fail("R4", "%s is %s at %q and does not block its lane", p.m, p.State, p.Sink)
	case p.State == checkpoint.StateRetrying && !p.Due:
		w.fail("R4", "%s is retrying at %q and has no time", p.m, p.Sink)
	}
	if p.State == checkpoint.StateDead {
		w.stats.Dead++
		w.checkDeath(p)
		if !p.Blocks {
			p.m.fate(p.Sink).passed = true
		}
	}
}

// checkChange looks at a change of a parked delivery.
func (w *World) checkChange(x *session, p *parked, ch *checkpoint.Change) {
	switch {
	case ch.Group != p.Message.Group && p.Blocks:
		w.fail("store", "a change of %s names the group %q", p.m, ch.Group)
	case ch.Delivered && (p.ackRun == 0 || p.ackInst != x.inst):
		w.fail("I1", "%s is settled as delivered at %q, which did not say so", p.m, p.Sink)
	case p.State == checkpoint.StateDropped:
		w.fail("R13", "%s was dropped at %q, and changed", p.m, p.Sink)
	}
}

// checkRow looks at a row whose message is said to be settled at all of its sinks.
func (w *World) checkRow(m *message, mayBeParked bool) {
	for _, name := range m.names() {
		f := m.fate(name)
		if m.reset && f.fresh == 0 && w.parkedAt(m, name) == nil && !f.passed || !w.settledAt(m, name) {
			w.fail("I1", "the row of %s is settled, and %q has not got it", m, name)
		}
	}
	if !mayBeParked && len(w.server.parkedAt(m)) > 0 && !w.opts.CountDuplicates {
		w.fail("I1", "the row of %s is settled as if nothing were parked of it", m)
	}
}

// checkDelivered looks at a row that is about to be deleted or marked as delivered.
func (w *World) checkDelivered(m *message) {
	for _, name := range m.names() {
		f := m.fate(name)
		if !f.passed && !f.gone && (f.delivered == 0 || m.reset && f.fresh == 0) {
			w.fail("I1", "the row of %s gets on_delivered, and %q has not got it", m, name)
		}
	}
}

// checkApply: verbs change lanes that have no run in flight (R13).
func (w *World) checkApply(x *session, lanes []checkpoint.Lane) {
	for _, c := range w.pending {
		if c.attempt == nil || c.inst != x.inst {
			continue
		}
		for i := range c.attempt.items {
			if l := c.attempt.lane(i); l.Group != "" && slices.Contains(lanes, l) {
				w.fail("R13", "a verb changes the lane %v while a run of it is in flight", l)
			}
		}
	}
}

// leftBehind notes what a new position leaves behind: rows that the application removed, and those that the operator
// gave up. They are gone, if nobody has got them.
func (w *World) leftBehind(x *snapshot) {
	for _, m := range x.rows {
		for _, f := range m.fates() {
			f.durable = 0 // it is delivered anew
		}
	}
	for _, m := range w.messages {
		if m.lsn > x.at || slices.Contains(x.rows, m) {
			continue
		}
		for _, name := range m.names() {
			if w.settledAt(m, name) {
				continue
			}
			if m.present && reconciled(m) {
				w.fail("I1", "a sweep leaves %s behind, whose row is %s though %q has not got it", m, m.status, name)
			}
			m.fate(name).gone = true
			w.logf("gone: %s at %q", m, name)
		}
	}
}
