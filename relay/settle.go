package relay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
)

const (
	// settleEvery is how long outcomes may wait to be settled together with others. It delays no delivery. A longer wait only makes fewer transactions,
	// and more possible duplicates.
	settleEvery = 50 * time.Millisecond
	// settleMost rows and parkMost parked deliveries go into one transaction.
	settleMost = 5000
	parkMost   = 2000
	// aheadMost outcomes may wait for the store, beside what is in flight: a crash repeats their deliveries, and memory holds
	// their messages.
	aheadMost = 2 * settleMost
	// bareEvery is how often progress without outcomes is saved; after bareBytes of log it is saved at once. A save is itself log: saving each
	// keepalive would never end (R6).
	bareEvery = 10 * time.Second
	bareBytes = 16 << 20
	// invisibleRetry is the first wait before a row is tried again because the session does not see its transaction yet (R5). The wait doubles while
	// nothing changes.
	invisibleRetry    = 10 * time.Millisecond
	maxInvisibleRetry = 320 * time.Millisecond
	// mostRanges bounds settled_above, together with the bound on memory. At the bound only deliveries near the lowest
	// unsettled one are started.
	mostRanges  = 4000
	rangeMemory = 16 << 10 // bytes of memory for each range
)

// A settler makes durable what has happened to deliveries, and the checkpoint with it. It belongs to the engine's goroutine. What it hands to
// the store, a settlement, belongs to the store's goroutine until that has answered.
type settler struct {
	e *engine

	tracker *checkpoint.Tracker
	covered map[string][]checkpoint.Range // what the checkpoint names as settled beyond its position
	asks    chan ask

	outcomes []outcome
	rows     []*lane.Message // everything but the row in the user's table is done
	pending  []change

	saved      checkpoint.Checkpoint
	savedAt    time.Time
	unsaved    int64 // bytes of log that were read since
	coveredEnd outbox.Position
	lastSettle time.Time
	rowsAt     time.Time // when rows are tried next, after some were invisible
	rowsWait   time.Duration
	lastSeen   outbox.Position // of the log
	lastTry    bool
	flight     *settlement
	durable    bool   // something was settled
	gate       uint64 // no delivery of a message beyond this number is started; 0 = all are
	gated      []*lane.Lane
	refusals   int // rows that the database refused, and that were set aside, since it last settled one
}

func (st *settler) init(e *engine, cp *checkpoint.Checkpoint) {
	st.e = e
	st.tracker = checkpoint.NewTracker(cp.Log, cp.Resume, cp.LastCommit)
	st.covered = cp.SettledAbove
	st.asks = make(chan ask)
	st.saved = *cp
	st.savedAt = time.Now()
	st.lastSettle = st.savedAt
	for _, rs := range cp.SettledAbove {
		for _, r := range rs {
			if r.Last.Compare(st.coveredEnd) > 0 {
				st.coveredEnd = r.Last
			}
		}
	}
}

type rowKey struct{ table, id string }

// outcome says that one part of a message (a sink, or its row) is done, but not durable yet.
type outcome struct {
	msg  *lane.Message
	part uint64
}

// change is a new state for a delivery that the poller brought back.
type change struct {
	checkpoint.Change
	lane *lane.Lane
	size int
	park []checkpoint.Parked // takes its place, in the same transaction
}

// parkRun is what a settlement parks of a lane.
type parkRun struct {
	lane           *lane.Lane
	f              *lane.Failure
	queue, backlog int
}

// settlement is one transaction in the making, and what it means in memory once it is durable.
type settlement struct {
	checkpoint.Settlement
	items   []outcome
	rows    []*lane.Message // parallel to Settlement.Rows
	done    []*lane.Message // nothing is left to do for them but to release their memory
	changes []change
	parks   []parkRun
	safe    uint64
	cp      *checkpoint.Checkpoint
	began   time.Time
	// refused are the indexes of rows that the database refuses to delete or mark; why is its error.
	refused []int
	why     error
	// aside is how many rows were refused, and left to the store.
	aside int
}

// ask is the store asking, inside the transaction, which checkpoint is true if the settlement becomes durable.
type ask struct {
	invisible []int
	reply     chan *checkpoint.Checkpoint
}

// allSettled takes a message that no sink has to deliver any more. It queues the message's row, or releases the message if nothing is to be done
// about the row.
func (st *settler) allSettled(m *lane.Message) {
	if m.Parked || !m.Kept && (m.Seq == 0 || m.Row) {
		st.rows = append(st.rows, m)
		return
	}
	st.release(m)
}

// release gives up a message: everything about it is durable.
func (st *settler) release(m *lane.Message) {
	m.Batch.Done(st.e.intake.memory)
	st.e.forgetting(m)
	if m.Seq == 0 {
		st.e.sweep.open--
	}
}

// settleAt is when outcomes become due to be settled; zero = there are none.
func (st *settler) settleAt(now time.Time) time.Time {
	n := len(st.outcomes)
	switch {
	case len(st.e.parker.lanes) > 0 || len(st.pending) > 0 || n >= settleMost/2 ||
		n > 0 && (st.e.stops() || st.e.intake.memory.InUse() > st.e.cfg.Memory/2):
		return now
	case n > 0:
		return st.lastSettle.Add(settleEvery)
	case len(st.rows) > 0:
		return latest(st.rowsAt, st.lastSettle)
	case st.e.safeMode.candidate.Times > 0 && !st.e.stops(): // settling would clear the crash record
	case st.e.phase == phaseTailing && st.bareProgress():
		if st.e.stops() || st.e.cause != nil || st.unsaved >= bareBytes {
			return now
		}
		return st.savedAt.Add(bareEvery)
	}
	return time.Time{}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// bareProgress reports whether the log has moved on without anything to settle: keepalives, or messages that a checkpoint
// named as settled.
func (st *settler) bareProgress() bool {
	r, _, _ := st.tracker.Safe()
	return r != st.saved.Resume
}

// settleNow begins a settlement if one is due.
func (st *settler) settleNow(now time.Time) bool {
	at := st.settleAt(now)
	if at.IsZero() || now.Before(at) {
		return false
	}
	s := st.gather(now)
	st.flight = s
	st.lastSettle = now
	s.Checkpoint = func(invisible []int) *checkpoint.Checkpoint {
		a := ask{invisible, make(chan *checkpoint.Checkpoint, 1)}
		st.asks <- a
		return <-a.reply
	}
	refusals := st.refusals
	st.e.session.operate(func(ctx context.Context) (func(), error) {
		done, err := settle(ctx, st.e.session.store, s, refusals)
		if err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
		return func() { st.settled(s, done) }, nil
	})
	return true
}

// aheadOfStore reports whether deliveries are so far ahead of what is durable that none is started, and nothing taken in.
func (st *settler) aheadOfStore() bool { return len(st.outcomes) > aheadMost }

// gather makes a settlement of what waits.
func (st *settler) gather(now time.Time) *settlement {
	s := &settlement{began: now}
	s.changes = st.pending
	st.pending = nil
	for _, c := range s.changes {
		s.Changes = append(s.Changes, c.Change)
		s.Park = append(s.Park, c.park...)
	}
	st.e.parker.takeParks(s)
	n, before := 0, len(st.rows)
	for n < len(st.outcomes) && len(st.rows)-before < settleMost { // those without a row cost the database nothing
		st.outcome(s, st.outcomes[n])
		n++
	}
	rest := copy(st.outcomes, st.outcomes[n:])
	clear(st.outcomes[rest:]) // an old pointer would keep a whole batch in memory
	st.outcomes = st.outcomes[:rest]
	if !now.Before(st.rowsAt) || st.e.stops() {
		n = min(len(st.rows), settleMost)
		s.Rows = make([]checkpoint.Row, 0, n)
		for _, m := range st.rows[:n] {
			s.Rows = append(s.Rows, checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn, Parked: m.Parked,
				Message: m.Message, Receipt: m.Receipts.Text()})
		}
		s.rows = append(s.rows, st.rows[:n]...)
		st.rows = slices.Delete(st.rows, 0, n)
	}
	return s
}

// outcome notes that a part of a message is settled by s, and passes the message on when that was the last sink's part.
func (st *settler) outcome(s *settlement, o outcome) {
	m := o.msg
	s.items = append(s.items, o)
	if m.Left &^= o.part; m.Left != 0 {
		return
	}
	if m.Kept && !m.Parked {
		s.done = append(s.done, m)
		return
	}
	st.rows = append(st.rows, m)
}

// checkpoint answers an ask: what is true once the settlement in flight is durable, but for rows that were not visible (R6).
func (st *settler) checkpoint(invisible []int) *checkpoint.Checkpoint {
	s := st.flight
	s.cp = nil
	if st.e.phase == phaseSweeping {
		return nil // a crash repeats the sweep
	}
	for _, o := range s.items {
		if o.msg.Seq != 0 {
			st.tracker.Settle(o.msg.Seq, o.part)
		}
	}
	for i, m := range s.rows {
		if m.Seq == 0 || !m.Row {
			// The checkpoint does not wait for this row: a sweep or a reconciliation found the message, or its table has on_delivered: keep, and the
			// row is dealt with only because the message was parked.
			continue
		}
		if _, hidden := slices.BinarySearch(invisible, i); hidden {
			st.tracker.Reopen(m.Seq, rowPart)
		} else {
			st.tracker.Settle(m.Seq, rowPart)
		}
	}
	resume, last, safe := st.tracker.Safe()
	above, ranges, open := st.tracker.Above(safe, st.e.names)
	st.setGate(open, ranges)
	s.safe = safe
	if resume == st.saved.Resume && len(above) == 0 && len(st.saved.SettledAbove) == 0 {
		return nil
	}
	st.keepCovered(above)
	cp := st.saved
	cp.Resume, cp.LastCommit, cp.SettledAbove = resume, last, above
	s.cp = &cp
	return s.cp
}

// keepCovered adds what the last start's checkpoint named as settled and the log has not repeated yet.
func (st *settler) keepCovered(above map[string][]checkpoint.Range) {
	for name, rs := range st.covered {
		for _, r := range rs {
			if r.Last.Compare(st.lastSeen) > 0 {
				above[name] = append(above[name], r)
			}
		}
	}
}

// setGate keeps settled_above bounded: beyond the bound, deliveries start only near the lowest unsettled one.
func (st *settler) setGate(open uint64, ranges int) {
	most := max(4, min(mostRanges, uint64(st.e.cfg.Memory/rangeMemory)))
	st.gate = 0
	if uint64(ranges) > most {
		st.gate = open + most/2
	}
}

// settled takes note that a settlement is durable.
func (st *settler) settled(s *settlement, done *checkpoint.Settled) {
	now := time.Now()
	st.flight = nil
	if len(s.items)+len(s.changes)+len(s.rows) > len(done.Invisible) {
		st.e.progressed(now)
		st.durable = true
	}
	st.e.safeMode.counted, st.e.safeMode.candidate = true, checkpoint.CrashCandidate{}
	st.tracker.Durable()
	if s.cp != nil && done.Saved {
		st.tracker.Advance(s.safe)
		confirm := s.cp.Resume != st.saved.Resume
		st.saved, st.savedAt, st.unsaved = *s.cp, now, 0
		if confirm {
			st.e.cfg.Source.Confirm(s.cp.Resume)
		}
	}
	for _, m := range s.done {
		st.release(m)
	}
	hidden := 0
	for i, m := range s.rows {
		if _, found := slices.BinarySearch(done.Invisible, i); !found {
			st.release(m)
		} else if _, refused := slices.BinarySearch(s.refused, i); !refused {
			hidden++
			st.rows = append(st.rows, m)
		}
	}
	if hidden > 0 {
		st.rowsWait = min(max(2*st.rowsWait, invisibleRetry), maxInvisibleRetry)
		st.rowsAt = now.Add(st.rowsWait)
		st.lastTry = st.e.stops() && hidden == len(st.rows)
	} else {
		st.rowsWait = 0
	}
	if st.e.phase == phaseSweeping && len(s.rows) > 0 && st.e.sweep.waits(hidden, now) {
		st.e.log.Warn("other transactions lock rows of the sweep, and tailbox reads the log only after it has settled these rows: find those transactions, "+
			"and end them", "rows", hidden)
	}
	st.e.yieldToDDL(s, done, now)
	if done.Gone > 0 {
		st.e.skipped("gone", done.Gone)
	}
	for _, p := range s.parks {
		st.e.parker.parked(p, now)
	}
	st.countParked(s)
	st.e.poller.changed(s, done, now)
	for _, l := range st.gated {
		st.e.touch(l)
	}
	clear(st.gated)
	st.gated = st.gated[:0]
	st.refuse(s, done, now)
	if f := st.e.cfg.Events.Settled; f != nil {
		f(len(s.items)+len(s.rows)+len(s.changes), now.Sub(s.began), done.Saved)
	}
}

func (st *settler) countParked(s *settlement) {
	f := st.e.cfg.Events.Parked
	if f == nil || len(s.Park) == 0 {
		return
	}
	type key struct {
		sink  string
		state checkpoint.State
	}
	counts := map[key]int{}
	for i := range s.Park {
		counts[key{s.Park[i].Sink, s.Park[i].State}]++
	}
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b key) int {
		return slices.Compare([]string{a.sink, string(a.state)}, []string{b.sink, string(b.state)})
	}) {
		f(k.sink, k.state, counts[k])
	}
}
