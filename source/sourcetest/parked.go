package sourcetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// testParkedRoundTrip: what is parked comes back as it was, also after the session's end.
func testParkedRoundTrip(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	name := r.tables[0].String()
	full := checkpoint.Parked{Sink: `s"ink`, Message: &outbox.Message{ID: EventID(3), Type: "Type", Topic: "t\u00f6pic", Group: "g:1\\'%_$.",
		Key: []byte{0, 255}, Payload: []byte("\x00\xff payload"), Binary: true, Headers: []outbox.Header{{Name: "b", Value: []byte("1")},
			{Name: "a", Value: nil}, {Name: "b", Value: []byte("two\x00\"\\\n")}, {Name: "e", Value: []byte{}}, {Name: "x.$y", Value: []byte("\u20ac")}},
		Tenant: "t", ContentType: "c", IdempotencyKey: "i", CorrelationID: "r", Priority: -3, MaxAttempts: 9,
		AvailableAt: time.Unix(1800000000, 5e6), CreatedAt: time.Unix(1600000000, 0), Table: name,
		Fields: []outbox.Field{{Name: "x", Value: []byte("y")}, {Name: "n", Null: true}, {Name: "z", Value: []byte{}}, {Name: "b", Value: []byte("7"), Type: outbox.FieldBare},
			{Name: "t", Value: []byte("03:04:05.5"), Type: outbox.FieldTimeMicros}},
		Position:   outbox.Position{Log: math.MaxUint32, Commit: math.MaxUint64, N: math.MaxUint32},
		CommitTime: time.Unix(1700000000, 123e6), Txn: 77},
		State: checkpoint.StateRetrying, Blocks: true, Attempts: 4, Tries: 6, Failed: checkpoint.Failure{Epoch: math.MaxInt64, Call: 1 << 40},
		Due: true, LastError: "e\u00e4", ErrorClass: "rejected", Replays: 2}
	bare := checkpoint.Parked{Sink: "b", Message: &outbox.Message{ID: EventID(1), Table: name, Position: outbox.Position{Log: 1}},
		State: checkpoint.StateRetrying, Due: true}
	empty := checkpoint.Parked{Sink: "b", Message: &outbox.Message{ID: EventID(2), Key: []byte{}, Payload: []byte{}, Table: name,
		Position: outbox.Position{Log: 2}}, State: checkpoint.StateRetrying, Due: true, LastError: "e\x00\xff" + strings.Repeat("\u00e4", 100_000)}
	fault := checkpoint.Parked{Sink: "b", Message: &outbox.Message{ID: EventID(4), Group: "g", Payload: []byte("x"), Table: name, Position: outbox.Position{Log: 4},
		Fault: &outbox.Fault{Class: outbox.FaultUndecodable, Reason: "column headers"}}, State: checkpoint.StateRetrying, Blocks: true, Due: true}
	r.park(full, bare, empty, fault)
	for range 2 {
		got, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"b", `s"ink`, "other"}, Limit: 10, Bytes: 16 << 20})
		r.must(err, "due")
		// What could not be decoded may be read again from its row, which is not there.
		got = slices.DeleteFunc(got, func(p checkpoint.Parked) bool {
			return p.Message.Fault != nil && p.Message.ID == EventID(4) && p.Message.Group == "g" && p.Message.Position == fault.Message.Position
		})
		if len(got) != 3 || next != 0 {
			t.Fatalf("due: %s, next in %v", Deliveries(got), next)
		}
		if e := got[1].LastError; !utf8.ValidString(e) || !strings.HasPrefix(e, "e") || len(e) > 100_000 {
			t.Errorf("an error text of any bytes became %d bytes: %.20q", len(e), e)
		}
		for i, want := range []checkpoint.Parked{bare, empty, full} {
			g, m := got[i], *want.Message
			m.Txn = 0 // what is parked has been read; its row may be settled by a later session
			g.NextAttempt = 0
			if i == 1 {
				g.LastError, want.LastError = "", ""
			}
			equalMessage(t, g.Message, &m)
			g.Message, want.Message = nil, nil
			equal(t, "delivery "+Short(m.ID), g, want)
		}
		r.reopen()
	}
}

// testTries: tries and the last failure come back as they were parked or changed, also in a page; a replay and an edit forget them.
func testTries(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	lane := checkpoint.Lane{Sink: "kafka", Group: "g"}
	a, b := Head("kafka", r.msg(1, "g"), 0), Follower("kafka", r.msg(2, "g"))
	a.Tries, a.Failed = 3, checkpoint.Failure{Epoch: 7, Call: 11}
	b.Tries, b.Failed = 2, checkpoint.Failure{Epoch: 7, Call: 9}
	r.park(a, b)
	tries := func() (text string) {
		t.Helper()
		ps, err := r.db.Parked(r.ctx)
		r.must(err, "read parked deliveries")
		page, _, err := r.st.Page(r.ctx, lane, outbox.Position{}, 10, 1<<20)
		r.must(err, "page")
		for _, list := range [][]checkpoint.Parked{ps, page} {
			for _, p := range list {
				text += fmt.Sprintf("%s:%d/%d@%d:%d ", Short(p.RowID()), p.Attempts, p.Tries, p.Failed.Epoch, p.Failed.Call)
			}
		}
		return strings.TrimSpace(text)
	}
	equal(t, "parked", tries(), "1:1/3@7:11 2:0/2@7:9 1:1/3@7:11 2:0/2@7:9")
	c := Retried("kafka", a.Message, 1, 0)
	c.Tries, c.Failed = 4, checkpoint.Failure{Epoch: math.MaxInt64, Call: 12}
	died := died(b.Message, true)
	died.Tries, died.Failed = 5, checkpoint.Failure{Epoch: 8, Call: 1}
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c, died}})
	equal(t, "changed", tries(), fmt.Sprintf("1:1/4@%[1]d:12 2:15/5@8:1 1:1/4@%[1]d:12", int64(math.MaxInt64)))
	r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{b.Message.ID}})
	equal(t, "replayed", tries(), fmt.Sprintf("1:1/4@%[1]d:12 2:0/0@0:0 1:1/4@%[1]d:12 2:0/0@0:0", int64(math.MaxInt64)))
	died.Key, died.State = keyOf("kafka", b.Message), checkpoint.StateDead
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died}})
	topic := "other"
	r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{b.Message.ID}, Edit: &checkpoint.Edit{Topic: &topic}})
	equal(t, "edited", tries(), fmt.Sprintf("1:1/4@%[1]d:12 2:0/0@0:0 1:1/4@%[1]d:12 2:0/0@0:0", int64(math.MaxInt64)))
}

// equalMessage compares all of two messages, with nil unlike empty.
func equalMessage(t *testing.T, got, want *outbox.Message) {
	t.Helper()
	g, w := *got, *want
	for _, times := range [][2]*time.Time{{&g.AvailableAt, &w.AvailableAt}, {&g.CreatedAt, &w.CreatedAt}, {&g.CommitTime, &w.CommitTime}} {
		if !times[0].Equal(*times[1]) {
			t.Errorf("message %s: time %s, want %s", Short(w.ID), *times[0], *times[1])
		}
		*times[0], *times[1] = time.Time{}, time.Time{}
	}
	equal(t, "message "+Short(w.ID), g, w)
}

// testParkAgain: a message that is parked already stays as it is: the log is read again after a crash.
func testParkAgain(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.park(Dead("kafka", r.msg(1, "g"), true))
	r.park(Head("kafka", r.msg(1, "g"), 0), Follower("kafka", r.msg(2, "g")), Head("audit", r.msg(1, "g"), 0))
	equal(t, "parked", r.parked(), "audit:1 retrying!@, kafka:1 dead!, kafka:2 waiting!")
	ps, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	equal(t, "attempts", ps[1].Attempts, 15)
}

// testLanePromotion: only the first of a lane is due, and whoever leaves hands over in the same transaction (R7, R10).
func testLanePromotion(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	a, b, c, d := r.msg(1, "g"), r.msg(2, "g"), r.msg(3, "g"), r.msg(4, "h")
	change := func(cs ...checkpoint.Change) *checkpoint.Settled {
		t.Helper()
		return r.settle(checkpoint.Settlement{Changes: cs})
	}
	r.park(Head("kafka", a, time.Hour), Follower("kafka", b), Follower("kafka", c), Head("kafka", d, 0))
	equal(t, "parked", r.parked(), "kafka:1 retrying!@, kafka:2 waiting!, kafka:3 waiting!, kafka:4 retrying!@")
	ps, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	r.must(err, "due")
	if Deliveries(ps) != "kafka:4" || next <= 0 || next > time.Hour {
		t.Errorf("due: %s, next in %v, want kafka:4 and an hour", Deliveries(ps), next)
	}
	out := change(Delivered("kafka", a))
	equal(t, "open", lanesText(out.Open), "")
	equal(t, "next", lanesText(out.Next), "kafka/g")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:4")
	// The second one dies without blocking, the third one goes on.
	out = change(died(b, false))
	equal(t, "next", lanesText(out.Next), "kafka/g")
	equal(t, "parked", r.parked(), "kafka:2 dead, kafka:3 waiting!@, kafka:4 retrying!@")
	// The third one fails for an hour: nothing of the lane is due; then it is dead and blocks.
	out = change(Retried("kafka", c, 2, time.Hour))
	equal(t, "next or open", lanesText(out.Next)+lanesText(out.Open), "")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died(c, true)},
		Park: []checkpoint.Parked{Follower("kafka", r.msg(5, "g"))}})
	equal(t, "next or open", lanesText(out.Next)+lanesText(out.Open), "")
	equal(t, "parked", r.parked(), "kafka:2 dead, kafka:3 dead!, kafka:4 retrying!@, kafka:5 waiting!")
	equal(t, "due", r.due("kafka"), "kafka:4")
	out = change(Delivered("kafka", c), Delivered("kafka", d))
	equal(t, "open", lanesText(out.Open), "kafka/h")
	equal(t, "next", lanesText(out.Next), "kafka/g")
	out = change(Delivered("kafka", r.msg(5, "g")))
	equal(t, "open", lanesText(out.Open), "kafka/g")
	equal(t, "parked", r.parked(), "kafka:2 dead")
	// A follower that is parked just after the last one left is the first of its lane: it must not wait for ever.
	r.park(Follower("kafka", r.msg(6, "g")), Follower("kafka", r.msg(7, "g")))
	equal(t, "due", r.due("kafka"), "kafka:6")
}

// testOwnLanes: deliveries without a group, and those with a time of their own, are lanes of their own.
func testOwnLanes(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	later := r.msg(3, "g")
	later.AvailableAt = time.Now().Add(time.Hour)
	scheduled := checkpoint.Parked{Sink: "kafka", Message: later, State: checkpoint.StateWaiting, Due: true, NextAttempt: time.Hour}
	r.park(Head("kafka", r.msg(1, ""), 0), Head("kafka", r.msg(2, ""), 0), scheduled)
	equal(t, "parked", r.parked(), "kafka:1 retrying@, kafka:2 retrying@, kafka:3 waiting@")
	equal(t, "due", r.due("kafka"), "kafka:1 kafka:2")
	equal(t, "blocked", lanesText(r.reopen().Blocked), "")
	page, more, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "g"}, outbox.Position{}, 10, 1<<20)
	r.must(err, "page")
	if len(page) != 0 || more {
		t.Errorf("page of a lane without blocking deliveries: %s, more %v", Deliveries(page), more)
	}
	c := Retried("kafka", later, 1, 0)
	c.Blocks = false
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c, Delivered("kafka", r.msg(1, ""))}})
	equal(t, "open or next", lanesText(out.Open)+lanesText(out.Next), "")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:3")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", later)}})
	equal(t, "open or next", lanesText(out.Open)+lanesText(out.Next), "")
}

// testNames: lanes and messages whose names a collation would take for the same, or find too long, are different ones.
func testNames(t *testing.T, k Kind) {
	textIDs := table("debezium", "outbox")
	r := newStoreRig(t, k, Setup{Tables: []Table{textIDs}})
	long := strings.Repeat("\U0001F600", 510)
	groups := []string{"g", "G", "g ", " g", "\u00e9", "e\u0301", "e", "\u00df", "ss", "1", "01", "a\tb", long + "a", long + "b"}
	var ps []checkpoint.Parked
	for i, group := range groups {
		ps = append(ps, Head("kafka", r.msg(i, group), 0))
	}
	byID := []string{"a", "A", "a ", "\u00e4", strings.Repeat("x", 255)}
	for i, name := range byID {
		m := r.msg(100+i, "")
		m.ID = name
		ps = append(ps, Head("kafka", m, 0))
	}
	r.park(ps...)
	got, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 100, Bytes: 16 << 20})
	r.must(err, "due")
	equal(t, "due", len(got), len(ps))
	equal(t, "blocked lanes", len(r.reopen().Blocked), len(groups))
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", r.msg(1, "G")), Delivered("kafka", r.msg(len(groups)-1, long+"b"))}})
	equal(t, "open", lanesText(out.Open), "kafka/G kafka/"+long+"b")
	m := r.msg(100, "")
	m.ID = "A"
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", m)}})
	got, _, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 100, Bytes: 16 << 20})
	r.must(err, "due")
	equal(t, "due after three left", len(got), len(ps)-3)
	for i := range got {
		if got[i].Message.ID == "A" || got[i].Message.Group == "G" {
			t.Errorf("%q of group %q is still there", got[i].Message.ID, got[i].Message.Group)
		}
	}
	page, _, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "e"}, outbox.Position{}, 10, 1<<20)
	r.must(err, "page")
	equal(t, "page", Deliveries(page), "kafka:6")
}

// testPage: a lane is read in the order of positions, whatever its ids, in bounded pages, up to what waits for an operator.
func testPage(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	lane := checkpoint.Lane{Sink: "kafka", Group: "g"}
	// Message n has an id that sorts elsewhere.
	m := func(n int) *outbox.Message {
		m := r.msg(n, "g")
		m.ID = EventID(n * 5 % 7)
		return m
	}
	page := func(after outbox.Position, limit, bytes int) string {
		t.Helper()
		ps, more, err := r.st.Page(r.ctx, lane, after, limit, bytes)
		r.must(err, "page")
		text := ""
		for i := range ps {
			n := int(ps[i].Message.Position.Commit) - 100
			if ps[i].Key() != keyOf("kafka", m(n)) {
				t.Errorf("a page holds %+v at the position of message %d", ps[i].Key(), n)
			}
			text += fmt.Sprint(n, " ")
		}
		if more {
			text += "…"
		}
		return strings.TrimSpace(text)
	}
	equal(t, "empty", page(outbox.Position{}, 5, 1000), "")
	// Parked in another order than that of their positions.
	r.park(Dead("kafka", m(5), true), Follower("kafka", m(6)))
	r.park(Head("kafka", m(1), 0), Follower("kafka", m(2)), Dead("kafka", m(3), false), Follower("kafka", m(4)),
		Follower("other", m(2)), Follower("kafka", r.msg(7, "h")))
	equal(t, "up to the dead one", page(outbox.Position{}, 5, 1000), "1 2 4 …")
	equal(t, "limit", page(outbox.Position{}, 2, 1000), "1 2 …")
	equal(t, "bytes", page(outbox.Position{}, 5, 10), "1 …")
	equal(t, "after", page(m(1).Position, 5, 1000), "2 4 …")
	equal(t, "at the dead one", page(m(4).Position, 5, 1000), "…")
	equal(t, "the end", page(m(5).Position, 5, 1000), "6")
	r.park(Dead("", m(2), true))
	equal(t, "up to one that could not be routed", page(outbox.Position{}, 5, 1000), "1 2 …")
	r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"g"}})
	equal(t, "held", page(outbox.Position{}, 5, 1000), "…")
}

// testUnroutable: what could not be routed blocks its group at every sink, from its position on.
func testUnroutable(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	bad := r.msg(2, "g")
	r.park(Head("kafka", r.msg(1, "g"), 0), Dead("", bad, true), Follower("kafka", r.msg(3, "g")), Follower("audit", r.msg(3, "g")), Head("audit", r.msg(4, "h"), 0))
	equal(t, "parked", r.parked(), "kafka:1 retrying!@, :2 dead!, audit:3 waiting!, kafka:3 waiting!, audit:4 retrying!@")
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", r.msg(1, "g"))}})
	equal(t, "next or open", lanesText(out.Next)+lanesText(out.Open), "")
	equal(t, "due", r.due("kafka", "audit", ""), "audit:4")
	_, applied := r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{bad.ID}})
	equal(t, "blocked", lanesText(applied.Blocked), "/g")
	equal(t, "due", r.due("kafka", "audit", ""), ":2 audit:4")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("", bad)}})
	equal(t, "open", lanesText(out.Open), "/g")
	equal(t, "due", r.due("kafka", "audit"), "audit:3 kafka:3 audit:4")
	// One that is parked later, but stands earlier, takes their turn away again.
	early := r.msg(2, "g")
	early.ID = EventID(12)
	r.park(Dead("", early, true))
	equal(t, "due", r.due("kafka", "audit"), "audit:4")
	_, applied = r.ask(checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"g"}})
	equal(t, "open", lanesText(applied.Open), "/g")
	equal(t, "due", r.due("kafka", "audit"), "audit:3 kafka:3 audit:4")
}

// testSupersede: on_exhausted latest: all but the newest of the lane are dead.
func testSupersede(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 4, "g")...)
	r.parkWhole(Head("kafka", r.msg(1, "g"), 0), Follower("kafka", r.msg(2, "g")), Follower("kafka", r.msg(3, "g")), Head("kafka", r.msg(4, "h"), time.Hour))
	c := died(r.msg(1, "g"), false)
	c.Supersede = true
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c}})
	equal(t, "next", lanesText(out.Next), "kafka/g")
	equal(t, "parked", r.parked(), "kafka:1 dead, kafka:2 dead, kafka:3 waiting!@, kafka:4 retrying!@")
	found, err := r.db.Rows(r.ctx, r.tables[0])
	r.must(err, "read rows")
	var states []string
	for _, row := range found {
		states = append(states, row.Status)
	}
	equal(t, "rows", strings.Join(states, " "), "dead dead waiting retrying")
}

// testDueIsFair: a sink with many due lanes does not hide another one's; the answer is bounded in number and in bytes.
func testDueIsFair(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	var ps []checkpoint.Parked
	for i := 1; i <= 50; i++ {
		ps = append(ps, Head("busy", r.msg(i, ""), 0))
	}
	r.park(ps...)
	r.park(Head("calm", r.msg(60, ""), 0)) // due later than all of the others
	got, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"busy", "calm"}, Limit: 5, Bytes: 16 << 20})
	r.must(err, "due")
	if len(got) != 5 || got[4].Sink != "calm" || next <= 0 || next > time.Second {
		t.Errorf("due: %s, next in %v, want one of sink calm among 5, and more soon", Deliveries(got), next)
	}
	got, _, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"calm"}, Limit: 5, Bytes: 16 << 20})
	r.must(err, "due")
	equal(t, "due at one sink", Deliveries(got), "calm:60")
	got, _, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: nil, Limit: 5, Bytes: 16 << 20})
	r.must(err, "due")
	equal(t, "due at no sink", Deliveries(got), "")
	got, _, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"busy", "calm"}, Limit: 2, Bytes: 16 << 20, Lanes: 3, Except: map[checkpoint.Key]bool{
		ps[0].Key(): true, ps[1].Key(): true, ps[2].Key(): true}})
	r.must(err, "due")
	if len(got) != 2 || slices.ContainsFunc(got, func(p checkpoint.Parked) bool {
		return p.Key() == ps[0].Key() || p.Key() == ps[1].Key() || p.Key() == ps[2].Key()
	}) {
		t.Errorf("due: %s, want two that are not in hand", Deliveries(got))
	}
	for i := 1; i <= 6; i++ {
		m := r.msg(100+i, "")
		m.Payload = make([]byte, 6<<20)
		r.park(Head("large", m, 0))
	}
	got, next, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"large", "calm"}, Limit: 50, Bytes: 8 << 20})
	r.must(err, "due")
	if len(got) > 3 || len(got) < 2 || got[len(got)-1].Sink != "large" && got[0].Sink != "large" || next <= 0 || next > time.Second {
		t.Errorf("due: %s of 6 MiB each, next in %v, want some of them, and more soon", Deliveries(got), next)
	}
}

// testDueLater: what is due later becomes due by itself, by the database's clock.
func testDueLater(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.park(Head("kafka", r.msg(1, "g"), 300*time.Millisecond), Follower("kafka", r.msg(2, "g")), Head("kafka", r.msg(3, "h"), time.Hour))
	r.until("a delivery to become due", func() bool {
		ps, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
		r.must(err, "due")
		if len(ps) == 0 && (next <= 0 || next > 300*time.Millisecond) {
			t.Fatalf("nothing is due, and the next one in %v, want at most 300 ms", next)
		}
		return Deliveries(ps) == "kafka:1"
	})
	_, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	r.must(err, "due")
	if next < 50*time.Minute || next > time.Hour {
		t.Errorf("the next one is due in %v, want about an hour", next)
	}
}

// testReadAgain: what is read again from the user's table counts among the bytes of an answer, of Due and of Page, as what was copied does; what is
// left out comes with the next answers.
func testReadAgain(t *testing.T, k Kind) {
	const large, bound = 1 << 20, 2 << 20
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	payload := []byte(`"` + strings.Repeat("x", large) + `"`)
	notCopied := func(n int, group string) *outbox.Message {
		m := r.msg(n, group)
		whole := *m
		whole.Payload = payload
		r.insert(&whole)
		m.Payload, m.Fault = nil, &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "large"}
		return m
	}
	check := func(what string, ps []checkpoint.Parked) {
		t.Helper()
		bytes := 0
		for i := range ps {
			if m := ps[i].Message; m.Fault != nil || len(m.Payload) < large {
				t.Errorf("%s: message %s has %d bytes and fault %+v, want it whole", what, Short(m.ID), len(m.Payload), m.Fault)
			}
			bytes += len(ps[i].Message.Payload)
		}
		if len(ps) == 0 || bytes > bound+large+1000 { // one message may exceed the bound
			t.Errorf("%s: %d deliveries of %d bytes, want at least one, and about %d bytes", what, len(ps), bytes, bound)
		}
	}
	copied := r.msg(1, "")
	copied.Payload = payload
	parked := []checkpoint.Parked{Head("kafka", copied, 0)}
	var lane []checkpoint.Parked
	for n := 2; n <= 6; n++ {
		p := Head("kafka", notCopied(n, ""), 0)
		p.InTable = true
		parked = append(parked, p)
		p = Follower("kafka", notCopied(10+n, "g"))
		p.InTable = true
		lane = append(lane, p)
	}
	r.park(append(parked, lane...)...)
	inHand := map[checkpoint.Key]bool{}
	for len(inHand) < len(parked) {
		ps, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 50, Bytes: bound, Except: inHand, Lanes: len(inHand)})
		r.must(err, "due")
		check("due", ps)
		before := len(inHand)
		for i := range ps {
			inHand[ps[i].Key()] = true
		}
		if len(inHand) == before || len(inHand) < len(parked) && (next <= 0 || next > time.Second) {
			t.Fatalf("due: %s, next in %v, want others, and more soon", Deliveries(ps), next)
		}
	}
	var after outbox.Position
	for n, more := 0, true; more; {
		page, further, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "g"}, after, 50, bound)
		r.must(err, "page")
		check("page", page)
		if n += len(page); len(page) == 0 || further != (n < len(lane)) {
			t.Fatalf("page: %s, more %v, after %d of %d", Deliveries(page), further, n, len(lane))
		}
		after, more = page[len(page)-1].Message.Position, further
	}
}
