package sourcetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// testReplay: dead deliveries become due again, in the order of their group; what its group has passed only on demand.
func testReplay(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 5, "g")...)
	r.parkWhole(Dead("kafka", r.msg(1, "held"), true), Follower("kafka", r.msg(2, "held")), Dead("kafka", r.msg(3, "passed"), false),
		Head("kafka", r.msg(4, "passed"), time.Hour), Dead("kafka", r.msg(5, ""), false))
	answer, applied := r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
	equal(t, "answer", answer, Answer{Done: true, Changed: 2, Refused: 1})
	equal(t, "changed", applied.Changed, 2)
	equal(t, "blocked", lanesText(applied.Blocked), "kafka/held")
	equal(t, "parked", r.parked(), "kafka:1 waiting!@, kafka:2 waiting!, kafka:3 dead, kafka:4 retrying!@, kafka:5 waiting@")
	equal(t, "rows", r.rows(), "1 waiting 0, 2 waiting 0, 3 dead 15 bad, 4 retrying 1 boom, 5 waiting 0")
	ps, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	for i, want := range []struct{ attempts, replays int }{{0, 1}, {0, 0}, {15, 0}, {1, 0}, {0, 1}} {
		if p := ps[i]; p.Attempts != want.attempts || p.Replays != want.replays {
			t.Errorf("message %d: %d attempts, %d replays, want %+v", i+1, p.Attempts, p.Replays, want)
		}
	}
	// Out of order, what is replayed comes before what waits already.
	answer, applied = r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true, AllowReorder: true})
	equal(t, "changed", answer.Changed, 1)
	equal(t, "blocked", lanesText(applied.Blocked), "kafka/passed")
	equal(t, "parked", r.parked(), "kafka:1 waiting!@, kafka:2 waiting!, kafka:3 waiting!@, kafka:4 retrying!, kafka:5 waiting@")
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", r.msg(3, "passed"))}})
	equal(t, "next", lanesText(out.Next), "kafka/passed")
	answer, _ = r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
	equal(t, "nothing left", answer, Answer{Done: true})
}

// testSelection: fields that are set must all match; ids and groups match if one of theirs does.
func testSelection(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	placed, later, last := Dead("a", r.msg(2, "g1"), false), Dead("a", r.msg(3, "g3"), true), Dead("b", r.msg(5, "g2"), true)
	placed.Message.Type, later.LastError, last.Message.Type = "OrderPlaced", "a time-out here", "OrderGone"
	placed.Message.Topic, placed.Message.Tenant, placed.Message.Key = "orders.eu", "acme", []byte("k-1%")
	last.Message.Topic, last.Message.Tenant, last.Message.Key = "orders_us", "ac_me", []byte("\xffk-2")
	all := []checkpoint.Parked{Dead("a", r.msg(1, "g1"), true), placed, later, Dead("b", r.msg(1, "g1"), true), Follower("b", r.msg(4, "g3")), last}
	for i, c := range []struct {
		sel  checkpoint.Selection
		want string
	}{
		{checkpoint.Selection{IDs: []string{EventID(1), EventID(5), "nobody"}}, "a:1 b:1 b:5"},
		{checkpoint.Selection{IDs: []string{EventID(1)}, Sink: "b"}, "b:1"},
		{checkpoint.Selection{Sink: "a"}, "a:1 a:2 a:3"},
		{checkpoint.Selection{Groups: []string{"g2", "g1", "g0"}}, "a:1 b:1 a:2 b:5"},
		{checkpoint.Selection{Groups: []string{"g1", "g2"}, Sink: "b"}, "b:1 b:5"},
		{checkpoint.Selection{Type: "Order*"}, "a:2 b:5"},
		{checkpoint.Selection{Type: "Order_"}, ""},
		{checkpoint.Selection{Type: "Order*", Table: placed.Message.Table}, "a:2 b:5"},
		{checkpoint.Selection{Groups: []string{"g1"}, Table: placed.Message.Table}, "a:1 b:1 a:2"},
		{checkpoint.Selection{IDs: []string{EventID(1)}, Table: placed.Message.Table + "s"}, ""},
		{checkpoint.Selection{Groups: []string{"g1"}, Table: placed.Message.Table + "s"}, ""},
		{checkpoint.Selection{Table: placed.Message.Table + "s"}, ""},
		{checkpoint.Selection{Type: "order*"}, ""},
		{checkpoint.Selection{Reason: "*time?out*"}, "a:3"},
		{checkpoint.Selection{Reason: "permanent", Sink: "b"}, "b:1 b:5"},
		{checkpoint.Selection{Topic: "orders?*"}, "a:2 b:5"},
		{checkpoint.Selection{Topic: "orders.*", Sink: "a"}, "a:2"},
		{checkpoint.Selection{Topic: "Orders*"}, ""},
		{checkpoint.Selection{Tenant: "ac_me"}, "b:5"},
		{checkpoint.Selection{Tenant: "ac*"}, "a:2 b:5"},
		{checkpoint.Selection{Tenant: `\`}, "a:1 b:1 a:3"},
		{checkpoint.Selection{Tenant: "ac*", Topic: "orders_us", Type: "Order*"}, "b:5"},
		{checkpoint.Selection{Search: EventID(3)[20:]}, "a:3"},
		{checkpoint.Selection{Search: "k-"}, "a:2 b:5"},
		{checkpoint.Selection{Search: "1%"}, "a:2"},
		{checkpoint.Selection{Search: "K-"}, ""},
		{checkpoint.Selection{Search: "g3", Groups: []string{"g1"}}, ""},
		{checkpoint.Selection{Search: "g1", Sink: "b"}, "b:1"},
		{checkpoint.Selection{Reason: "*x*", States: []checkpoint.State{"waiting"}}, ""},
		{checkpoint.Selection{All: true, Limit: 2}, "a:1 a:2"},
		{checkpoint.Selection{All: true, States: []checkpoint.State{"waiting"}}, "b:4"},
		{checkpoint.Selection{All: true}, "a:1 b:1 a:2 a:3 b:5"},
	} {
		before := map[checkpoint.Key]int{}
		if i == 0 {
			r.park(all...)
		}
		ps, err := r.db.Parked(r.ctx)
		r.must(err, "read parked deliveries")
		for j := range ps {
			before[ps[j].Key()] = ps[j].Replays
		}
		c.sel.AllowReorder = true
		answer, _ := r.ask(checkpoint.VerbReplay, c.sel)
		if answer.Error != "" {
			t.Errorf("%+v: %s", c.sel, answer.Error)
		}
		ps, err = r.db.Parked(r.ctx)
		r.must(err, "read parked deliveries")
		var changed []checkpoint.Parked
		var back []checkpoint.Change
		for j := range ps {
			p := &ps[j]
			if p.Replays == before[p.Key()] {
				continue
			}
			changed = append(changed, *p)
			// It dies again as it was.
			was := all[slices.IndexFunc(all, func(q checkpoint.Parked) bool { return q.Key() == p.Key() })]
			back = append(back, checkpoint.Change{Key: p.Key(), Group: was.Message.Group, State: was.State, Blocks: was.Blocks,
				Attempts: was.Attempts, LastError: was.LastError, ErrorClass: was.ErrorClass})
		}
		equal(t, fmt.Sprintf("%+v", c.sel), Deliveries(changed), c.want)
		r.settle(checkpoint.Settlement{Changes: back})
	}
}

// testReach: what lies about until a relay runs does not reach what was parked, or died, after it was asked for.
func testReach(t *testing.T, k Kind) {
	for i, c := range []struct {
		verb checkpoint.Verb
		sel  checkpoint.Selection
		want string
	}{
		{checkpoint.VerbDrop, checkpoint.Selection{All: true}, "kafka:1 dropped, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbReplay, checkpoint.Selection{Sink: "kafka"}, "kafka:1 waiting!@, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"a", "b", "c"}}, "kafka:1 dead, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbDrop, checkpoint.Selection{All: true, States: []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying}},
			"kafka:1 dropped, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{EventID(2), EventID(3)}}, "kafka:1 dead!, kafka:2 dropped, kafka:3 dropped"},
	} {
		t.Run(fmt.Sprint(i, " ", c.verb), func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
			two := r.msg(2, "b")
			r.park(Dead("kafka", r.msg(1, "a"), true), Head("kafka", two, 0))
			_, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: c.verb, Selection: c.sel, Reason: "why"})
			r.must(err, "ask")
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died(two, true)},
				Park: []checkpoint.Parked{Dead("kafka", r.msg(3, "c"), true)}})
			Obey(r.ctx, r.t, r.st)
			equal(t, fmt.Sprintf("%s %+v", c.verb, c.sel), r.parked(), c.want)
		})
	}
}

// testUnrouted: the sink "" can be selected alone.
func testUnrouted(t *testing.T, k Kind) {
	for i, sel := range []checkpoint.Selection{{Unrouted: true}, {Unrouted: true, Groups: []string{"a"}}, {Unrouted: true, IDs: []string{EventID(1), EventID(2)}}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
			r.park(Dead("", r.msg(1, "a"), true), Dead("kafka", r.msg(2, "a"), true), Dead("audit", r.msg(1, "a"), true))
			r.ask(checkpoint.VerbDrop, sel)
			equal(t, fmt.Sprintf("%+v", sel), r.parked(), ":1 dropped, audit:1 dead!, kafka:2 dead!")
		})
	}
}

// testRequestInParts: a request over more than one transaction's worth goes on where it stopped, also in another session,
// and never touches what died again meanwhile.
func testRequestInParts(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	var ps []checkpoint.Parked
	for i := range 2500 {
		ps = append(ps, Dead("kafka", r.msg(i, fmt.Sprintf("g%d", i%7)), i%2 == 0))
	}
	for i := range 3000 {
		ps = append(ps, Follower("kafka", r.msg(10000+i, "g0")))
	}
	r.park(ps...)
	_, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbReplay, Selection: checkpoint.Selection{All: true}})
	r.must(err, "ask")
	requests, err := r.st.Requests(r.ctx)
	r.must(err, "read requests")
	if len(requests) != 1 {
		t.Fatalf("%d requests, want 1", len(requests))
	}
	changed, rounds := 0, 0
	for done := false; !done; rounds++ {
		lanes, err := r.st.Lanes(r.ctx, &requests[0], 3)
		r.must(err, "name lanes")
		if len(lanes) > 3 {
			t.Fatalf("%d lanes, want at most 3", len(lanes))
		}
		applied, err := r.st.Apply(r.ctx, &requests[0], lanes)
		r.must(err, "apply")
		if applied.Changed > 1000 {
			t.Fatalf("%d changed in one transaction", applied.Changed)
		}
		changed, done = changed+applied.Changed, applied.Done
		// The heads die again at once.
		due, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 100, Bytes: 16 << 20})
		r.must(err, "due")
		var cs []checkpoint.Change
		for i := range due {
			cs = append(cs, died(due[i].Message, true))
		}
		r.settle(checkpoint.Settlement{Changes: cs})
		if rounds == 2 {
			r.reopen() // the progress is in the database
		}
		if rounds > 100 {
			t.Fatalf("the request does not end: %d changed", changed)
		}
	}
	equal(t, "changed", changed, 1250)
	found, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	for i := range found {
		if found[i].Replays > 1 {
			t.Fatalf("message %s was replayed %d times", Short(found[i].Message.ID), found[i].Replays)
		}
	}
	applied, err := r.st.Apply(r.ctx, &requests[0], nil)
	r.must(err, "apply again")
	if !applied.Done || applied.Changed != 0 {
		t.Errorf("applied again: %+v", *applied)
	}
}

// testEdit: an edit changes what it names, keeps the position, and gives the delivery a new id.
func testEdit(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(row(1, "g"))
	m := r.msg(1, "g")
	m.Headers = []outbox.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte("3")}}
	r.parkWhole(Dead("kafka", m, true), Follower("kafka", r.msg(2, "g")))
	payload, typ := []byte("new\x00"), "Other"
	answer, _ := r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{m.ID}, Edit: &checkpoint.Edit{Payload: &payload, Type: &typ,
		Headers: map[string]string{"a": "9", "c": "4"}}})
	equal(t, "answer", answer, Answer{Done: true, Changed: 1})
	e := r.one("kafka")
	if e.Original != m.ID || e.Message.ID == m.ID || len(e.Message.ID) != 36 || e.Replays != 1 || e.RowID() != m.ID {
		t.Errorf("original %s, id %s, %d replays", e.Original, e.Message.ID, e.Replays)
	}
	if string(e.Message.Payload) != string(payload) || e.Message.Type != typ || e.Message.Topic != m.Topic || e.Message.Position != m.Position {
		t.Errorf("edited message: %+v", *e.Message)
	}
	equal(t, "headers", e.Message.Headers, []outbox.Header{{Name: "a", Value: []byte("9")}, {Name: "b", Value: []byte("2")}, {Name: "c", Value: []byte("4")}})
	equal(t, "rows", r.rows(), "1 waiting 0")
	// It dies again, and is found by either id.
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died(m, true)}})
	answer, _ = r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{e.Message.ID}, Edit: &checkpoint.Edit{NewID: "mine"}})
	equal(t, "changed", answer.Changed, 1)
	if e = r.one("kafka"); e.Message.ID != "mine" || e.Original != m.ID {
		t.Errorf("original %s, id %s, want mine", e.Original, e.Message.ID)
	}
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", m)}})
	equal(t, "rows", r.rows(), "1 delivered 1 !")
}

// testDrop: what is dropped blocks nothing, is not swept, and shows in the row once the whole message is settled.
func testDrop(t *testing.T, k Kind) {
	for shape, want := range map[string][2]string{"debezium": {"3", ""},
		"tailbox": {"1 waiting 0, 2 dead 15 dropped: why, 3 pending 0", "1 dead 15 dropped: why, 2 dead 15 dropped: why, 3 dead 15 dropped: why"}} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table(shape, "outbox")}})
			r.insert(rows(1, 3, "g")...)
			r.parkWhole(Dead("kafka", r.msg(1, "g"), true), Follower("audit", r.msg(1, "g")), Dead("kafka", r.msg(2, "g"), true))
			// A delivery of message 3 is still on its way at another sink.
			three := r.msg(3, "h")
			r.park(Dead("kafka", three, true))
			answer, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{All: true})
			equal(t, "changed", answer.Changed, 3)
			equal(t, "open", lanesText(applied.Open), "kafka/g kafka/h")
			equal(t, "parked", r.parked(), "audit:1 waiting!@, kafka:1 dropped, kafka:3 dropped")
			equal(t, "rows", r.rows(), want[0])
			// A sweep leaves out what was dropped.
			ms, at, err := r.st.Fetch(r.ctx, []checkpoint.RowRef{{Table: three.Table, ID: three.ID}}, outbox.Position{Log: 1}, fetchAll)
			r.must(err, "fetch")
			if len(ms) != 1 || len(at) != 1 || !slices.Equal(at[0], []string{"kafka"}) {
				t.Errorf("fetched %s, parked at %v", ids(ms), at)
			}
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("audit", r.msg(1, "g"))}, Rows: []checkpoint.Row{RowOf(three, true)}})
			equal(t, "parked", r.parked(), "")
			equal(t, "rows", r.rows(), want[1])
			names := r.pendingAll(10)
			equal(t, "pending", len(names), 0)
		})
	}
}

// testSkip: dead heads no longer block; what waits behind them goes on.
func testSkip(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.park(Dead("kafka", r.msg(1, "g"), true), Follower("kafka", r.msg(2, "g")), Dead("kafka", r.msg(3, "h"), true), Dead("audit", r.msg(3, "h"), true))
	answer, applied := r.ask(checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"g", "h"}, Sink: "kafka"})
	equal(t, "changed", answer.Changed, 2)
	equal(t, "open", lanesText(applied.Open), "kafka/h")
	equal(t, "blocked", lanesText(applied.Blocked), "kafka/g")
	equal(t, "parked", r.parked(), "kafka:1 dead, kafka:2 waiting!@, audit:3 dead!, kafka:3 dead")
}

// testHold: a held group waits until its resume, over restarts, whatever is parked, delivered or replayed meanwhile.
func testHold(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.park(Head("kafka", r.msg(1, "g"), 0), Follower("kafka", r.msg(2, "g")), Head("audit", r.msg(1, "g"), 0), Head("kafka", r.msg(3, "h"), 0))
	_, applied := r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"g", "empty"}})
	equal(t, "blocked", lanesText(applied.Blocked), "/empty /g")
	r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"h"}, Sink: "kafka"})
	equal(t, "due", r.due("kafka", "audit"), "")
	out := r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{Head("kafka", r.msg(4, "empty"), 0), Dead("audit", r.msg(5, "h"), true)},
		Changes: []checkpoint.Change{Delivered("kafka", r.msg(1, "g")), Delivered("kafka", r.msg(3, "h"))}})
	equal(t, "open or next", lanesText(out.Open)+lanesText(out.Next), "")
	equal(t, "held after a restart", lanesText(r.reopen().HeldLanes), "/empty /g kafka/h")
	equal(t, "due", r.due("kafka", "audit"), "")
	equal(t, "parked", r.parked(), "audit:1 retrying!, kafka:2 waiting!, kafka:4 retrying!, audit:5 dead!")
	// A group that is held at every sink cannot be resumed at one, and a lane that nothing holds is not resumed.
	answer, _ := r.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{"g", "h", "nobody"}, Sink: "audit"})
	equal(t, "resumed at one sink", answer, Answer{Done: true, Refused: 1})
	equal(t, "due", r.due("kafka", "audit"), "")
	answer, applied = r.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{"g", "h", "nobody"}})
	equal(t, "open", lanesText(applied.Open), "/g /h /nobody")
	equal(t, "resumed", answer, Answer{Done: true, Changed: 2})
	equal(t, "due", r.due("kafka", "audit"), "audit:1 kafka:2")
	equal(t, "held", lanesText(r.reopen().HeldLanes), "/empty")
	_, applied = r.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{"empty"}})
	equal(t, "open", lanesText(applied.Open), "/empty")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:4")
	equal(t, "held", lanesText(r.reopen().HeldLanes), "")
}

// testPause: sinks stay paused over restarts until their resume.
func testPause(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	paused := func() []string {
		t.Helper()
		return slices.Sorted(slices.Values(r.reopen().PausedSinks))
	}
	r.ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"kafka", "audit"}})
	r.ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"mail"}})
	equal(t, "paused", paused(), []string{"audit", "kafka", "mail"})
	r.ask(checkpoint.VerbResume, checkpoint.Selection{Sinks: []string{"kafka", "mail"}})
	equal(t, "paused", paused(), []string{"audit"})
	r.must(k.Forge(r.ctx, r.db), "write a request that says what is in force")
	equal(t, "paused", paused(), []string{"audit"})
}

// testRequests: what operators asked for comes in order, and as it was asked, until it is done; at another start, too.
func testRequests(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	payload, typ, topic, key := []byte("new\x00\xff"), "T\u00e4", "", "k"
	want := []checkpoint.Request{
		{Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"kafka", "m\"ail"}}, Reason: "wh\u00fd'"},
		{Verb: checkpoint.VerbReplay, Selection: checkpoint.Selection{IDs: []string{"a", "b"}, Sink: "s", Groups: []string{"g"}, Type: "Order*", Reason: "*x?",
			States: []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying}, Limit: 7, AllowReorder: true}, Reason: "r"},
		{Verb: checkpoint.VerbEdit, Selection: checkpoint.Selection{IDs: []string{"a"}, Edit: &checkpoint.Edit{Payload: &payload, Type: &typ, Topic: &topic,
			Key: &key, Headers: map[string]string{"h.$": "v"}, NewID: "n"}}},
		{Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Groups: []string{"g", "h"}, Sink: "s"}, Reason: "r"},
		{Verb: checkpoint.VerbDrop, Selection: checkpoint.Selection{All: true}, Reason: "r"},
	}
	for i := range want {
		want[i].By = "forged"
		n, err := r.db.Ask(r.ctx, &want[i])
		r.must(err, "ask")
		if i > 0 && n <= want[i-1].ID {
			t.Errorf("request %d has id %d after %d", i, n, want[i-1].ID)
		}
		want[i].ID = n
	}
	for range 2 {
		got, err := r.st.Requests(r.ctx)
		r.must(err, "read requests")
		equal(t, "number of requests", len(got), len(want))
		for i := range min(len(got), len(want)) {
			// What a store adds, to know what the request may reach, is its own matter.
			got[i].Selection.Refresh = false
			if got[i].By == "" || got[i].By == "forged" {
				t.Errorf("request %d is by %q, want who the database knows", i, got[i].By)
			}
			got[i].By = want[i].By
			g, err := json.Marshal(got[i])
			r.must(err, "marshal")
			w, err := json.Marshal(want[i])
			r.must(err, "marshal")
			equal(t, fmt.Sprintf("request %d", i), string(g), string(w))
		}
		r.reopen()
	}
	Obey(r.ctx, r.t, r.st)
	got, err := r.st.Requests(r.ctx)
	r.must(err, "read requests")
	equal(t, "requests after all are done", len(got), 0)
}

// testBadRequests: what could never be carried out is refused where it is asked for.
func testBadRequests(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	for _, q := range []checkpoint.Request{{Verb: checkpoint.VerbReplay}, {Verb: checkpoint.VerbDrop}, {Verb: "dance"}, {Verb: checkpoint.VerbHold},
		{Verb: checkpoint.VerbPause}, {Verb: checkpoint.VerbResume}, {Verb: checkpoint.VerbSkip}, {Verb: checkpoint.VerbAcceptGap},
		{Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Unrouted: true, Groups: []string{"a"}}},
		{Verb: checkpoint.VerbDrop, Selection: checkpoint.Selection{Unrouted: true, Sink: "kafka"}},
		{Verb: checkpoint.VerbEdit, Selection: checkpoint.Selection{IDs: []string{"a", "b"}, Edit: &checkpoint.Edit{}}},
		{Verb: checkpoint.VerbEdit, Selection: checkpoint.Selection{IDs: []string{"a"}}},
		{Verb: checkpoint.VerbEdit, Selection: checkpoint.Selection{All: true, Edit: &checkpoint.Edit{}}},
		{Verb: checkpoint.VerbDrop, Selection: checkpoint.Selection{All: true, States: []checkpoint.State{checkpoint.StateDropped}}},
	} {
		if _, err := r.db.Ask(r.ctx, &q); err == nil {
			t.Errorf("asking to %s %+v is not refused", q.Verb, q.Selection)
		}
	}
	requests, err := r.st.Requests(r.ctx)
	r.must(err, "read requests")
	equal(t, "open requests", len(requests), 0)
}
