package sourcetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// testParkedIDUsedAgain: a message that has the id of another one which is parked (ids begin anew after TRUNCATE ... RESTART IDENTITY) is
// parked beside it, and is sent by its own id. One that is read again is still known, also as part of a log that goes on elsewhere.
func testParkedIDUsedAgain(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	old, late, again := r.msg(1, "g"), r.msg(1, "g"), r.msg(1, "g")
	late.Position.Commit, late.Payload = 105, []byte("late")
	again.Position.Commit, again.Payload = 106, []byte("again")
	r.park(Dead("kafka", old, false), Head("audit", old, 0))
	for log := range uint32(2) {
		late.Position.Log, again.Position.Log = 1+log, 1+log
		r.park(Head("kafka", late, 0), Follower("kafka", again), Follower("kafka", r.msg(7, "g")))
		r.reopen()
	}
	ps, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	var got []string
	for _, p := range ps {
		if p.Sink == "kafka" {
			got = append(got, fmt.Sprintf("%d:%s:%s:%t", p.Message.Position.Commit, Short(p.Message.ID), p.State, outbox.IsStandInID(p.RowID())))
		}
	}
	slices.Sort(got)
	equal(t, "parked", strings.Join(got, " "), "101:1:dead:false 105:1:retrying:true 106:1:waiting:true 107:7:waiting:false")
	for _, want := range []string{"late", "again"} {
		due, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 1, Bytes: 16 << 20})
		r.must(err, "due")
		if len(due) != 1 || string(due[0].Message.Payload) != want || due[0].Message.ID != EventID(1) {
			t.Fatalf("due: %s, want the one with payload %q", Deliveries(due), want)
		}
		r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{{Key: due[0].Key(), Group: "g", Delivered: true}}})
	}
	equal(t, "due", r.due("kafka"), "kafka:7")
	equal(t, "parked", r.parked(), "audit:1 retrying!@, kafka:1 dead, kafka:7 waiting!@")
}

// testNumberUsedAgain: where tables are read by number, a row that has the id of a dead letter may also have its number, in a new log. It is parked
// beside the dead letter, however often that happens.
func testNumberUsedAgain(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.insert(row(1, "g"))
	r.parkWhole(Dead("kafka", r.msg(1, "g"), false))
	equal(t, "rows", r.rows(), "")
	r.insert(row(1, "g"))
	for log := uint32(2); log < 4; log++ {
		again := r.msg(1, "g")
		again.Position.Log, again.Payload = log, fmt.Append(nil, log)
		for range 2 { // it is read again
			r.park(Head("kafka", again, 0))
			r.reopen()
		}
		r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(again, true)}})
		equal(t, "rows", r.rows(), "")
		due := r.one("kafka")
		equal(t, "due", string(due.Message.Payload), fmt.Sprint(log))
		last := died(due.Message, false)
		last.Key = due.Key()
		r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{last}})
		r.insert(row(1, "g"))
	}
	ps, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	var got []string
	for _, p := range ps {
		got = append(got, fmt.Sprintf("%d:%s:%s", p.Message.Position.Log, Short(p.Message.ID), p.State))
	}
	equal(t, "parked", strings.Join(got, " "), "1:1:dead 2:1:dead 3:1:dead")
}
