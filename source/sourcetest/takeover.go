package sourcetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// testSecondRelay: a relay that starts beside one that holds the lock waits, and does not disturb it; when the first one is gone, it
// goes on from the first one's checkpoint, and what was not settled comes again, at the same positions.
func testSecondRelay(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	r.must(r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: from, Log: 1}), "save")
	r.insert(rows(0, 5, "g")...)
	x := r.read(source.Start{From: from, Log: 1})
	ms, resume := x.messages(5)
	r.untilVisible(ms...)
	c := &checkpoint.Checkpoint{SourceID: "s", Resume: resume, Log: 1, LastCommit: ms[4].Position.Commit}
	r.must(r.st.Save(r.ctx, c), "save")
	locked := func() {
		t.Helper()
		if st, err := r.db.Store(r.ctx); !errors.Is(err, checkpoint.ErrLocked) || st != nil {
			t.Fatalf("a second relay's store: %v, want ErrLocked", err)
		}
	}
	locked()
	r.insert(rows(5, 5, "g")...)
	unsettled, _ := x.messages(5)
	locked()
	r.wantHeld()
	x.stop()
	r.must(r.st.Close(r.ctx), "close the first relay's store")
	loaded := r.takeOver()
	equal(t, "checkpoint", *loaded.Checkpoint, *c)
	again, _ := r.readWith(r.db.Source(), source.Start{From: loaded.Checkpoint.Resume, Log: 1, LastCommit: loaded.Checkpoint.LastCommit}).messages(5)
	same(t, unsettled, again)
	r.untilVisible(again...)
}

// testFrozenHolder: the process that holds the lock stops in the middle of a settlement, for as long as you like. Another relay takes
// over by the server's own timeouts, nothing of the settlement is to be seen, none of its locks is in the way, and when the
// process goes on it cannot end what it had begun (R12, I8).
func testFrozenHolder(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 3, "g")...)
	r.must(r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: "first", Log: 1}), "save")
	old, inside, goOn, done := r.st, make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	thaw := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(thaw)
	go func() {
		_, err := old.Settle(r.ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{Head("kafka", r.msg(2, "g"), 0)},
			Rows: []checkpoint.Row{RowOf(r.msg(1, "g"), false), RowOf(r.msg(2, "g"), true)},
			Checkpoint: func([]int) *checkpoint.Checkpoint {
				once.Do(func() { close(inside) })
				<-goOn
				return &checkpoint.Checkpoint{SourceID: "s", Resume: "late", Log: 1}
			}})
		done <- err
	}()
	select {
	case <-inside:
	case err := <-done:
		t.Fatalf("settle ended before its checkpoint was asked for: %v", err)
	case <-r.ctx.Done():
		t.Fatal("settle never asks for its checkpoint")
	}
	equal(t, "checkpoint", r.takeOver().Checkpoint.Resume, "first")
	equal(t, "rows", r.rows(), "1 pending 0, 2 pending 0, 3 pending 0")
	out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(1, "g"), false)}})
	equal(t, "settled", *out, checkpoint.Settled{})
	r.park(Head("kafka", r.msg(3, "g"), 0))
	r.must(r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: "second", Log: 1}), "save")
	thaw()
	if err := <-done; err == nil || errors.Is(err, source.ErrStop) {
		t.Errorf("a settlement that was frozen until another relay had taken over: %v, want an error that is none of the operator's", err)
	}
	if _, err := old.Ping(r.ctx); err == nil {
		t.Error("the old session believes that it holds the lock")
	}
	_ = old.Close(r.ctx) // it may say that the session is gone
	equal(t, "rows", r.rows(), "1 delivered 1 !, 2 pending 0, 3 pending 0")
	equal(t, "parked", r.parked(), "kafka:3 retrying!@")
	equal(t, "checkpoint", r.reopen().Checkpoint.Resume, "second")
}
