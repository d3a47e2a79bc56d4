package stream

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// batchState is the batch that is being filled, and how far the stream has come.
type batchState struct {
	batch batches.Filler
	// done: everything up to this time is emitted or in the batch. Reported is the highest Resume emitted.
	done, reported oplog.Time
	// open: there may be more events at the time of the last one.
	open bool
	// owed: messages were emitted without a Resume.
	owed bool
}

// complete notes that everything up to a time was read.
func (b *batchState) complete(at oplog.Time) {
	b.done, b.open = max(b.done, at), false
}

// begin takes note of an event at a time. What came before it is complete.
func (st *stream) begin(ctx context.Context, at oplog.Time) error {
	if at == st.at {
		return nil
	}
	if st.open {
		st.complete(st.at)
	}
	before := st.done
	st.done = max(st.done, at-1)
	if st.source.barriers.Waiting() {
		if err := st.passBarriers(ctx); err != nil {
			return err
		}
	}
	switch n := st.batch.Len(); {
	case n > 0 && before > st.reported:
		st.batch.Mark(st.resume(before))
	case n == 0 && st.owed:
		if err := st.progress(ctx); err != nil {
			return err
		}
	}
	st.at, st.next = at, 0
	return nil
}

// room emits what was gathered where the next message would make the batch too large.
func (st *stream) room(ctx context.Context, bytes int) error {
	if st.batch.Fits(bytes) {
		return nil
	}
	return st.flush(ctx)
}

// add takes a message into the batch.
func (st *stream) add(ctx context.Context, m *outbox.Message, bytes int) error {
	st.batch.Add(m, bytes)
	if st.batch.Full() || st.start.SafeMode != nil {
		return st.flush(ctx)
	}
	return nil
}

func (st *stream) resume(at oplog.Time) source.Resume {
	return source.Resume(st.dec.Text([]byte(at.String())))
}

// flush emits the batch.
func (st *stream) flush(ctx context.Context) error {
	if st.batch.Len() == 0 {
		return nil
	}
	b := st.batch.Take(&st.dec.Arena, st.batch.Len())
	if st.open {
		st.owed = true
		if n := len(b.Marks); n > 0 {
			st.markReported(b.Marks[n-1].Resume)
		}
	} else {
		if n := len(b.Marks); n > 0 && b.Marks[n-1].N == len(b.Messages) {
			b.Marks = b.Marks[:n-1]
		}
		b.Resume = st.resume(st.done)
		st.reported, st.owed = st.done, false
	}
	return st.send(ctx, b)
}

func (st *stream) markReported(r source.Resume) {
	if at, err := oplog.ParseTime(string(r)); err == nil { // it is our own
		st.reported = max(st.reported, at)
	}
}

func (st *stream) send(ctx context.Context, b *source.Batch) error {
	st.lastEmitted = time.Now()
	return st.emit(ctx, b)
}

// progress emits a position without messages.
func (st *stream) progress(ctx context.Context) error {
	st.reported, st.owed = st.done, false
	return st.send(ctx, &source.Batch{Resume: st.resume(st.done)})
}

// passBarriers emits the barriers that the stream has passed, after everything before them.
func (st *stream) passBarriers(ctx context.Context) error {
	if st.open {
		return nil
	}
	return st.source.barriers.Pass(uint64(st.done), func(text string) error {
		if err := st.flush(ctx); err != nil {
			return err
		}
		if st.done > st.reported {
			if err := st.progress(ctx); err != nil {
				return err
			}
		}
		return st.send(ctx, &source.Batch{Barrier: text})
	})
}
