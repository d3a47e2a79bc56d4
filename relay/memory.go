package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// memory is the bound on everything queued, in bytes. The source's goroutine acquires and blocks; the engine's releases.
type memory struct {
	limit int64
	used  atomic.Int64
	freed chan struct{} // capacity 1: something was released

	mu      sync.Mutex
	blocked time.Time // since when the source waits; zero while it does not
}

func newMemory(limit int64) *memory {
	return &memory{limit: limit, freed: make(chan struct{}, 1)}
}

// acquire waits until n bytes fit. What is larger than the whole bound passes when it is alone, or it would wait for ever.
func (m *memory) acquire(ctx context.Context, n int64) error {
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

func (m *memory) release(n int64) {
	m.used.Add(-n)
	select {
	case m.freed <- struct{}{}:
	default:
	}
}

func (m *memory) setBlocked(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.IsZero() || m.blocked.IsZero() {
		m.blocked = t
	}
}

// starved is how long the source has been waiting for memory.
func (m *memory) starved(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked.IsZero() {
		return 0
	}
	return now.Sub(m.blocked)
}

// waits tells whether the source waits for memory.
func (m *memory) waits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.blocked.IsZero()
}

// batchMemory gives a batch's bytes back once none of its messages is needed: they share chunks of memory, so one
// message keeps the others' bytes too.
type batchMemory struct {
	left  int
	bytes int64
}

func (b *batchMemory) done(m *memory) {
	if b == nil {
		return
	}
	if b.left--; b.left == 0 {
		m.release(b.bytes)
	}
}
