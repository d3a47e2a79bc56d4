package sourcetest

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// testCheckpointRoundTrip: a checkpoint comes back as it was saved, over the session's end.
func testCheckpointRoundTrip(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	loaded := r.open()
	if loaded.Checkpoint != nil || loaded.UncleanStarts != 0 || loaded.AcceptGap || loaded.SourceID == "" {
		t.Errorf("loaded from an empty database: %+v", loaded)
	}
	p := func(commit uint64, n uint32) outbox.Position { return outbox.Position{Log: 3, Commit: commit, N: n} }
	want := &checkpoint.Checkpoint{SourceID: "a server: 7/1", Resume: "somewhere=0/16B3748", Log: math.MaxUint32, LastCommit: math.MaxUint64,
		SettledAbove: map[string][]checkpoint.Range{"kafka": {{First: p(5, 0), Last: p(5, 9)}, {First: p(7, 1), Last: p(8, 0)}},
			"": {{First: p(6, 0), Last: p(6, 0)}}, `q"uote.$`: {{First: p(9, 9), Last: p(9, math.MaxUint32)}}}, SweepPending: true}
	for i := range uint64(5000) { // as many as a stuck lane leaves behind it
		want.SettledAbove["busy"] = append(want.SettledAbove["busy"], checkpoint.Range{First: p(100+2*i, 0), Last: p(100+2*i, 3)})
	}
	r.must(r.st.Save(r.ctx, want), "save")
	if got := r.reopen().Checkpoint; !reflect.DeepEqual(got, want) {
		t.Errorf("loaded a checkpoint that is not what was saved: %.2000v", got)
	}
	want.SettledAbove, want.SweepPending, want.Resume = nil, false, "elsewhere"
	calls := 0
	out := r.settle(checkpoint.Settlement{Checkpoint: func(invisible []int) *checkpoint.Checkpoint {
		calls++
		if len(invisible) != 0 {
			t.Errorf("invisible %v without rows", invisible)
		}
		return want
	}})
	if !out.Saved || calls == 0 {
		t.Errorf("saved %v after %d calls", out.Saved, calls)
	}
	out = r.settle(checkpoint.Settlement{Checkpoint: func([]int) *checkpoint.Checkpoint { return nil }})
	if out.Saved {
		t.Error("saved a checkpoint that was left alone")
	}
	loaded = r.reopen()
	equal(t, "loaded", loaded.Checkpoint, want)
	examined, err := r.src.Examine(r.ctx, "", "")
	r.must(err, "examine")
	equal(t, "source id, as the store and the source name it", loaded.SourceID, examined.SourceID)
}

// testSettleRows: a row whose message is settled is deleted, marked or kept, and no other one.
func testSettleRows(t *testing.T, k Kind) {
	for _, c := range []struct {
		name  string
		table Table
		want  string
	}{
		{"delete", table("debezium", "outbox"), "2"},
		{"delete with status", table("tailbox", "outbox").with(outbox.Delete), "2 pending 0"},
		{"mark", table("tailbox", "outbox"), "1 delivered 1 !, 2 pending 0, 3 delivered 1 !"},
		{"keep", table("tailbox", "outbox").with(outbox.Keep), "1 pending 0, 2 pending 0, 3 pending 0"},
		{"keep without status", table("debezium", "outbox").with(outbox.Keep), "1, 2, 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{c.table}})
			r.insert(rows(1, 3, "g")...)
			settled := checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(1, "g"), false), RowOf(r.msg(3, "g"), true)}}
			equal(t, "settled", *r.settle(settled), checkpoint.Settled{})
			equal(t, "rows", r.rows(), c.want)
			if c.table.OnDelivered == outbox.Keep {
				// Nothing that is parked changes them either.
				m := r.msg(2, "g")
				r.parkWhole(Dead("kafka", m, true))
				equal(t, "rows with one parked", r.rows(), c.want)
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", m)}})
				equal(t, "rows with one delivered", r.rows(), c.want)
				equal(t, "parked", r.parked(), "")
			}
			// A crash before the answer: it is all settled again.
			settled.Rows = settled.Rows[:1]
			again := r.settle(settled)
			if len(again.Invisible) != 0 {
				t.Errorf("settled again: %+v", *again)
			}
			equal(t, "number of rows after a second settlement", len(strings.Split(r.rows(), ",")), len(strings.Split(c.want, ",")))
		})
	}
}

// testSettleNothing: what is empty does nothing, and what a context ended did nothing.
func testSettleNothing(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	equal(t, "settled", *r.settle(checkpoint.Settlement{}), checkpoint.Settled{})
	m := r.msg(1, "g")
	r.insert(row(1, "g"))
	// Changes to what is not parked, because it was delivered before an answer was lost.
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", m), Retried("kafka", m, 2, 0)}})
	equal(t, "next", lanesText(out.Next), "")
	equal(t, "parked", r.parked(), "")
	equal(t, "rows", r.rows(), "1")
	ctx, cancel := r.endedContext()
	defer cancel()
	if _, err := r.st.Settle(ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{Head("kafka", r.msg(2, "g"), 0)}, Rows: []checkpoint.Row{RowOf(m, false)},
		Checkpoint: func([]int) *checkpoint.Checkpoint {
			return &checkpoint.Checkpoint{SourceID: "s", Resume: "here", Log: 1}
		}}); err == nil {
		t.Error("Settle succeeded with a context that had ended")
	}
	equal(t, "parked", r.parked(), "")
	equal(t, "rows", r.rows(), "1")
	_ = r.st.Close(r.ctx) // the session may have gone with the context
	if c := r.takeOver().Checkpoint; c != nil && c.Resume == "here" {
		t.Errorf("a checkpoint was saved with a context that had ended: %+v", *c)
	}
}
