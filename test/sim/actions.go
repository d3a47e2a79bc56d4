package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// faulty draws whether something fails now; nothing does in the quiet phase.
func (w *World) faulty(percent int) bool {
	return !w.quiet && percent > 0 && w.rng.IntN(100) < percent
}

// act lets something happen in the world.
func (w *World) act(subject Subject) {
	if len(w.running()) == 0 {
		if w.rng.IntN(3) == 0 {
			w.start(subject)
			return
		}
	}
	if w.rng.IntN(100) < 45 && len(w.messages) < w.plan.messages {
		w.write()
		return
	}
	if w.plan.reloads > 0 && w.rng.IntN(8) == 0 && len(w.running()) > 0 {
		w.reload()
		return
	}
	actions := []func(){w.appear, w.appear, w.toggleSink, w.toggleSink, w.verb, w.verb, w.sql, w.disturb}
	actions[w.rng.IntN(len(actions))]()
	if w.plan.standbys > 0 && len(w.running()) == 1 && w.rng.IntN(20) == 0 {
		w.plan.standbys--
		w.start(subject)
	}
}

// spend uses up one of a limited number.
func (w *World) spend(n *int) bool {
	if *n <= 0 {
		return false
	}
	*n--
	return true
}

// disturb breaks something.
func (w *World) disturb() {
	p, running := w.plan, w.running()
	s := &w.server
	switch w.rng.IntN(7) {
	case 0:
		if len(running) > 0 && w.spend(&p.kills) {
			w.kill(running[w.rng.IntN(len(running))])
		}
	case 1:
		if len(running) > 0 && w.spend(&p.stops) {
			w.stop(running[w.rng.IntN(len(running))])
		}
	case 2:
		if w.spend(&p.cuts) && s.holder != nil {
			s.kill(s.holder, "cut")
		}
	case 3:
		if w.spend(&p.cuts) {
			w.logf("the reader's connection is cut")
			s.cut()
		}
	case 4:
		if w.spend(&p.restarts) {
			w.logf("the server restarts")
			s.restart()
		}
	case 5:
		if s.slot != nil && s.checkpoint != nil && w.spend(&p.slotLost) {
			w.logf("the slot is lost")
			s.lose()
		}
	case 6:
		if s.checkpoint != nil && w.spend(&p.failovers) {
			s.id++
			w.logf("failover to %s", s.sourceID())
			s.restart()
		}
	}
}

// stop asks a process to end, as SIGTERM does.
func (w *World) stop(inst *instance) {
	w.logf("relay %d is asked to stop", inst.id)
	inst.stopped = true
	inst.cancel()
}

// reload asks a process to take its configuration anew, as SIGHUP does.
func (w *World) reload() {
	w.plan.reloads--
	running := w.running()
	inst := running[w.rng.IntN(len(running))]
	select {
	case inst.reload <- struct{}{}:
		w.logf("relay %d is asked to reload", inst.id)
		w.stats.Reloads++
	default: // it was asked already
	}
}

// appear makes a transaction visible.
func (w *World) appear() {
	var late []*txn
	for _, t := range w.server.txns {
		if !t.visible {
			late = append(late, t)
		}
	}
	if len(late) > 0 {
		t := late[w.rng.IntN(len(late))]
		t.visible = true
		w.logf("transaction %d becomes visible", t.xid)
	}
}

// toggleSink changes how a sink is.
func (w *World) toggleSink() {
	i := w.rng.IntN(sinks)
	s := &w.sinks[i]
	if s.mode != sinkUp {
		s.mode = sinkUp
	} else if w.faulty(2 * w.plan.sinkFault) {
		s.mode = sinkMode(w.rng.IntN(int(sinkModes)))
		s.topic = "t-" + w.plan.Routes[w.rng.IntN(len(w.plan.Routes))].Type
	} else {
		return
	}
	w.logf("%s is now %d", sinkNames()[i], s.mode)
}

// write is one transaction of the application.
func (w *World) write() {
	n := 1
	if w.rng.IntN(3) == 0 {
		n += w.rng.IntN(5)
	}
	n = min(n, w.plan.messages-len(w.messages))
	logged := w.rng.IntN(100) >= w.plan.sql // now and then, a publication is missing
	var ms []*message
	for range n {
		m := w.compose()
		if m.table.onDelivered == outbox.Keep {
			logged = true
		}
		ms = append(ms, m)
	}
	w.server.commit(ms, logged)
	w.logf("commits %v logged %v visible %v", ms, logged, ms[0].txn.visible)
}

// compose makes a message.
func (w *World) compose() *message {
	p, rng := w.plan, w.rng
	m := &message{table: p.tables[rng.IntN(len(p.tables))]}
	route := &p.Routes[rng.IntN(len(p.Routes))]
	m.typ = route.Type
	for _, name := range route.To {
		m.to = append(m.to, sinkIndex(name))
	}
	if rng.IntN(100) >= p.noGroup {
		m.group = fmt.Sprintf("g%d", rng.IntN(p.groups))
	}
	m.key = m.group
	if rng.IntN(4) == 0 {
		m.key = fmt.Sprintf("key%d", rng.IntN(4))
	}
	for m.id == "" || w.server.message(m.table.name, m.id) != nil || w.used(m.id) {
		m.id = fmt.Sprintf("%03d", rng.IntN(1000)) // ids are not in commit order
	}
	w.composed = append(w.composed, m.id)
	if rng.IntN(100) >= p.odd {
		return m
	}
	switch rng.IntN(6) {
	case 0:
		m.available = time.Now().Add(time.Duration(rng.IntN(10)) * time.Second)
	case 1:
		m.fault = outbox.FaultUndecodable
	case 2:
		m.fault = outbox.FaultTooLarge
	case 3:
		m.typ, m.to = "z", nil
	default:
		m.poison[m.to[rng.IntN(len(m.to))]] = poisonPermanent + rng.IntN(poisons)
	}
	return m
}

// used reports whether an id was taken by a message that is being composed.
func (w *World) used(id string) bool { return slices.Contains(w.composed, id) }

// writeBefore writes what lies in the tables before the relay first starts.
func (w *World) writeBefore() {
	if w.plan.initialised {
		return
	}
	for range w.rng.IntN(4) {
		if len(w.messages) < w.plan.messages {
			w.write()
		}
	}
}

// verb is an operator asking for something.
func (w *World) verb() {
	if !w.spend(&w.plan.verbs) {
		return
	}
	s, rng := &w.server, w.rng
	group := fmt.Sprintf("g%d", rng.IntN(w.plan.groups))
	name := sinkNames()[rng.IntN(sinks)]
	sel := checkpoint.Selection{AllowReorder: rng.IntN(3) == 0}
	var dead []*parked
	for _, p := range s.parked {
		if p.State == checkpoint.StateDead {
			dead = append(dead, p)
		}
	}
	switch rng.IntN(3) {
	case 0:
		sel.Groups = []string{group}
	case 1:
		sel.Sink = name
	case 2:
		sel.All = true
	}
	var one *parked
	if len(dead) > 0 {
		one = dead[rng.IntN(len(dead))]
	}
	switch rng.IntN(8) {
	case 0, 1:
		s.ask(checkpoint.VerbReplay, sel)
	case 2:
		if one != nil && one.Sink != "" && one.Original == "" {
			payload := []byte("edited")
			s.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{one.Message.ID}, Sink: one.Sink, AllowReorder: true,
				Edit: &checkpoint.Edit{Payload: &payload, NewID: "edit-" + one.Sink + "-" + one.Message.ID}})
		}
	case 3:
		if one != nil {
			s.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{one.Message.ID}})
		}
	case 4:
		if rng.IntN(3) == 0 {
			sel.States = []checkpoint.State{checkpoint.StateRetrying}
		}
		s.ask(checkpoint.VerbSkip, sel)
	case 5:
		s.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{group}})
	case 6:
		if len(s.held) > 0 || rng.IntN(2) == 0 {
			s.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{group}})
		} else {
			s.ask(checkpoint.VerbResume, checkpoint.Selection{Sinks: []string{name}})
		}
	case 7:
		s.ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{name}})
	}
}

// sql is what people do with the outbox table by themselves.
func (w *World) sql() {
	if len(w.messages) == 0 || !w.spend(&w.plan.sql) {
		return
	}
	m := w.messages[w.rng.IntN(len(w.messages))]
	switch w.rng.IntN(5) {
	case 0:
		t := w.plan.tables[w.rng.IntN(len(w.plan.tables))]
		for _, m := range w.messages {
			if m.table == t && !m.txn.visible {
				return // TRUNCATE would wait for the writer
			}
		}
		w.logf("truncate %s", t.name)
		for _, m := range w.messages {
			if m.table == t {
				w.removed(m)
			}
		}
	case 1:
		if m.present && m.txn.visible {
			w.logf("the application deletes %s", m)
			w.removed(m)
		}
	default:
		w.resetRow(m)
	}
}

// removed is a row that the application took away. What was set back by SQL is told of by the row alone.
func (w *World) removed(m *message) {
	m.present = false
	if m.logged && !m.reset {
		return
	}
	for _, name := range m.names() {
		if !w.settledAt(m, name) {
			m.fate(name).gone = true // nothing tells of it any more
		}
	}
}

// resetRow sets a row back to pending with plain SQL.
func (w *World) resetRow(m *message) {
	if m.table.onDelivered != outbox.Mark || !m.present || !m.txn.visible || m.status == pending {
		return
	}
	if c := w.server.checkpoint; c == nil || m.logged && m.lsn > place(c.Resume) {
		return // the log may still tell about it
	}
	w.logf("%s is set back from %s to pending", m, m.status)
	m.status = pending
	if len(w.server.parkedAt(m)) > 0 {
		return
	}
	m.reset, m.unordered, m.acted = true, true, false
	for _, f := range m.fates() {
		f.fresh, f.durable, f.passed, f.acked = 0, 0, false, false
	}
}
