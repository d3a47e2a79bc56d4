package sourcetest

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
)

// testDroppedInFlight: what an operator drops while an attempt of it is under way stays dropped, whatever becomes of the attempt. Such
// deliveries have no group, so that no request waits for them.
func testDroppedInFlight(t *testing.T, k Kind) {
	s := Setup{Tables: []Table{table("tailbox", "outbox")}}
	if k.Business != nil {
		s.Tables[0] = k.withFeedback(s.Tables[0])
	}
	r := newStoreRig(t, k, s)
	var seen []string
	if k.Business != nil {
		r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	}
	r.insert(rows(1, 4, "")...)
	again, dies, put, gone := r.typed(1, ""), r.typed(2, ""), r.typed(3, ""), r.typed(4, "")
	r.parkWhole(head("kafka", again, 0), dead("audit", again, false), head("kafka", dies, 0), dead("audit", dies, false),
		head("kafka", put, 0), dead("audit", put, false), head("kafka", gone, 0))
	if k.Business != nil {
		r.told(&seen)
	}
	sel := checkpoint.Selection{IDs: []string{again.ID, dies.ID, put.ID, gone.ID}, Sink: "kafka", States: []checkpoint.State{checkpoint.StateRetrying}}
	answer, _ := r.ask(checkpoint.VerbDrop, sel)
	equal(t, "dropped", answer, Answer{Done: true, Changed: 4})
	want := "audit:1 dead, kafka:1 dropped, audit:2 dead, kafka:2 dropped, audit:3 dead, kafka:3 dropped"
	equal(t, "parked", r.parked(), want)
	// The attempts end, and what was brought back untried is put back.
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{outcome(retried("kafka", again, 2, 0), again),
		outcome(died(dies, false), dies), retried("kafka", put, 1, 0), outcome(retried("kafka", gone, 2, 0), gone)}})
	equal(t, "open or next", lanesText(out.Open)+lanesText(out.Next), "")
	equal(t, "parked after the attempts", r.parked(), want)
	equal(t, "due", r.due("kafka"), "")
	if k.Business != nil {
		equal(t, "told of what was dropped", r.told(&seen), "")
	}
	equal(t, "rows", r.rows(), "1 dead 15 bad, 2 dead 15 bad, 3 dead 15 bad, 4 dead 1 dropped: why")
	// An attempt that succeeds was made all the same.
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", again)}})
	r.ask(checkpoint.VerbDrop, checkpoint.Selection{Sink: "audit"})
	equal(t, "parked in the end", r.parked(), "")
}
