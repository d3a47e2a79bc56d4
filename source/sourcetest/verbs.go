package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
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
	r.parkWhole(Head("kafka", again, 0), Dead("audit", again, false), Head("kafka", dies, 0), Dead("audit", dies, false),
		Head("kafka", put, 0), Dead("audit", put, false), Head("kafka", gone, 0))
	if k.Business != nil {
		r.told(&seen)
	}
	sel := checkpoint.Selection{IDs: []string{again.ID, dies.ID, put.ID, gone.ID}, Sink: "kafka", States: []checkpoint.State{checkpoint.StateRetrying}}
	answer, _ := r.ask(checkpoint.VerbDrop, sel)
	equal(t, "dropped", answer, Answer{Done: true, Changed: 4})
	want := "audit:1 dead, kafka:1 dropped, audit:2 dead, kafka:2 dropped, audit:3 dead, kafka:3 dropped"
	equal(t, "parked", r.parked(), want)
	// The attempts end, and what was brought back untried is put back.
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{outcome(Retried("kafka", again, 2, 0), again),
		outcome(died(dies, false), dies), Retried("kafka", put, 1, 0), outcome(Retried("kafka", gone, 2, 0), gone)}})
	equal(t, "open or next", lanesText(out.Open)+lanesText(out.Next), "")
	equal(t, "parked after the attempts", r.parked(), want)
	equal(t, "due", r.due("kafka"), "")
	if k.Business != nil {
		equal(t, "told of what was dropped", r.told(&seen), "")
	}
	equal(t, "rows", r.rows(), "1 dead 15 bad, 2 dead 15 bad, 3 dead 15 bad, 4 dead 1 dropped: why")
	// An attempt that succeeds was made all the same.
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", again)}})
	r.ask(checkpoint.VerbDrop, checkpoint.Selection{Sink: "audit"})
	equal(t, "parked in the end", r.parked(), "")
}

// testTables: an id may be one of several tables. Those who name it mean one message.
func testTables(t *testing.T, k Kind) {
	t.Run("several ids", func(t *testing.T) { testIDsOfTables(t, k) })
	payload := []byte("new")
	for verb, c := range map[checkpoint.Verb]struct {
		sel         checkpoint.Selection
		first, both string // what is parked after the first table's turn, and the second's
	}{
		checkpoint.VerbReplay: {checkpoint.Selection{}, "dead/old waiting/old", "waiting/old waiting/old"},
		checkpoint.VerbDrop:   {checkpoint.Selection{}, "dead/old dropped/old", "dropped/old dropped/old"},
		checkpoint.VerbEdit:   {checkpoint.Selection{Edit: &checkpoint.Edit{Payload: &payload}}, "dead/old waiting/new", "waiting/new waiting/new"},
	} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "orders_outbox"), table("debezium", "mail_outbox")}})
			order, mail, other := r.msg(5, "o"), r.msg(5, "m"), r.msg(6, "m")
			mail.Table, other.Table = r.tables[1].String(), r.tables[1].String()
			order.Payload, mail.Payload = []byte("old"), []byte("old")
			r.park(Dead("kafka", order, true), Dead("kafka", mail, true), Dead("kafka", other, true))
			c.sel.IDs = []string{order.ID}
			show := func() string {
				var lines []string
				for _, p := range must(r, r.db.Parked) {
					if p.RowID() == order.ID {
						lines = append(lines, fmt.Sprintf("%s/%s", p.State, p.Message.Payload))
					}
				}
				slices.Sort(lines)
				return strings.Join(lines, " ")
			}
			answer, applied := r.ask(verb, c.sel)
			if !strings.Contains(answer.Error, "--table") || !strings.Contains(answer.Error, mail.Table+", "+order.Table) || answer.Changed+applied.Changed != 0 {
				t.Errorf("an id of two tables: %+v, changed %d", answer, applied.Changed)
			}
			equal(t, "parked after that", show(), "dead/old dead/old")
			c.sel.Table = order.Table
			answer, _ = r.ask(verb, c.sel)
			equal(t, "with the table", answer, Answer{Done: true, Changed: 1})
			equal(t, "parked after that", show(), c.first)
			for _, p := range must(r, r.db.Parked) {
				if changed := p.State != checkpoint.StateDead; changed != (p.Message.Table == order.Table) {
					t.Errorf("message of table %s is %s", p.Message.Table, p.State)
				}
			}
			c.sel.Table = "outbox"
			answer, _ = r.ask(verb, c.sel)
			equal(t, "with another table", answer, Answer{Done: true})
			c.sel.Table = "mail_outbox"
			answer, _ = r.ask(verb, c.sel)
			equal(t, "with the table without its schema", answer, Answer{Done: true, Changed: 1})
			equal(t, "parked after that", show(), c.both)
		})
	}
}

// testIDsOfTables: a request may name messages of several tables, where none of the ids is one of two.
func testIDsOfTables(t *testing.T, k Kind) {
	for _, verb := range []checkpoint.Verb{checkpoint.VerbReplay, checkpoint.VerbDrop} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "orders_outbox"), table("debezium", "mail_outbox")}})
			order, mail, one, other := r.msg(5, "o"), r.msg(6, "m"), r.msg(7, "o"), r.msg(7, "m")
			mail.Table, other.Table = r.tables[1].String(), r.tables[1].String()
			r.park(Dead("kafka", order, true), Dead("kafka", mail, true), Dead("kafka", one, true), Dead("kafka", other, true))
			answer, _ := r.ask(verb, checkpoint.Selection{IDs: []string{order.ID, mail.ID, one.ID}})
			if !strings.Contains(answer.Error, "--table") || answer.Changed != 0 {
				t.Errorf("ids, one of them of two tables: %+v", answer)
			}
			answer, _ = r.ask(verb, checkpoint.Selection{IDs: []string{order.ID, mail.ID}})
			equal(t, "ids of two tables", answer, Answer{Done: true, Changed: 2})
			for _, p := range must(r, r.db.Parked) {
				if changed := p.State != checkpoint.StateDead; changed != (p.RowID() != one.ID) {
					t.Errorf("message %s of table %s is %s", p.RowID(), p.Message.Table, p.State)
				}
			}
		})
	}
}

// testResetOfOneTable: a row that is set to pending again is replayed, and not what has its id in another table.
func testResetOfOneTable(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "orders_outbox"), table("tailbox", "mail_outbox")}})
	order, mail := r.msg(5, "o"), r.msg(5, "m")
	mail.Table = r.tables[1].String()
	for _, table := range r.tables {
		r.must(r.app.Insert(r.ctx, table, row(5, "g")), "insert")
	}
	r.parkWhole(Dead("kafka", order, true), Dead("kafka", mail, true))
	r.must(r.db.Reset(r.ctx, r.tables[0], order.ID), "reset")
	r.pendingAll(100)
	equal(t, "changed", Obey(r.ctx, r.t, r.st).Changed, 1)
	for _, p := range must(r, r.db.Parked) {
		if changed := p.State != checkpoint.StateDead; changed != (p.Message.Table == order.Table) {
			t.Errorf("message of table %s is %s", p.Message.Table, p.State)
		}
	}
}

// testEditOfOne: an edit is of one message, also where a table has used its id again.
func testEditOfOne(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	old, again := r.msg(1, "g"), r.msg(1, "h")
	again.Position.Commit = 105
	r.park(Dead("kafka", old, true), Dead("audit", old, true))
	r.park(Dead("kafka", again, true))
	own := ""
	for _, p := range must(r, r.db.Parked) {
		if outbox.IsStandInID(p.RowID()) {
			own = p.RowID()
		}
	}
	payload := []byte("new")
	edit := func(id string) Answer {
		answer, _ := r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{id}, Edit: &checkpoint.Edit{Payload: &payload}})
		return answer
	}
	edited := func() (lines []string) {
		for _, p := range must(r, r.db.Parked) {
			if string(p.Message.Payload) == "new" {
				lines = append(lines, fmt.Sprintf("%s:%d", p.Sink, p.Message.Position.Commit))
			}
		}
		slices.Sort(lines)
		return lines
	}
	if answer := edit(old.ID); own == "" || !strings.Contains(answer.Error, old.ID+", "+own) || answer.Changed != 0 {
		t.Errorf("edit of two messages with one id: %+v", answer)
	}
	equal(t, "edited", fmt.Sprint(edited()), "[]")
	equal(t, "the later one", edit(own), Answer{Done: true, Changed: 1})
	equal(t, "edited", fmt.Sprint(edited()), "[kafka:105]")
	// The other one is parked at two sinks: one message all the same.
	equal(t, "the earlier one", edit(old.ID), Answer{Done: true, Changed: 2})
	equal(t, "edited", fmt.Sprint(edited()), "[audit:101 kafka:101 kafka:105]")
}

// must reads what there is, or fails the test.
func must[T any](r *rig, read func(context.Context) (T, error)) T {
	r.t.Helper()
	got, err := read(r.ctx)
	r.must(err, "read")
	return got
}
