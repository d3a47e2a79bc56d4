package sourcetest

import (
	"context"
	"slices"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// testUncleanStarts: starts that end before anything was settled are counted, and so is what they were about to decode (R9).
func testUncleanStarts(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	crash := func() *checkpoint.Loaded {
		t.Helper()
		r.must(k.Kill(r.ctx, r.db, r.st), "kill the session")
		_ = r.st.Close(context.WithoutCancel(r.ctx)) // a crash would end the client, too
		return r.takeOver()
	}
	equal(t, "after one crash", crash().UncleanStarts, 1)
	equal(t, "after two", crash().UncleanStarts, 2)
	equal(t, "after a clean end that settled nothing", r.reopen().UncleanStarts, 2)
	at := checkpoint.CrashCandidate{Position: outbox.Position{Log: 1, Commit: 77, N: 3}, Times: 2}
	r.must(r.st.Starting(r.ctx, at), "record what is decoded")
	loaded := crash()
	equal(t, "after three", loaded.UncleanStarts, 3)
	equal(t, "started", loaded.Started, at)
	r.must(r.st.Starting(r.ctx, checkpoint.CrashCandidate{}), "record that it was survived")
	loaded = crash()
	equal(t, "after four", loaded.UncleanStarts, 4)
	equal(t, "started, after it was survived", loaded.Started, checkpoint.CrashCandidate{})
	r.must(r.st.Starting(r.ctx, at), "record what is decoded")
	loaded = r.reopen()
	equal(t, "after a clean end in the middle of a cautious start", loaded.UncleanStarts, 4)
	equal(t, "started, after a clean end", loaded.Started, checkpoint.CrashCandidate{})
	r.must(r.st.Starting(r.ctx, at), "record what is decoded")
	r.wantHeld()
	r.park(Head("kafka", r.msg(1, "g"), 0))
	loaded = crash()
	equal(t, "after something was settled", loaded.UncleanStarts, 0)
	equal(t, "started", loaded.Started, checkpoint.CrashCandidate{})
}

// testLoad: what blocks, and what is parked where, is found at the next start.
func testLoad(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.park(Head("b", r.msg(1, "g1"), 0), Follower("b", r.msg(2, "g1")), Follower("b", r.msg(3, "g1")), Dead("b", r.msg(4, "g2"), true),
		Dead("c", r.msg(5, "g3"), false), Dead("", r.msg(6, "g9"), true), Head("a", r.msg(7, ""), 0), Head("b", r.msg(8, "\u00e4"), 0))
	loaded := r.reopen()
	equal(t, "blocked", lanesText(loaded.Blocked), "/g9 b/g1 b/g2 b/\u00e4")
	slices.Sort(loaded.ParkedSinks)
	equal(t, "sinks", loaded.ParkedSinks, []string{"", "a", "b", "c"})
	r.ask(checkpoint.VerbDrop, checkpoint.Selection{Sink: "c"})
	loaded = r.reopen()
	slices.Sort(loaded.ParkedSinks)
	equal(t, "sinks without one that has dropped deliveries only", loaded.ParkedSinks, []string{"", "a", "b"})
}

// testAcceptGap: an accepted gap serves one new position, and only the one behind the checkpoint that the operator saw.
func testAcceptGap(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	c := &checkpoint.Checkpoint{SourceID: "1/1", Resume: "0/1", Log: 1}
	r.must(r.st.Save(r.ctx, c), "save")
	accept := func(from source.Resume) int64 {
		t.Helper()
		n, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbAcceptGap, Selection: checkpoint.Selection{From: from},
			Reason: "because"})
		r.must(err, "ask")
		return n
	}
	done := func(n int64) bool {
		t.Helper()
		a, err := r.db.Answer(r.ctx, n)
		r.must(err, "read the answer")
		return a.Done
	}
	equal(t, "before", r.reopen().AcceptGap, false)
	other := accept("0/0")
	equal(t, "asked for behind another checkpoint", r.reopen().AcceptGap, false)
	first := accept("0/1")
	equal(t, "asked for", r.reopen().AcceptGap, true)
	second := accept("0/1") // after this start looked
	r.must(r.st.Save(r.ctx, c), "save")
	equal(t, "used up by a checkpoint of the same log", done(first), false)
	c.Log, c.Resume = 2, "0/2"
	r.must(r.st.Save(r.ctx, c), "save")
	equal(t, "used up", done(first), true)
	equal(t, "those that are about another gap, or came later, are used up", done(other) || done(second), false)
	equal(t, "what is left is about a gap that is over", r.reopen().AcceptGap, false)
	Obey(r.ctx, r.t, r.st)
	equal(t, "done without a gap", done(other) && done(second), true)
	equal(t, "afterwards", r.reopen().AcceptGap, false)
}
