package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/memory"
	"github.com/tailbox/tailbox/source"
)

const (
	// reconcileMost rows are compared at a time, and reconcileBytes of those that are found are in memory at most.
	reconcileMost  = 1000
	reconcileBytes = 4 << 20
)

// reconcileState compares the tables with the log (R11): rows that are pending in a table, though everything that was in
// the log when they were listed has been read, and that are neither in memory nor parked, were never in the log, or
// an operator reset them.
type reconcileState struct {
	reconcileAt time.Time
	at          string // where the listing goes on
	listing     *checkpoint.PendingRows
	passed      bool // the barrier was read
	commit      uint64
	rank        uint32
	// strangers are rows that were found while a transaction of the log was half read: they wait for its end.
	strangers *foundRows
}

// reconcileNow takes the next step of a comparison.
func (e *engine) reconcileNow(now time.Time) bool {
	if e.cfg.Reconcile <= 0 || e.phase != phaseTailing {
		return false
	}
	if e.reconcileAt.IsZero() {
		e.reconcileAt = now.Add(e.cfg.Reconcile)
	}
	switch {
	case e.listing == nil && e.strangers == nil && !now.Before(e.reconcileAt):
		at := e.at
		e.operate(func(ctx context.Context) (func(), error) {
			rows, err := e.store.Pending(ctx, at, reconcileMost)
			if err != nil {
				return nil, fmt.Errorf("list pending rows: %w", err)
			}
			return func() { e.listed(rows) }, nil
		})
		return true
	case e.listing != nil && e.passed && e.strangers == nil && e.memory.Used.Load()+e.foundBytes() <= e.cfg.Memory:
		return e.fetch()
	}
	return false
}

func (e *engine) listed(rows *checkpoint.PendingRows) {
	if len(rows.Rows) == 0 {
		e.endListing(rows.Cursor)
		return
	}
	e.listing, e.passed = rows, false
	e.cfg.Source.Await(rows.Barrier)
}

func (e *engine) onBarrier(barrier string) {
	if e.listing != nil && e.listing.Barrier == barrier {
		e.passed = true
	}
}

func (e *engine) endListing(next string) {
	e.listing, e.passed, e.at = nil, false, next
	if next == "" {
		e.reconcileAt = time.Now().Add(e.cfg.Reconcile)
	}
}

// fetch reads what is still pending and not in memory. Memory is looked at first, the table second: what leaves memory
// in between is settled in the table.
func (e *engine) fetch() bool {
	inMemory := e.inMemory()
	var rows []checkpoint.RowRef
	for _, r := range e.listing.Rows {
		if !inMemory[rowKey{r.Table, r.ID}] {
			rows = append(rows, r)
		}
	}
	next, most := e.listing.Cursor, int(e.foundBytes())
	if len(rows) == 0 {
		e.endListing(next)
		return false
	}
	commit := e.listing.Commit
	p := outbox.Position{Log: e.start.Log, Commit: commit}
	e.operate(func(ctx context.Context) (func(), error) {
		msgs, parkedAt, err := e.store.Fetch(ctx, rows, p, most)
		if err != nil {
			return nil, fmt.Errorf("read pending rows: %w", err)
		}
		return func() {
			if left := leftOut(rows, msgs, most); len(left) > 0 {
				e.listing.Rows = left
			} else {
				e.endListing(next)
			}
			if len(msgs) > 0 {
				e.strangers = &foundRows{commit, msgs, parkedAt}
				e.admit()
			}
		}, nil
	})
	return true
}

// foundBytes is how much of what a reconciliation finds is brought into memory at once. The log leaves room for it.
func (e *engine) foundBytes() int64 { return min(reconcileBytes, e.cfg.Memory/8) }

// leftOut are the rows that were not read because those before them had enough bytes.
func leftOut(rows []checkpoint.RowRef, msgs []*outbox.Message, most int) []checkpoint.RowRef {
	read := make(map[checkpoint.RowRef]bool, len(msgs))
	for _, m := range msgs {
		most -= m.Size()
		read[checkpoint.RowRef{Table: m.Table, ID: m.ID}] = true
	}
	if most > 0 {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(rows), func(r checkpoint.RowRef) bool { return read[r] })
	if len(left) == len(rows) {
		return nil // other rows than were asked for: the next comparison finds what is left
	}
	return left
}

// foundRows are rows that are pending though the log does not hold them.
type foundRows struct {
	commit   uint64 // of the barrier
	msgs     []*outbox.Message
	parkedAt [][]string
}

// foundRank is the N of the first row that is found behind a transaction: more than any transaction has rows.
const foundRank = 1 << 31

// admit queues rows that the log does not hold as if they had come from it, between two transactions. Their positions are
// behind everything that was read, so that a consumer which drops what is at or below the highest position of a group
// does not drop them.
func (e *engine) admit() {
	if e.strangers == nil || e.inTransaction {
		return
	}
	commit, msgs, parkedAt := max(e.strangers.commit, e.lastSeen.Commit), e.strangers.msgs, e.strangers.parkedAt
	e.strangers = nil
	if commit != e.commit {
		e.commit, e.rank = commit, foundRank
	}
	for _, m := range msgs {
		m.Position = outbox.Position{Log: e.start.Log, Commit: commit, N: e.rank}
		e.rank++
	}
	e.log.Warn("pending rows that the log does not hold: delivering them", "rows", len(msgs))
	if f := e.cfg.Events.Found; f != nil {
		f(len(msgs))
	}
	in := &received{found: true, batch: &source.Batch{Messages: msgs, ParkedAt: parkedAt}, items: make([]routed, len(msgs))}
	mem := &memory.Batch{Left: len(msgs)}
	for i, m := range msgs {
		mem.Bytes += int64(m.Size())
		e.route(&in.items[i], m, mem)
	}
	e.memory.Used.Add(mem.Bytes)
	e.onReceived(in, time.Now())
}
