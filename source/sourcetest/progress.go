package sourcetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// testProgress: while only others write, the places to resume move on, and one of them loses nothing.
func testProgress(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(row(1, "g"))
	from := r.establish()
	x := r.read(source.Start{From: from})
	var traffic sync.WaitGroup
	ctx, cancel := context.WithCancel(r.ctx)
	traffic.Go(func() {
		c := r.conn()
		for ctx.Err() == nil {
			if err := c.Update(r.ctx, r.tables[0], row(1, "g")); err != nil {
				t.Errorf("update: %v", err)
				return
			}
		}
	})
	defer traffic.Wait()
	defer cancel()
	var moved source.Resume
	for range 2 { // the second one comes after the first: it is no word for the start only
		for before := max(moved, from); moved == "" || moved == before; {
			b := x.next("progress without messages")
			if len(b.Messages) > 0 {
				t.Fatalf("got %s", ids(b.Messages))
			}
			if b.Resume != "" {
				moved = b.Resume
				r.src.Confirm(moved)
			}
		}
	}
	x.stop()
	cancel()
	traffic.Wait()
	r.insert(row(2, "g"))
	if ms, _ := r.read(source.Start{From: moved}).messages(1); ms[0].ID != EventID(2) {
		t.Errorf("from %s got %s", moved, ids(ms))
	}
}

// testConfirm: what is confirmed may be discarded, and nothing else: reading from before it fails as a gap or brings it
// all again. Confirming what is no place in the log, or none that was read, does no harm.
func testConfirm(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	r.src.Confirm("") // before Run
	r.src.Confirm("no place")
	r.insert(row(1, "g"))
	x := r.read(source.Start{From: from})
	_, first := x.messages(1)
	r.src.Confirm(first)
	r.src.Confirm(from) // backwards
	r.insert(row(2, "g"))
	ms, _ := x.messages(1)
	two := ms[0]
	x.stop()
	x = r.read(source.Start{From: first, LastCommit: x.seen[0].m.Position.Commit})
	ms, _ = x.messages(1)
	same(t, []*outbox.Message{two}, ms)
	x.stop()
	x = r.readWith(r.db.Source(), source.Start{From: from})
	select {
	case b := <-x.batches:
		if x.check(b); len(b.Messages) > 0 && b.Messages[0].ID != EventID(1) {
			t.Errorf("read again from before what was confirmed, the first message is %s: what is before it is lost without a word", ids(b.Messages))
		}
	case err := <-x.done:
		if x.ended, x.err = true, err; !errors.Is(err, source.ErrGap) {
			t.Errorf("reading from before what was confirmed failed with %v, want ErrGap", err)
		}
	case <-time.After(patience):
		t.Fatalf("waited %v for: a batch, or an error", patience)
	}
}

// barrier asks the store for one.
func (r *rig) barrier() *checkpoint.PendingRows {
	r.t.Helper()
	rows, err := r.st.Pending(r.ctx, "", 10)
	r.must(err, "list pending rows")
	if rows.Barrier == "" {
		r.t.Fatal("a list of pending rows without a barrier")
	}
	return rows
}

// until reads up to a barrier and returns the messages before it.
func (x *reader) until(barrier string) (ms []*outbox.Message) {
	x.r.t.Helper()
	for {
		b := x.next("the barrier " + barrier)
		if ms = append(ms, b.Messages...); b.Barrier == barrier {
			return ms
		}
	}
}

// testBarrier: a barrier comes after all that was committed before it was asked for, and has an ordinal between that
// and what comes later.
func testBarrier(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	x := r.read(source.Start{From: r.establish()})
	n := 0
	for round := range 5 {
		count := []int{3, 0, 2000, 1, 0}[round]
		for range count / 500 {
			r.insert(rows(n, 500, "g")...)
			n += 500
		}
		r.insert(rows(n, 1, "g")...)
		n++
		pending := r.barrier()
		r.src.Await(pending.Barrier)
		ms := x.until(pending.Barrier)
		if want := count/500*500 + 1; len(ms) != want {
			t.Fatalf("round %d: %d messages before the barrier, want %d", round, len(ms), want)
		}
		// Rows that a reconciliation finds get the barrier's ordinal: at or after what is before it.
		if last := ms[len(ms)-1].Position; pending.Commit < last.Commit && pending.Commit != 0 {
			t.Errorf("the barrier's ordinal is %d, and a message before it has %s", pending.Commit, last)
		}
	}
	// One in the middle of what waits to be read: it comes after what was before it, and before the end of the rest.
	r.insert(row(n, "g"))
	x.next("a message")
	for range 50 { // the reader may hold one batch already; these are in the log
		n++
		r.insert(row(n, "g"))
	}
	middle := r.barrier().Barrier
	before := n
	for range 50 {
		n++
		r.insert(row(n, "g"))
	}
	r.src.Await(middle)
	x.until(middle)
	if last := x.seen[len(x.seen)-1].m; last.ID < EventID(before) {
		t.Errorf("a barrier comes after message %s, and before message %d that was committed before it", Short(last.ID), before)
	}
	// Two at once, in order; and one that nobody waits for is no trouble.
	first, second := r.barrier().Barrier, r.barrier().Barrier
	r.src.Await(first)
	r.src.Await(second)
	x.until(first)
	x.until(second)
	r.src.Await(r.barrier().Barrier)
	x.stop()
}

// testStop: Run ends with its context at any moment, without an error.
func testStop(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	for i := range 4 {
		r.insert(rows(500*i, 500, "g")...)
	}
	for i := range 24 {
		ctx, cancel := context.WithTimeout(r.ctx, time.Duration(i)*4*time.Millisecond)
		taken := make(chan struct{})
		if err := r.src.Run(ctx, source.Start{From: from}, func(ctx context.Context, _ *source.Batch) error {
			if i%3 == 0 {
				return nil
			}
			select {
			case taken <- struct{}{}: // nobody takes it
			case <-ctx.Done():
			}
			return ctx.Err()
		}); err != nil {
			t.Errorf("ended after %d ms, Run returned %v, want nil", i*4, err)
		}
		cancel()
	}
	// The source is as good as ever.
	if ms, _ := r.read(source.Start{From: from}).messages(2000); ms[1999].ID != EventID(1999) {
		t.Errorf("after many ends the last message is %s", Short(ms[1999].ID))
	}
}

// testEmitError: what emit returns ends Run and comes back as it is.
func testEmitError(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	r.insert(rows(0, 100, "g")...)
	own := errors.New("the relay's own")
	done := make(chan error, 1)
	go func() {
		done <- r.src.Run(r.ctx, source.Start{From: from}, func(context.Context, *source.Batch) error { return own })
	}()
	select {
	case err := <-done:
		if err != own { //nolint:errorlint // the contract says unchanged
			t.Errorf("Run returned %v, want exactly what emit returned", err)
		}
	case <-time.After(patience):
		t.Fatalf("waited %v for: the end of Run after an error of emit", patience)
	}
	if ms, _ := r.read(source.Start{From: from}).messages(100); ms[0].ID != EventID(0) {
		t.Errorf("read again, the first message is %s", Short(ms[0].ID))
	}
}

// testSafeMode: in a cautious start each message is announced by its position before it is decoded, and comes alone. The
// positions are those of any other start.
func testSafeMode(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	r.insert(rows(0, 3, "g")...)
	r.insert(row(3, "g"))
	x := r.read(source.Start{From: from})
	want, _ := x.messages(4)
	x.stop()
	asked := make(chan outbox.Position, 100)
	x = r.read(source.Start{From: from, SafeMode: func(_ context.Context, p outbox.Position) error {
		asked <- p
		return nil
	}})
	var got []*outbox.Message
	for resumed := false; len(got) < 4 || !resumed; {
		b := x.next("messages one by one")
		if len(b.Messages) > 1 {
			t.Fatalf("a batch of %d messages", len(b.Messages))
		}
		for _, m := range b.Messages {
			select {
			case p := <-asked:
				equal(t, "announced position", p, m.Position)
			default:
				t.Fatalf("message %s was not announced", m.Position)
			}
			got = append(got, m)
		}
		resumed = b.Resume != ""
	}
	x.stop()
	same(t, want, got)
	own := errors.New("the relay's own")
	x = r.read(source.Start{From: from, SafeMode: func(context.Context, outbox.Position) error { return own }})
	if err := x.wait(); !errors.Is(err, own) {
		t.Errorf("Run returned %v, want what SafeMode returned", err)
	}
	equal(t, "messages that were emitted without leave", len(x.seen), 0)
}

// testBlockedEmit: a relay that takes nothing for longer than the server's patience keeps its connection.
func testBlockedEmit(t *testing.T, k Kind) {
	if testing.Short() {
		t.Skip("takes as long as the server's patience")
	}
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	x := r.read(source.Start{From: r.establish()})
	// More than what any buffer on the way holds.
	const n, chunk = 40, 250
	for i := range n {
		ms := rows(i*chunk, chunk, "g")
		for _, m := range ms {
			m.Payload = make([]byte, 1500)
		}
		r.insert(ms...)
	}
	r.must(k.Outlast(r.ctx, r.db), "outlast the server's patience")
	ms, _ := x.messages(n * chunk)
	equal(t, "last message", Short(ms[len(ms)-1].ID), Short(EventID(n*chunk-1)))
	r.insert(row(n*chunk, "g"))
	x.messages(1)
}
