package store

import (
	"context"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// A Memory is what a store keeps a copy of while it holds the lock.
type Memory struct {
	// Holds and Sinks mirror the database: lanes under a hold, and sinks with parked deliveries (or a superset).
	Holds HeldLanes
	Sinks map[string]bool
	// Unclean: this start counts as unclean. UncleanBefore is the count that Load found. Started: the message that a start in safe mode has in hand
	// is on record.
	Unclean, Started bool
	UncleanBefore    int
	// Log and Resume are those of the saved checkpoint; Gap is the highest accept-gap request that Load saw.
	Log    uint32
	Resume source.Resume
	Gap    int64
	// Unfinished: there are parked deliveries whose row was locked when it was to be dealt with.
	Unfinished bool
	Finisher   Finisher
}

// NewMemory returns the Memory of a store that has read nothing yet.
func NewMemory() Memory { return Memory{Holds: make(HeldLanes), Sinks: make(map[string]bool)} }

// Forget makes the copy of the database that of a store that has read nothing yet.
func (m *Memory) Forget() { m.Holds, m.Sinks = make(HeldLanes), make(map[string]bool) }

// Held implements Requests.
func (m *Memory) Held() HeldLanes { return m.Holds }

// WithParked returns those of the sinks that may have parked deliveries. Sinks is current only while the store holds the lock, or has just read it.
func (m *Memory) WithParked(sinks []string) []string {
	return slices.DeleteFunc(slices.Clone(sinks), func(name string) bool { return !m.Sinks[name] })
}

// Loaded adds the pauses, holds and accepted gap to what Load has read, and notes it in m. The start counts as unclean until something is settled.
func (m *Memory) Loaded(l *checkpoint.Loaded, fs Forces) {
	l.PausedSinks, l.HeldLanes, l.AcceptGap = fs.Sinks(), SortedLanes(m.Holds), m.Gap != 0
	m.Unclean, m.UncleanBefore, m.Started = true, l.UncleanStarts, l.Started != (checkpoint.CrashCandidate{})
	if l.Checkpoint != nil {
		m.Log, m.Resume = l.Checkpoint.Log, l.Checkpoint.Resume
	}
}

// Saved notes what a committed checkpoint means.
func (m *Memory) Saved(c *checkpoint.Checkpoint) {
	if c.Log != m.Log {
		m.Log, m.Gap = c.Log, 0
	}
	m.Resume = c.Resume
	m.SettledOnce()
}

// SettledOnce notes that something was settled: the start was a clean one.
func (m *Memory) SettledOnce() { m.Unclean, m.Started, m.UncleanBefore = false, false, 0 }

// unfinishedChunk is how many unfinished messages are tried at once.
const unfinishedChunk = 500

// Finish tries again to deal with rows that were locked, or that the database refused to change, when their message was settled. Find names
// the messages, at most limit.
func (m *Memory) Finish(ctx context.Context, find func(ctx context.Context, limit int) ([]MessageKey, error)) error {
	if !m.Unfinished || m.Finisher.Rests() {
		return nil
	}
	keys, err := find(ctx, unfinishedChunk)
	if err != nil {
		return err
	}
	m.Unfinished = len(keys) == unfinishedChunk // If find returned fewer, these were all. A settlement sets Unfinished again if it leaves another row
	if len(keys) == 0 {
		return nil
	}
	left, err := m.Finisher.Finish(ctx, keys)
	m.Unfinished = m.Unfinished || left
	return err
}
