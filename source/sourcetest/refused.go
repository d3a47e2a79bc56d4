package sourcetest

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
)

// testRefusedRequest: a request that the server refuses is closed with what it said, and nothing of it is done, however much of it
// came before. What follows is carried out. A session that was lost has refused nothing.
func testRefusedRequest(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	one := r.msg(1, "g")
	r.park(dead("audit", one, true), dead("mail", one, true), head("mail", r.msg(2, "stay"), 0))
	was := r.parked()
	r.must(k.Refuse(r.ctx, r.db), "let the server refuse changes")
	typ := "refused"
	edit := checkpoint.Selection{IDs: []string{one.ID}, Edit: &checkpoint.Edit{Type: &typ}}
	for verb, sel := range map[checkpoint.Verb]checkpoint.Selection{checkpoint.VerbEdit: edit, checkpoint.VerbHold: {Groups: []string{"stay"}}} {
		answer, applied := r.ask(verb, sel)
		if answer.Error == "" || answer.Changed != 0 || applied.Changed != 0 || applied.Refused == "" || len(applied.Open)+len(applied.Blocked) > 0 {
			t.Errorf("%s: answer %+v, applied %+v", verb, answer, *applied)
		}
		equal(t, "parked", r.parked(), was)
		equal(t, "due", r.due("audit", "mail"), "mail:2")
	}
	n, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbEdit, Selection: edit, By: "op"})
	r.must(err, "ask")
	requests, err := r.st.Requests(r.ctx)
	r.must(err, "read requests")
	lanes, err := r.st.Lanes(r.ctx, &requests[0], 10)
	r.must(err, "name lanes")
	r.must(k.Kill(r.ctx, r.db, r.st), "end the session")
	if applied, err := r.st.Apply(r.ctx, &requests[0], lanes); err == nil {
		t.Errorf("a session that has ended carries out a request: %+v", *applied)
	}
	answer, err := r.db.Answer(r.ctx, n)
	r.must(err, "read the answer")
	equal(t, "answer by a session that has ended", answer, Answer{})
	_ = r.st.Close(r.ctx) // it may say that the session is gone
	equal(t, "held", lanesText(r.takeOver().HeldLanes), "")
	r.obey()
	equal(t, "parked", r.parked(), was)
	answer, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{one.ID}})
	equal(t, "what follows", answer, Answer{Done: true, Changed: 2})
	equal(t, "open", lanesText(applied.Open), "audit/g mail/g")
}
