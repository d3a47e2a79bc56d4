package stream

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

const (
	// farBehind: if the reader is further behind, throughput counts more than a fraction of a millisecond.
	farBehind = time.Second
	// gatherTime is how long a batch waits for more if the reader is far behind, because each batch wakes the engine and its sinks.
	gatherTime = 2 * time.Millisecond

	// A server that is shutting down asks for replies without end until all is confirmed. After pingLimit of them, each less than pingWindow after
	// the one before, the stream ends, so that the server can stop.
	pingLimit  = 30
	pingWindow = time.Second
)

var errServerStopping = errors.New("read replication stream: the server is shutting down")

// batchState is the batch that is being filled, and how far the stream has come.
type batchState struct {
	batch batches.Filler
	// done: everything that ends at or before it is emitted or in the batch. Reported is the highest Resume emitted.
	done, reported pgrepl.LSN
	// measured: the log up to it is in a batch's LogBytes.
	measured pgrepl.LSN
	// ended: all transactions with messages in the batch have ended, and the batch has no mark for that yet.
	ended bool
	// owed: messages of a transaction were emitted without a Resume, so its end is emitted at once, even alone.
	owed bool
	// begun: messages of the transaction that is open were emitted.
	begun bool
	// urgent: the server asked for a reply; progress is not held back.
	urgent bool
}

// add takes a message into the batch.
func (st *stream) add(ctx context.Context, m *outbox.Message, bytes int) error {
	switch {
	case st.ended:
		st.batch.Mark(st.resume(st.done))
		st.ended, st.owed = false, false // the mark covers the end that was owed
	case st.owed && !st.begun: // emit the previous transaction's end now, not with this one's
		if err := st.flush(ctx); err != nil {
			return err
		}
	}
	st.batch.Add(m, bytes)
	if st.batch.Full() {
		return st.flush(ctx)
	}
	return nil
}

// transactionEnd notes that everything before a position is complete.
func (st *stream) transactionEnd(ctx context.Context, end pgrepl.LSN) error {
	st.open = false
	st.done = max(st.done, end)
	st.ended = st.batch.Len() > 0
	if st.batch.Enough() {
		if err := st.flush(ctx); err != nil {
			return err
		}
	}
	if st.source.barriers.Waiting() {
		return st.passBarriers(ctx)
	}
	return nil
}

func (st *stream) resume(at pgrepl.LSN) source.Resume {
	var b [17]byte
	return source.Resume(st.dec.Text(at.Append(b[:0])))
}

// flush emits the batch. If no transaction with messages in it is open, it also emits the position that is owed.
func (st *stream) flush(ctx context.Context) error {
	inside := st.open && !st.ended && (st.begun || st.batch.Len() > 0)
	if st.batch.Len() == 0 && (inside || !st.owed) {
		return nil
	}
	b := st.batch.Take(&st.dec.Arena, st.batch.Len())
	st.ended = false
	if inside {
		st.owed, st.begun = true, true
	} else {
		b.Resume = st.resume(st.done)
		st.reported, st.owed = st.done, false
	}
	return st.send(ctx, b)
}

// send emits one batch.
func (st *stream) send(ctx context.Context, b *source.Batch) error {
	// What is received is set before, so that a confirmation can never be ahead of it.
	st.status.received.Store(uint64(st.done))
	if end := pgrepl.LSN(st.watch.logEnd.Load()); end > st.done {
		b.CommitLag = int64(end - st.done)
	}
	b.LogBytes, st.measured = int64(st.done-st.measured), st.done
	st.wire.Behind = len(b.Messages) > 0 && time.Since(st.at) > farBehind
	st.countIgnored()
	err := st.emit(ctx, b)
	st.lastEmitted = time.Now()
	return err
}

// pause is called before a read blocks. It emits all that is complete, except for bare progress and for messages of long ago, which it may hold back;
// then the read blocks until deadline at most.
func (st *stream) pause(ctx context.Context) (deadline time.Time, err error) {
	if st.wire.Behind && !st.urgent && st.batch.Len() > 0 && !st.source.barriers.Waiting() {
		if due := st.lastEmitted.Add(gatherTime); time.Now().Before(due) {
			return due, nil
		}
	}
	if err := st.flush(ctx); err != nil {
		return time.Time{}, err
	}
	st.status.received.Store(uint64(st.done))
	st.countIgnored()
	if st.open {
		return time.Time{}, nil
	}
	if st.source.barriers.Waiting() {
		if err := st.passBarriers(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if st.done <= st.reported {
		return time.Time{}, nil
	}
	due := st.lastEmitted.Add(batches.ProgressTime)
	if !st.urgent && st.done-st.reported < batches.ProgressBytes && time.Now().Before(due) {
		return due, nil
	}
	return time.Time{}, st.progress(ctx)
}

// progress emits a position without messages.
func (st *stream) progress(ctx context.Context) error {
	st.owed = true
	st.urgent = false
	return st.flush(ctx)
}

// passBarriers emits the barriers that the stream has passed, after everything before them.
func (st *stream) passBarriers(ctx context.Context) error {
	if err := st.flush(ctx); err != nil {
		return err
	}
	return st.source.barriers.Pass(uint64(st.done), func(text string) error {
		if st.done > st.reported {
			if err := st.progress(ctx); err != nil {
				return err
			}
		}
		return st.send(ctx, &source.Batch{Barrier: text})
	})
}
