package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// Unmarked decides whether the rows in a table are swept at a new position, if no column says which of them are pending. fix is not "" if tailbox
// cannot decide that: if the table has rows, an operator must do what fix says. start is source.start.
func Unmarked(t *outbox.Table, start string, known source.Known) (sweep bool, fix string) {
	switch {
	case known.First && start == "pending":
		return true, ""
	case known.First && start == "now" && !known.Again:
		return false, ""
	case known.First && !known.Again:
		return true, "set source.start to pending (deliver them) or now (leave them out)"
	case t.OnDelivered == outbox.Delete:
		return true, "" // what is there was not delivered
	case known.First:
		return true, "those that were written since the first position was made are among them, because the sweep of other tables did not end: set source.start to " +
			"pending (deliver all of them), or run tailbox accept-gap --why … (leave all of them out)"
	}
	return true, "they cannot be swept: run tailbox accept-gap --why … to go on without them"
}

const (
	sweepMessages = 1024
	sweepBytes    = 256 << 10
)

// A Sweep numbers the rows of a snapshot in the order in which they are added (R8: position {log, 0, rank}), and emits them in batches. It is
// used by one goroutine.
type Sweep struct {
	// Log goes into the positions, Now into the messages' time of commit, which is not known any more.
	Log  uint32
	Now  time.Time
	Emit source.Emit
	// Refused is the error that Emit returned, as it is.
	Refused error

	rank  uint32
	bytes int
	batch source.Batch
}

// Add adds a row, with the sinks at which a delivery of it is parked already. If its id cannot be read, give it a stand-in id first.
func (s *Sweep) Add(ctx context.Context, m *outbox.Message, parkedAt []string) error {
	m.Position, m.CommitTime, m.Txn = outbox.Position{Log: s.Log, N: s.rank}, s.Now, 0
	s.rank++
	size := m.Bytes()
	if s.bytes > 0 && s.bytes+size > sweepBytes {
		if err := s.Flush(ctx); err != nil {
			return err
		}
	}
	b := &s.batch
	b.Messages = append(b.Messages, m)
	if parkedAt != nil && b.ParkedAt == nil {
		b.ParkedAt = make([][]string, len(b.Messages)-1, sweepMessages)
	}
	if b.ParkedAt != nil {
		b.ParkedAt = append(b.ParkedAt, parkedAt)
	}
	s.bytes += size
	if s.bytes >= sweepBytes || len(b.Messages) >= sweepMessages {
		return s.Flush(ctx)
	}
	return nil
}

// Flush emits what was added and not emitted yet.
func (s *Sweep) Flush(ctx context.Context) error {
	if len(s.batch.Messages) == 0 {
		return nil
	}
	b := s.batch
	s.batch, s.bytes = source.Batch{}, 0
	s.Refused = s.Emit(ctx, &b)
	return s.Refused
}

// PlaceFound gives rows that a reconciliation found (R11) consecutive positions, beginning at at.
func PlaceFound(ms []*outbox.Message, at outbox.Position, now time.Time) error {
	if uint64(at.N)+uint64(len(ms)) > 1<<32 {
		return fmt.Errorf("%w: number rows found missing: more than 2^32 of them", source.ErrStop)
	}
	for i, m := range ms {
		m.Position, m.CommitTime, m.Txn = outbox.Position{Log: at.Log, Commit: at.Commit, N: at.N + uint32(i)}, now, 0
	}
	return nil
}
