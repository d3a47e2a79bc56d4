package sourcetest

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
)

// testUnroutedRow: a message that no sink could be chosen for is parked at the sink "" as at any other: it blocks its group over
// restarts, shows in its row, is left out of what a reconciliation finds, and comes back when an operator resets its row.
func testUnroutedRow(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 3, "g")...)
	bad := r.msg(1, "g")
	r.parkWhole(Dead("", bad, true), Follower("kafka", r.msg(2, "g")))
	equal(t, "rows", r.rows(), "1 dead 15 bad, 2 waiting 0, 3 pending 0")
	loaded := r.reopen()
	equal(t, "blocked after a restart", lanesText(loaded.Blocked), "/g kafka/g")
	equal(t, "due", r.due("kafka", ""), "")
	pending := func(want ...string) {
		t.Helper()
		refs := r.pendingRows(10)
		var got []string
		for _, ref := range refs {
			got = append(got, Short(ref.ID))
		}
		equal(t, "pending and not parked", fmt.Sprint(got), fmt.Sprint(want))
	}
	pending("3")
	r.must(r.db.Reset(r.ctx, r.tables[0], bad.ID), "reset the row")
	pending("3")
	Obey(r.ctx, r.t, r.st)
	equal(t, "parked after the row was reset", r.parked(), ":1 waiting!@, kafka:2 waiting!")
	equal(t, "due", r.due("kafka", ""), ":1")
	// It cannot be routed again, and is given up: its group goes on.
	again := died(bad, true)
	again.Key = keyOf("", bad)
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{again}})
	equal(t, "rows", r.rows(), "1 dead 15 bad, 2 waiting 0, 3 pending 0")
	answer, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{Unrouted: true, All: true})
	equal(t, "answer", answer, Answer{Done: true, Changed: 1})
	equal(t, "open", lanesText(applied.Open), "/g")
	equal(t, "due", r.due("kafka", ""), "kafka:2")
	equal(t, "parked", r.parked(), "kafka:2 waiting!@")
	equal(t, "blocked", lanesText(r.reopen().Blocked), "kafka/g")
}

// testRequestOrder: requests take effect in the order in which they were asked for, each on what was there when it was asked for,
// when a relay finds them all at once.
func testRequestOrder(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	two := r.msg(2, "b")
	r.park(Dead("kafka", r.msg(1, "a"), true), Head("kafka", two, 0), Dead("kafka", r.msg(3, "c"), true))
	ask := func(verb checkpoint.Verb, sel checkpoint.Selection) {
		t.Helper()
		_, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: verb, Selection: sel, Reason: "why"})
		r.must(err, "ask to %s", verb)
	}
	ask(checkpoint.VerbReplay, checkpoint.Selection{Groups: []string{"c"}})
	ask(checkpoint.VerbDrop, checkpoint.Selection{All: true})
	ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"b", "h"}})
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died(two, true)}})
	ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
	ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{"b", "h"}})
	ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"h"}})
	ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"kafka", "mail"}})
	ask(checkpoint.VerbResume, checkpoint.Selection{Sinks: []string{"kafka"}})
	r.reopen()
	Obey(r.ctx, r.t, r.st)
	equal(t, "parked", r.parked(), "kafka:1 dropped, kafka:2 waiting!@, kafka:3 waiting!@")
	loaded := r.reopen()
	equal(t, "held", lanesText(loaded.HeldLanes), "/h")
	equal(t, "paused", fmt.Sprint(loaded.PausedSinks), "[mail]")
}
