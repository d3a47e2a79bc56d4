// Package memory bounds what the relay has queued, in bytes. The source's goroutine acquires and waits, the engine's releases.
package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Budget is the bound on everything queued, in bytes. The source's goroutine acquires and blocks; the engine's releases.
type Budget struct {
	limit int64
	used  atomic.Int64
	freed chan struct{} // capacity 1: something was released

	mu      sync.Mutex
	blocked time.Time // since when the source waits; zero while it does not
}

// New returns a budget of so many bytes.
func New(limit int64) *Budget {
	return &Budget{limit: limit, freed: make(chan struct{}, 1)}
}

// Acquire waits until n bytes fit. What is larger than the whole bound passes when it is alone, or it would wait for ever.
func (m *Budget) Acquire(ctx context.Context, n int64) error {
	for {
		used := m.used.Load()
		if used == 0 || used+n <= m.limit {
			m.used.Add(n) // only one goroutine acquires
			m.setBlocked(time.Time{})
			return nil
		}
		m.setBlocked(time.Now())
		select {
		case <-m.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// InUse returns how many bytes are taken.
func (m *Budget) InUse() int64 { return m.used.Load() }

// Scarce reports whether more than three quarters of the budget are in use: the relay should then give memory back. Reading still goes on.
func (m *Budget) Scarce() bool { return m.used.Load() > m.limit*3/4 }

// Take takes n bytes though there may be none left.
func (m *Budget) Take(n int64) { m.used.Add(n) }

func (m *Budget) release(n int64) {
	m.used.Add(-n)
	select {
	case m.freed <- struct{}{}:
	default:
	}
}

func (m *Budget) setBlocked(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.IsZero() || m.blocked.IsZero() {
		m.blocked = t
	}
}

// Starved is how long the source has been waiting for memory.
func (m *Budget) Starved(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked.IsZero() {
		return 0
	}
	return now.Sub(m.blocked)
}

// Waits reports whether the source waits for memory.
func (m *Budget) Waits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.blocked.IsZero()
}

// A Batch gives a batch's bytes back once none of its messages is needed: they share chunks of memory, so one
// message keeps the others' bytes too.
type Batch struct {
	Left  int
	Bytes int64
}

// Done takes note that one message of the batch is not needed any more.
func (b *Batch) Done(m *Budget) {
	if b == nil {
		return
	}
	if b.Left--; b.Left == 0 {
		m.release(b.Bytes)
	}
}
