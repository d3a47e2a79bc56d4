package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// reconcileMost rows are compared at a time.
const reconcileMost = 1000

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
	case e.listing == nil && !now.Before(e.reconcileAt):
		at := e.at
		e.operate(func(ctx context.Context) (func(), error) {
			rows, err := e.store.Pending(ctx, at, reconcileMost)
			if err != nil {
				return nil, fmt.Errorf("list pending rows: %w", err)
			}
			return func() { e.listed(rows) }, nil
		})
		return true
	case e.listing != nil && e.passed:
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
	if rows.Commit != e.commit {
		e.commit, e.rank = rows.Commit, 0
	}
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
	next := e.listing.Cursor
	if len(rows) == 0 {
		e.endListing(next)
		return false
	}
	p := outbox.Position{Log: e.start.Log, Commit: e.commit, N: e.rank}
	e.operate(func(ctx context.Context) (func(), error) {
		msgs, parkedAt, err := e.store.Fetch(ctx, rows, p)
		if err != nil {
			return nil, fmt.Errorf("read pending rows: %w", err)
		}
		return func() {
			e.endListing(next)
			e.rank += uint32(len(msgs))
			e.found(msgs, parkedAt)
		}, nil
	})
	return true
}

// found queues rows that the log does not hold as if they had come from it.
func (e *engine) found(msgs []*outbox.Message, parkedAt [][]string) {
	if len(msgs) == 0 {
		return
	}
	e.log.Info("pending rows that the log does not hold: delivering them", "rows", len(msgs))
	in := &received{found: true, batch: &source.Batch{Messages: msgs, ParkedAt: parkedAt}, items: make([]routed, len(msgs))}
	mem := &batchMemory{left: len(msgs)}
	for i, m := range msgs {
		mem.bytes += int64(m.Size())
		e.route(&in.items[i], m, mem)
	}
	e.memory.used.Add(mem.bytes)
	e.onReceived(in, time.Now())
}
