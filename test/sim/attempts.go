package sim

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// checkAttempt looks at a call of Deliver when it is made: this is where a relay decides.
func (w *World) checkAttempt(a *attempt, at time.Time) {
	inst := a.sink.inst
	a.run, a.session = inst.run, inst.session
	if a.session == nil || !a.session.loaded {
		w.fail("R9", "%s is called before the state was loaded", a.sink.name())
		return
	}
	for i := range a.items {
		it := &a.items[i]
		if it.m = w.known(it.table, it.id); it.m == nil {
			w.fail("store", "%s gets %q of %s, which nobody wrote", a.sink.name(), it.id, it.table)
			return
		}
		if own := w.parkedAt(it.m, a.sink.name()); !it.m.available.IsZero() || own != nil && own.live() && !own.Blocks {
			it.group, it.alone = "", true // outside the order promise
		}
	}
	w.checkCall(a)
	w.checkLanes(a)
	if since := at.Sub(a.session.heard); since > 5*time.Second {
		w.fail("I8", "a call starts %v after the session's last answer (R12)", since)
	}
	if step, ok := a.session.paused[a.sink.name()]; ok && step < w.step-1 {
		w.fail("R13", "%s is called while it is paused", a.sink.name())
	}
	for i := range a.items {
		w.checkDelivery(a, i)
	}
}

// known finds a message by what a sink sees of it.
func (w *World) known(table, id string) *message {
	if m := w.server.message(table, id); m != nil {
		return m
	}
	for _, p := range w.server.parked {
		if p.Message.Table == table && p.Message.ID == id {
			w.edited[table+id] = p.m
		}
	}
	return w.edited[table+id]
}

// checkCall: the sink's limits, and one destination a call (R2).
func (w *World) checkCall(a *attempt) {
	limits := a.sink.Limits()
	at := map[sink.Destination]int{a.items[0].dest: 1}
	for _, c := range w.pending {
		if b := c.attempt; b != nil && b != a && b.sink == a.sink && len(b.items) > 0 {
			at[b.items[0].dest]++
		}
	}
	switch {
	case len(a.items) == 0:
		w.fail("limits", "%s is called without deliveries", a.sink.name())
	case len(a.items) > limits.Batch:
		w.fail("limits", "%s gets %d deliveries in a call", a.sink.name(), len(a.items))
	case a.sink.calls > limits.Concurrency:
		w.fail("limits", "%s has %d calls in flight", a.sink.name(), a.sink.calls)
	case limits.PerDestination > 0 && at[a.items[0].dest] > limits.PerDestination:
		w.fail("limits", "%s has %d calls in flight to %v", a.sink.name(), at[a.items[0].dest], a.items[0].dest)
	case limits.PerDestination > 0 && slices.ContainsFunc(a.items, func(it item) bool { return it.dest != a.items[0].dest }):
		w.fail("R2", "%s gets deliveries for several destinations in a call", a.sink.name())
	}
	for _, it := range a.items {
		if it.dest.Partition >= 0 && a.sink.name() == "wide" && it.dest.Partition != Partition(it.key) {
			w.fail("R2", "%s goes to another partition of %s than the run it is in", it.m, a.sink.name())
		}
	}
}

// checkLanes: one run in flight a lane, no longer than the sink can promise a prefix of, in order, side by side (R2).
func (w *World) checkLanes(a *attempt) {
	limit := a.sink.Limits().Run
	runs := map[checkpoint.Lane]int{}
	for i := range a.items {
		lane := a.lane(i)
		if lane.Group == "" {
			continue
		}
		runs[lane]++
		switch {
		case runs[lane] > limit:
			w.fail("R2", "%v has %d deliveries in a call", lane, runs[lane])
		case w.server.holder == a.session && w.narrowed[lane] > 0 && runs[lane] >= w.narrowed[lane]:
			w.fail("R2", "%v has %d deliveries in a call though as many failed as a whole", lane, runs[lane])
		case runs[lane] > 1 && a.lane(i-1) != lane && !a.items[i-1].alone:
			w.fail("R2", "deliveries of %v do not stand next to each other", lane)
		case runs[lane] > 1 && a.items[i-1].at.Compare(a.items[i].at) >= 0 && !a.items[i].m.unordered && !a.items[i-1].m.unordered:
			w.fail("R2", "deliveries of %v are out of order in a call", lane)
		}
		if step, ok := a.session.held[lane]; ok && step < w.step {
			w.fail("R13", "%v is held, and gets %s", lane, a.items[i].m)
		}
		if slices.Contains(a.session.applying, lane) {
			w.fail("R13", "%v gets a run while a verb changes it", lane)
		}
	}
	for _, c := range w.pending {
		if c.attempt == nil || c.attempt == a || c.inst != a.sink.inst || c.attempt.sink != a.sink {
			continue
		}
		for i := range c.attempt.items {
			if lane := c.attempt.lane(i); runs[lane] > 0 {
				w.fail("R2", "%v has two runs in flight", lane)
			}
		}
	}
}

// narrow notes how long a run was that failed as a whole: the next one of its lane has to be shorter, or the guilty one is
// never found. Whatever else happens to the lane ends that. What a relay learns that has lost the lock, its successor
// cannot know.
func (w *World) narrow(a *attempt) {
	if w.server.holder != a.session {
		return
	}
	lanes := map[checkpoint.Lane]int{}
	for i := range a.items {
		lanes[a.lane(i)]++
	}
	for i := range a.items {
		lane := a.lane(i)
		class, _, whole := sink.Classify(a.answers[i])
		delete(w.narrowed, lane)
		// A message that was scheduled may have come late enough to stand in its group's lane, which is not known here.
		guest := slices.ContainsFunc(a.items, func(it item) bool { return it.alone && it.m != nil && it.m.group == lane.Group })
		if lane.Group != "" && !guest && whole && lanes[lane] > 1 && class != sink.ClassThrottled && !w.witnessesOf(a, i).fails() {
			w.narrowed[lane] = lanes[lane]
		}
	}
}

// checkDelivery: order, blocks, duplicates and position of one delivery.
func (w *World) checkDelivery(a *attempt, i int) {
	it := &a.items[i]
	m, f := it.m, it.m.fate(a.sink.name())
	if !slices.Contains(m.names(), a.sink.name()) {
		w.fail("routing", "%s gets %s", a.sink.name(), m)
		return
	}
	if it.attempt < 1 {
		w.fail("attempt", "%s gets %s as attempt %d", a.sink.name(), m, it.attempt)
	}
	if m.fault == outbox.FaultTooLarge {
		w.fail("R11", "%s gets %s, which is too large", a.sink.name(), m)
	}
	if w.server.holder != a.session {
		return // a zombie that does not know it yet: its order was right when it held the lock
	}
	if m.available.After(time.Now()) {
		w.fail("available", "%s gets %s %v early", a.sink.name(), m, time.Until(m.available))
	}
	w.checkPosition(a, it, f)
	w.checkBlock(a, i)
	if f.delivered > 0 {
		w.checkDuplicate(a, it, f)
		return
	}
	w.checkOrder(a, i)
}

// checkPosition: a message keeps its position in one log, and it never goes back.
func (w *World) checkPosition(a *attempt, it *item, f *fate) {
	if f.positions > 0 && !it.m.unordered && !w.opts.CountDuplicates {
		c := it.at.Compare(f.position)
		if c < 0 || c > 0 && it.at.Log == f.position.Log {
			w.fail("positions", "%s gets %s at %s, before at %s", a.sink.name(), it.m, it.at, f.position)
		}
	}
	f.position = it.at
	f.positions++
}

// checkBlock is I5: of a lane with blocking deliveries in the database only those are sent, each after the sink took
// the one before.
func (w *World) checkBlock(a *attempt, i int) {
	it, lane := &a.items[i], a.lane(i)
	own := w.parkedAt(it.m, a.sink.name())
	if w.opts.CountDuplicates {
		return // what is delivered once more may stand anywhere
	}
	if own != nil && !own.live() {
		w.fail("I5", "%s gets %s, which is %s", a.sink.name(), it.m, own.State)
	}
	if lane.Group == "" || own != nil && !own.Blocks || !it.m.available.IsZero() {
		return
	}
	for _, p := range w.server.parked {
		if !p.Blocks || p.m == it.m || p.Message.Group != lane.Group || p.Sink != "" && p.Sink != lane.Sink {
			continue
		}
		before := p.Message.Position.Compare(it.at) < 0
		inCall := slices.ContainsFunc(a.items[:i], func(o item) bool { return o.m == p.m })
		switch {
		case p.Sink == "" && before:
			w.fail("I5", "%s gets %s, and %s blocks its group", a.sink.name(), it.m, p.m)
		case p.Sink != "" && own == nil:
			w.fail("I5", "%s gets %s from the tail, and %s blocks its lane", a.sink.name(), it.m, p.m)
		case p.Sink != "" && before && !inCall && (p.ackInst != a.sink.inst || p.ackRun != a.sink.inst.run):
			w.fail("I5", "%s gets %s, and %s is before it", a.sink.name(), it.m, p.m)
		}
	}
}

// checkOrder is I4 for a first delivery: everything before it in its group was delivered, or its group went on without
// it; and a consumer that drops positions it has passed keeps it.
func (w *World) checkOrder(a *attempt, i int) {
	it, lane := &a.items[i], a.lane(i)
	if lane.Group == "" || it.m.unordered || !it.m.available.IsZero() {
		return
	}
	for _, m := range w.messages {
		if m == it.m {
			break
		}
		if m.group != lane.Group || m.unordered || !m.available.IsZero() || !m.strays() && !slices.Contains(m.names(), lane.Sink) {
			continue
		}
		if slices.ContainsFunc(a.items[:i], func(o item) bool { return o.m == m }) {
			continue
		}
		name := lane.Sink
		if m.strays() {
			name = ""
		}
		p := w.parkedAt(m, name)
		if p != nil && p.Blocks && m.fate(name).delivered == 0 || p == nil && !w.settledAt(m, name) {
			w.fail("I4", "%s gets %s before %s", a.sink.name(), it.m, m)
		}
	}
	if mark, ok := w.marks[lane]; ok && !it.m.fate(lane.Sink).passed && it.at.Compare(mark) <= 0 {
		w.fail("I4", "%s gets %s at %s, behind %s that its group has passed", a.sink.name(), it.m, it.at, mark)
	}
}

// first notes the position that a consumer remembers.
func (w *World) first(a *attempt, i int) {
	it, lane := &a.items[i], a.lane(i)
	if lane.Group == "" || it.m.unordered || it.m.fate(lane.Sink).passed || !it.m.available.IsZero() {
		return
	}
	if mark, ok := w.marks[lane]; !ok || it.at.Compare(mark) > 0 {
		w.marks[lane] = it.at
	}
}

// checkDuplicate is I7: a delivery is sent again only if the relay was not told that it arrived, or it was told in an
// earlier run and the database did not know when this one began.
func (w *World) checkDuplicate(a *attempt, it *item, f *fate) {
	inst := a.sink.inst
	own := w.parkedAt(it.m, a.sink.name())
	var why string
	switch {
	case f.unheard || !f.acked:
		return
	case it.m.reset && f.fresh == 0:
		return // an operator asked for it
	case it.m.unordered && own == nil && it.m.pendingRow():
		return // the table alone tells about it, and it says that the message is pending
	case f.ackInst == inst && f.ackRun == inst.run:
		why = "in this run"
	case own != nil && own.live():
		return
	case f.durable != 0 && f.durable < inst.began:
		why = "and the database knew"
	default:
		return
	}
	w.stats.Unexplained++
	if !w.opts.CountDuplicates {
		w.fail("I7", "%s gets %s again: it had answered %s", a.sink.name(), it.m, why)
	}
}
