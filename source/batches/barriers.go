package batches

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Barriers are the positions in the log for which somebody waits (source.Source.Await), as numbers that grow with the log. They are safe
// for concurrent use. The zero Barriers are empty.
type Barriers struct {
	waiting atomic.Int32 // the length of list, for the hot path
	mu      sync.Mutex
	list    []barrier
}

type barrier struct {
	text string
	at   uint64
	bad  error
}

// Add adds a barrier. If its text cannot be read, bad says why, and Pass returns that: only Run can fail.
func (b *Barriers) Add(text string, at uint64, bad error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, barrier{text, at, bad})
	b.waiting.Store(int32(len(b.list)))
}

// Waiting reports whether there is any.
func (b *Barriers) Waiting() bool { return b.waiting.Load() > 0 }

// passed removes the first barrier that is at or before a position, and returns its text.
func (b *Barriers) passed(at uint64) (text string, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.list {
		if one.bad != nil {
			return "", false, fmt.Errorf("await barrier %q: %w", one.text, one.bad)
		}
		if one.at <= at {
			b.list = slices.Delete(b.list, i, i+1)
			b.waiting.Store(int32(len(b.list)))
			return one.text, true, nil
		}
	}
	return "", false, nil
}

// Pass removes all barriers that are at or before a position, and calls emit with the text of each.
func (b *Barriers) Pass(at uint64, emit func(text string) error) error {
	for {
		text, ok, err := b.passed(at)
		if err != nil || !ok {
			return err
		}
		if err := emit(text); err != nil {
			return err
		}
	}
}

// Highest is the highest position that a barrier waits for; 0 if there is no barrier.
func (b *Barriers) Highest() (at uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.list {
		at = max(at, one.at)
	}
	return at
}

// Forget removes all, because nobody waits for them after a Run.
func (b *Barriers) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = nil
	b.waiting.Store(0)
}
