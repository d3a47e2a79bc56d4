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

// A reconciler compares the tables with the log (R11). It lists pending rows, and waits until everything that was in the log then has been
// read. Rows that are still pending, and neither in memory nor parked, were never in the log, or an operator reset them. It belongs to the
// engine's goroutine.
type reconciler struct {
	e *engine

	reconcileAt time.Time
	at          string // where the listing goes on
	listing     *checkpoint.PendingRows
	passed      bool // the barrier was read
	commit      uint64
	rank        uint32
	// missed are rows that were found while a transaction of the log was half read: they wait for its end.
	missed *missedRows
}

// reconcileNow takes the next step of a comparison.
func (rc *reconciler) reconcileNow(now time.Time) bool {
	if rc.e.cfg.Reconcile <= 0 || rc.e.phase != phaseTailing {
		return false
	}
	if rc.reconcileAt.IsZero() {
		rc.reconcileAt = now.Add(rc.e.cfg.Reconcile)
	}
	switch {
	case rc.listing == nil && rc.missed == nil && !now.Before(rc.reconcileAt):
		at := rc.at
		rc.e.session.operate(func(ctx context.Context) (func(), error) {
			rows, err := rc.e.session.store.Pending(ctx, at, reconcileMost)
			if err != nil {
				return nil, fmt.Errorf("list pending rows: %w", err)
			}
			return func() { rc.listed(rows) }, nil
		})
		return true
	case rc.listing != nil && rc.passed && rc.missed == nil && rc.e.intake.memory.InUse()+rc.foundBytes() <= rc.e.cfg.Memory:
		return rc.fetch()
	}
	return false
}

func (rc *reconciler) listed(rows *checkpoint.PendingRows) {
	if len(rows.Rows) == 0 {
		rc.endListing(rows.Cursor)
		return
	}
	rc.listing, rc.passed = rows, false
	rc.e.cfg.Source.Await(rows.Barrier)
}

func (rc *reconciler) onBarrier(barrier string) {
	if rc.listing != nil && rc.listing.Barrier == barrier {
		rc.passed = true
	}
}

func (rc *reconciler) endListing(next string) {
	rc.listing, rc.passed, rc.at = nil, false, next
	if next == "" {
		rc.reconcileAt = time.Now().Add(rc.e.cfg.Reconcile)
	}
}

// fetch reads what is still pending and not in memory. Memory is looked at first, the table second: what leaves memory
// in between is settled in the table.
func (rc *reconciler) fetch() bool {
	inMemory := rc.inMemory()
	var rows []checkpoint.RowRef
	for _, r := range rc.listing.Rows {
		if !inMemory[rowKey{r.Table, r.ID}] {
			rows = append(rows, r)
		}
	}
	next, most := rc.listing.Cursor, int(rc.foundBytes())
	if len(rows) == 0 {
		rc.endListing(next)
		return false
	}
	commit := rc.listing.Commit
	p := outbox.Position{Log: rc.e.start.Log, Commit: commit}
	rc.e.session.operate(func(ctx context.Context) (func(), error) {
		msgs, parkedAt, err := rc.e.session.store.Fetch(ctx, rows, p, most)
		if err != nil {
			return nil, fmt.Errorf("read pending rows: %w", err)
		}
		return func() {
			if left := leftOut(rows, msgs, most); len(left) > 0 {
				rc.listing.Rows = left
			} else {
				rc.endListing(next)
			}
			if len(msgs) > 0 {
				rc.missed = &missedRows{commit, msgs, parkedAt}
				rc.admit()
			}
		}, nil
	})
	return true
}

// foundBytes is how much of what a reconciliation finds is brought into memory at once. The log leaves room for it.
func (rc *reconciler) foundBytes() int64 { return min(reconcileBytes, rc.e.cfg.Memory/8) }

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

// missedRows are rows that are pending though the log does not hold them.
type missedRows struct {
	commit   uint64 // of the barrier
	msgs     []*outbox.Message
	parkedAt [][]string
}

// foundRank is the first N of rows that are found behind a transaction. No transaction has so many rows.
const foundRank = 1 << 31

// rankNow is the N that the first row gets which is found behind a transaction. The clock has it grow from term to term by 256 a second, which is more
// than reconciliations find: with polling nothing may have been read between two terms. It begins anew once in 96 days, and leaves room behind it.
func rankNow(now time.Time) uint32 {
	const room = 1 << 24
	return foundRank + uint32(now.UnixMilli()*256/1000%(foundRank-room))
}

// admit queues rows that the log does not hold as if they had come from it, between two transactions. Their positions are
// behind everything that was read, so that a consumer which drops what is at or below the highest position of a group
// does not drop them.
func (rc *reconciler) admit() {
	if rc.missed == nil || rc.e.inTransaction {
		return
	}
	commit, msgs, parkedAt := max(rc.missed.commit, rc.e.settler.lastSeen.Commit), rc.missed.msgs, rc.missed.parkedAt
	rc.missed = nil
	if commit != rc.commit {
		rc.commit, rc.rank = commit, rankNow(time.Now())
	}
	for _, m := range msgs {
		m.Position = outbox.Position{Log: rc.e.start.Log, Commit: commit, N: rc.rank}
		rc.rank++
	}
	rc.e.log.Warn("pending rows that the log does not hold: delivering them", "rows", len(msgs))
	if f := rc.e.cfg.Events.Found; f != nil {
		f(len(msgs))
	}
	in := &received{found: true, batch: &source.Batch{Messages: msgs, ParkedAt: parkedAt}, items: make([]routed, len(msgs))}
	mem := &memory.Batch{Left: len(msgs)}
	for i, m := range msgs {
		mem.Bytes += int64(m.Size())
		rc.e.intake.route(&in.items[i], m, mem)
	}
	rc.e.intake.memory.Take(mem.Bytes)
	rc.e.onReceived(in, time.Now())
}

// inMemory tells which of the rows that are listed are messages in memory.
func (rc *reconciler) inMemory() map[rowKey]bool {
	listed := map[rowKey]bool{}
	for _, r := range rc.listing.Rows {
		listed[rowKey{r.Table, r.ID}] = false
	}
	for m := rc.e.list.Next; m != &rc.e.list; m = m.Next {
		k := rowKey{m.Table, m.ID}
		if _, ok := listed[k]; ok {
			listed[k] = true
		}
	}
	return listed
}

const (
	// cleanFirst is how long after a start the relay first looks for delivered rows whose retention is over.
	cleanFirst = time.Minute
	// The pause between two portions is cleanShare times as long as the portion took, and at least cleanPause: operators and applications come first.
	cleanPause = 20 * time.Millisecond
	cleanShare = 4
)

// A cleaner removes delivered rows whose retention is over. It belongs to the engine's goroutine.
type cleaner struct {
	e *engine

	at     time.Time // of the next portion
	cursor string    // of the store
}

// cleans reports whether delivered rows are removed at all.
func (cl *cleaner) cleans() bool {
	_, ok := cl.e.session.store.(checkpoint.Cleaner)
	return ok && cl.e.cfg.Cleanup > 0 && cl.e.phase == phaseTailing
}

// cleanNow removes a portion of delivered rows, when the store has nothing else to do.
func (cl *cleaner) cleanNow(now time.Time) bool {
	if !cl.cleans() {
		return false
	}
	if cl.at.IsZero() {
		cl.at = now.Add(min(cleanFirst, cl.e.cfg.Cleanup))
	}
	if now.Before(cl.at) {
		return false
	}
	cleaner, at := cl.e.session.store.(checkpoint.Cleaner), cl.cursor
	cl.e.session.operate(func(ctx context.Context) (func(), error) {
		removed, next, err := cleaner.Clean(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("remove delivered rows: %w", err)
		}
		return func() {
			end := time.Now()
			cl.cursor = next
			if cl.at = end.Add(max(cleanShare*end.Sub(now), cleanPause)); next == "" {
				cl.at = end.Add(cl.e.cfg.Cleanup)
			}
			if f := cl.e.cfg.Events.Cleaned; f != nil && removed > 0 {
				f(removed)
			}
		}, nil
	})
	return true
}
