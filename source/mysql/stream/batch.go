package stream

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// markEvery is how many messages there are between two marks at least.
const markEvery = 16

// outgoing is the batch that is being filled, and how far the stream has come.
type outgoing struct {
	batch batches.Filler
	// done: everything that ends at or before it is emitted or in the batch. Reported is the highest Resume emitted.
	done, reported binlog.Position
	// ended: all transactions with messages in the batch have ended, at done, which no mark says yet.
	ended bool
	// owed: messages of a transaction were emitted without a Resume, so its end is emitted at once, even alone.
	owed      bool
	markEvery int
	// moved: the log has moved on by more than what the relay itself writes.
	moved bool
	// refused: a batch was not taken, so that none behind it may be emitted.
	refused bool
}

// add takes a message into the batch.
func (st *stream) add(ctx context.Context, m *outbox.Message, bytes int) error {
	if st.out.ended {
		st.out.ended = false
		if st.out.batch.Unmarked() >= st.out.markEvery {
			st.out.batch.Mark(st.resume())
		}
	}
	if st.out.batch.Len() > 0 && !st.out.batch.Fits(bytes) {
		if err := st.flush(ctx, true); err != nil {
			return err
		}
	}
	st.out.batch.Add(m, bytes)
	if st.out.batch.Full() {
		return st.flush(ctx, true)
	}
	return nil
}

// transactionEnd notes that everything before the present place is complete.
func (st *stream) transactionEnd(ctx context.Context) error {
	if st.out.done.Before(st.cur) {
		st.out.done = st.cur
	}
	st.out.ended = st.out.batch.Len() > 0
	if st.out.batch.Enough() {
		if err := st.flush(ctx, true); err != nil {
			return err
		}
	}
	if st.source.barriers.Waiting() {
		return st.passBarriers(ctx)
	}
	return nil
}

// resume is where reading can start again once everything up to done is settled.
func (st *stream) resume() source.Resume {
	if st.moving != nil && !st.out.done.Before(st.settled) {
		st.moving = nil
	}
	if m := st.moving; m != nil {
		r := resume{place: m.place, created: m.created, server: m.server, gtids: st.gtids, from: m.from}
		return source.Resume(r.String())
	}
	r := resume{place: st.out.done, created: st.created, server: st.dump.server.ID, gtids: st.gtids, from: st.xa.oldest()}
	st.resumeBuf = r.append(st.resumeBuf[:0])
	return source.Resume(st.dec.Text(st.resumeBuf))
}

// flush emits the batch, and with it, outside of a transaction, what is owed. Of a transaction that is open, what there is of it is
// held back unless all is asked for: until its end it could still be rolled back.
func (st *stream) flush(ctx context.Context, all bool) error {
	n := st.out.batch.Len()
	if st.tx.open && !all {
		n = st.tx.first
	}
	inside := st.tx.open && (n > st.tx.first || st.tx.emitted > 0)
	if n == 0 && (inside || !st.out.owed) {
		return nil
	}
	b := st.out.batch.Take(&st.dec.Arena, n)
	st.out.ended = st.out.ended && n == 0
	if inside {
		st.out.owed = true
		st.tx.emitted += n - st.tx.first
	} else {
		b.Resume = st.resume()
		st.out.reported, st.out.owed, st.out.moved = st.out.done, false, false
	}
	st.tx.first = 0
	return st.send(ctx, b)
}

// send emits one batch.
func (st *stream) send(ctx context.Context, b *source.Batch) error {
	b.CommitLag = st.watch.behind(st.out.done)
	st.countIgnored()
	err := st.emit(ctx, b)
	st.out.refused = st.out.refused || err != nil
	st.lastEmitted = time.Now()
	st.wire.Touch(st.lastEmitted) // while emit blocked, nobody listened
	return err
}

// pause is called before reading blocks: nothing that is complete is held back. Only bare progress may be; then reading
// blocks until the deadline at most.
func (st *stream) pause(ctx context.Context) (deadline time.Time, err error) {
	if err := st.flush(ctx, false); err != nil {
		return time.Time{}, err
	}
	st.countIgnored()
	if st.tx.open || !st.opened || st.cur.Before(st.skip) {
		return time.Time{}, nil
	}
	if st.source.barriers.Waiting() {
		if err := st.passBarriers(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if !st.out.reported.Before(st.out.done) {
		return time.Time{}, nil
	}
	far := st.out.done.File != st.out.reported.File || st.out.done.Pos-st.out.reported.Pos >= batches.ProgressBytes
	if !st.out.moved && !far {
		return time.Time{}, nil // what the relay itself has written is no progress
	}
	due := st.lastEmitted.Add(batches.ProgressTime)
	if !far && time.Now().Before(due) {
		return due, nil
	}
	return time.Time{}, st.progress(ctx)
}

// progress emits a position without messages.
func (st *stream) progress(ctx context.Context) error {
	st.out.owed = true
	return st.flush(ctx, false)
}

// passBarriers emits the barriers that the stream has passed, after everything before them.
func (st *stream) passBarriers(ctx context.Context) error {
	return st.source.barriers.Pass(st.out.done.Ordinal(), func(text string) error {
		if err := st.flush(ctx, false); err != nil {
			return err
		}
		if st.out.reported.Before(st.out.done) && !st.tx.open {
			if err := st.progress(ctx); err != nil {
				return err
			}
		}
		return st.send(ctx, &source.Batch{Barrier: text})
	})
}
