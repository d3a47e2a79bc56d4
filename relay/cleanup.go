package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

const (
	// cleanFirst is how long after a start delivered rows are first looked for whose retention is over.
	cleanFirst = time.Minute
	// cleanPause is the least pause between two portions. It is cleanShare times as long as the portion took: what operators
	// and applications want of the database comes first.
	cleanPause = 20 * time.Millisecond
	cleanShare = 4
)

// cleanState is where the removal of delivered rows stands.
type cleanState struct {
	cleanAt time.Time // of the next portion
	cleaned string    // cursor of the store
}

// cleans tells whether delivered rows are removed at all.
func (e *engine) cleans() bool {
	_, ok := e.store.(checkpoint.Cleaner)
	return ok && e.cfg.Cleanup > 0 && e.phase == phaseTailing
}

// cleanNow removes a portion of delivered rows, when the store has nothing else to do.
func (e *engine) cleanNow(now time.Time) bool {
	if !e.cleans() {
		return false
	}
	if e.cleanAt.IsZero() {
		e.cleanAt = now.Add(min(cleanFirst, e.cfg.Cleanup))
	}
	if now.Before(e.cleanAt) {
		return false
	}
	cleaner, at := e.store.(checkpoint.Cleaner), e.cleaned
	e.operate(func(ctx context.Context) (func(), error) {
		removed, next, err := cleaner.Clean(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("remove delivered rows: %w", err)
		}
		return func() {
			end := time.Now()
			e.cleaned = next
			if e.cleanAt = end.Add(max(cleanShare*end.Sub(now), cleanPause)); next == "" {
				e.cleanAt = end.Add(e.cfg.Cleanup)
			}
			if f := e.cfg.Events.Cleaned; f != nil && removed > 0 {
				f(removed)
			}
		}, nil
	})
	return true
}
