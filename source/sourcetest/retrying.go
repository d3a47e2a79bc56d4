package sourcetest

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// retrying selects what is retried of some groups at sink kafka.
func retrying(groups ...string) checkpoint.Selection {
	return checkpoint.Selection{Groups: groups, Sink: "kafka", States: []checkpoint.State{checkpoint.StateRetrying}}
}

// testSkipRetrying: a first delivery that is retried becomes dead, and its group goes on. Others that are retried stay as they are.
func testSkipRetrying(t *testing.T, k Kind) {
	s := Setup{Tables: []Table{table("tailbox", "outbox")}}
	if k.Business != nil {
		s.Tables[0] = k.withFeedback(s.Tables[0])
	}
	r := newStoreRig(t, k, s)
	var seen []string
	if k.Business != nil {
		r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	}
	r.insert(rows(1, 7, "")...)
	m := make([]*outbox.Message, 8)
	for i, group := range []string{"", "g", "g", "h", "h", "i", "j", "k"} {
		m[i] = r.typed(i, group)
	}
	r.parkWhole(Head("kafka", m[1], time.Hour), Head("audit", m[1], 0), Follower("kafka", m[2]), Dead("kafka", m[3], true), Head("kafka", m[4], 0),
		Follower("kafka", m[5]), Head("kafka", m[6], time.Hour), Head("kafka", m[7], 0))
	r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"j"}, Sink: "kafka"})
	if k.Business != nil {
		r.told(&seen)
	}
	answer, _ := r.ask(checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"g", "k"}, Sink: "kafka"})
	equal(t, "dead ones alone", answer.Changed, 0)
	answer, applied := r.ask(checkpoint.VerbSkip, retrying("g", "h", "i", "j", "k"))
	equal(t, "changed", answer.Changed, 3)
	equal(t, "open", lanesText(applied.Open), "kafka/k")
	equal(t, "blocked", lanesText(applied.Blocked), "kafka/g kafka/j")
	equal(t, "parked", r.parked(), "audit:1 retrying!@, kafka:1 dead, kafka:2 waiting!@, kafka:3 dead!, kafka:4 retrying!, kafka:5 waiting!@, kafka:6 dead, kafka:7 dead")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:5")
	equal(t, "rows", r.rows(), "1 dead 1 boom, 2 waiting 0, 3 dead 15 bad, 4 retrying 1 boom, 5 waiting 0, 6 dead 1 boom, 7 dead 1 boom")
	if k.Business != nil {
		equal(t, "told", r.told(&seen), "1 dead 7 kafka 1 boom, 6 dead 7 kafka 1 boom, 7 dead 7 kafka 1 boom")
	}
	answer, _ = r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m[1].ID}, Sink: "kafka"})
	equal(t, "replay of what was passed", answer.Refused, 1)
}

// testDropRetrying: what is retried can be given up, and its group goes on.
func testDropRetrying(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.park(Head("kafka", r.msg(1, "g"), time.Hour), Follower("kafka", r.msg(2, "g")), Head("kafka", r.msg(3, "h"), 0))
	sel := retrying()
	sel.IDs = []string{EventID(1), EventID(3)}
	answer, applied := r.ask(checkpoint.VerbDrop, sel)
	equal(t, "changed", answer.Changed, 2)
	equal(t, "open", lanesText(applied.Open), "kafka/h")
	equal(t, "parked", r.parked(), "kafka:1 dropped, kafka:2 waiting!@, kafka:3 dropped")
}

// testReachRetrying: a skip reaches what was retried when it was asked for, also if that fails again before it is carried out, and not
// what has failed for the first time since.
func testReachRetrying(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	old, gone, fresh := r.msg(1, "a"), r.msg(2, "b"), r.msg(3, "b")
	r.park(tried(Head("kafka", old, 0), 1, 0), tried(Head("kafka", gone, 0), 1, 0), Follower("kafka", fresh))
	r.tick()
	_, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbSkip, Selection: retrying("a", "b"), Reason: "why"})
	r.must(err, "ask")
	r.tick()
	again, first := Retried("kafka", old, 2, time.Hour), Retried("kafka", fresh, 1, time.Hour)
	again.Tries, first.Tries = 2, 1
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{again, Delivered("kafka", gone), first}})
	Obey(r.ctx, r.t, r.st)
	equal(t, "parked", r.parked(), "kafka:1 dead, kafka:3 retrying!@")
}
