package sourcetest

import (
	"context"
	"errors"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// testLock: one store at a time; the next one gets in when the first has left, and needs no more than that.
func testLock(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	if st, err := r.db.Store(r.ctx); !errors.Is(err, checkpoint.ErrLocked) || st != nil {
		t.Fatalf("a second store: %v, want ErrLocked", err)
	}
	r.wantHeld()
	for range 3 {
		r.reopen()
	}
	r.wantHeld()
	if _, err := r.db.Store(r.ctx); !errors.Is(err, checkpoint.ErrLocked) {
		t.Fatalf("a store beside one that was opened again: %v, want ErrLocked", err)
	}
	r.must(r.st.Close(r.ctx), "close")
	if _, err := r.st.Ping(r.ctx); err == nil {
		t.Error("a store that was closed still holds the lock")
	}
}

// testFence: whoever lost the session can neither write nor believe that it holds the lock (R12, I8). Its successor's
// state stays as it is.
func testFence(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 3, "g")...)
	r.must(r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: "first", Log: 1}), "save")
	old := r.st
	r.must(k.Kill(r.ctx, r.db, old), "kill the session")
	r.takeOver()
	r.must(r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: "second", Log: 1}), "save")
	r.park(Head("kafka", r.msg(3, "g"), 0))
	late := &checkpoint.Checkpoint{SourceID: "s", Resume: "late", Log: 1}
	for what, do := range map[string]func(context.Context) error{
		"settle": func(ctx context.Context) error {
			_, err := old.Settle(ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{Head("kafka", r.msg(2, "g"), 0)},
				Changes:    []checkpoint.Change{Delivered("kafka", r.msg(3, "g"))},
				Rows:       []checkpoint.Row{RowOf(r.msg(1, "g"), false)},
				Checkpoint: func([]int) *checkpoint.Checkpoint { return late }})
			return err
		},
		"save": func(ctx context.Context) error { return old.Save(ctx, late) },
		"ping": func(ctx context.Context) error {
			_, err := old.Ping(ctx)
			return err
		},
		"starting": func(ctx context.Context) error {
			return old.Starting(ctx, checkpoint.CrashCandidate{Position: r.msg(1, "g").Position, Times: 1})
		},
	} {
		if err := do(r.ctx); err == nil || errors.Is(err, source.ErrStop) {
			t.Errorf("%s on a lost session: %v, want an error that is none of the operator's", what, err)
		}
	}
	_ = old.Close(r.ctx) // it may say that the session is gone
	equal(t, "rows", r.rows(), "1 pending 0, 2 pending 0, 3 pending 0")
	equal(t, "parked", r.parked(), "kafka:3 retrying!@")
	equal(t, "checkpoint", r.reopen().Checkpoint.Resume, "second")
}

// takeOver opens the store as a standby does: as soon as the lock is free.
func (r *rig) takeOver() *checkpoint.Loaded {
	r.t.Helper()
	var st checkpoint.Store
	r.until("the lock of a session that is gone", func() bool {
		var err error
		if st, err = r.db.Store(r.ctx); errors.Is(err, checkpoint.ErrLocked) {
			return false
		}
		r.must(err, "open store")
		return true
	})
	return r.use(st)
}
