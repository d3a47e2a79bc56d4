package sourcetest

import (
	"errors"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// testRefusedRequest: a request that the server refuses is closed with what it said, and nothing of it is done, however much of it
// came before. What follows is carried out. A session that was lost has refused nothing.
func testRefusedRequest(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	one := r.msg(1, "g")
	r.park(Dead("audit", one, true), Dead("mail", one, true), Head("mail", r.msg(2, "stay"), 0))
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
	n, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbEdit, Selection: edit})
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
	Obey(r.ctx, r.t, r.st)
	equal(t, "parked", r.parked(), was)
	answer, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{one.ID}})
	equal(t, "what follows", answer, Answer{Done: true, Changed: 2})
	equal(t, "open", lanesText(applied.Open), "audit/g mail/g")
}

// testRefusedRow: a row that the server refuses to change takes nothing back that is settled beside it, nor what is settled of its own
// message. It is tried again, and is nobody's error until then.
func testRefusedRow(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	one, two, three, four := r.msg(1, "a"), r.msg(2, "b"), r.msg(3, "c"), r.msg(4, "d")
	r.insert(one, two, three, four)
	r.parkWhole(Head("kafka", three, time.Hour))
	r.must(k.RefuseDead(r.ctx, r.db, r.tables[0]), "let the server refuse dead rows")
	settle := func(s checkpoint.Settlement) {
		t.Helper()
		if _, err := r.st.Settle(r.ctx, &s); !errors.Is(err, source.ErrStop) {
			t.Errorf("settle a row that is refused: %v", err)
		}
		s.LeaveRows = true
		equal(t, "settled", *r.settle(s), checkpoint.Settled{})
	}
	settle(checkpoint.Settlement{Park: []checkpoint.Parked{Dead("kafka", one, true), Head("kafka", two, time.Hour)},
		Rows: []checkpoint.Row{toldRow(one, true), toldRow(two, true), RowOf(four, false)}})
	equal(t, "rows", r.rows(), "1 pending 0, 2 pending 0, 3 retrying 1 boom, 4 delivered 1 !")
	settle(checkpoint.Settlement{Changes: []checkpoint.Change{outcome(died(three, true), three)}})
	equal(t, "parked", r.parked(), "kafka:1 dead!, kafka:2 retrying!@, kafka:3 dead!")
	for range 2 {
		equal(t, "due", r.due("kafka"), "")
		equal(t, "rows that are tried again", r.rows(), "1 pending 0, 2 retrying 1 boom, 3 retrying 1 boom, 4 delivered 1 !")
		pending, err := r.st.Pending(r.ctx, "", 10)
		r.must(err, "list pending rows")
		equal(t, "rows that nothing is known of", len(pending.Rows), 0)
		r.reopen()
	}
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{outcome(Delivered("kafka", one), one)}})
	equal(t, "parked once it is delivered", r.parked(), "kafka:2 retrying!@, kafka:3 dead!")
	equal(t, "rows once it is delivered", r.rows(), "1 delivered 16 !, 2 retrying 1 boom, 3 retrying 1 boom, 4 delivered 1 !")
}
