package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sqlstore"
	"github.com/tailbox/tailbox/test/servers"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("tailbox", "outbox"))
			for i := 1; i <= 5; i++ {
				r.row(i)
			}
			r.parkWhole(dead("kafka", msg(1, "held"), true), follower("kafka", msg(2, "held")), dead("kafka", msg(3, "passed"), false),
				head("kafka", msg(4, "passed"), time.Hour), dead("kafka", msg(5, ""), false))
			result, applied := r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
			equal(t, "changed", result.Changed, 2)
			equal(t, "refused", result.Refused, 1)
			equal(t, "blocked", lanesText(applied.Blocked), "kafka/held")
			equal(t, "parked", r.parkedRows(), "kafka:1 waiting!@, kafka:2 waiting!, kafka:3 dead, kafka:4 retrying!@, kafka:5 waiting@")
			equal(t, "rows", r.rows(), "1 waiting 0, 2 waiting 0, 3 dead 15 bad, 4 retrying 1 boom, 5 waiting 0")
			equal(t, "replays", r.text("SELECT sum(replays)::text FROM tailbox_parked"), "2")
			// Out of order, what is replayed comes before what waits already.
			result, applied = r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true, AllowReorder: true})
			equal(t, "changed", result.Changed, 1)
			equal(t, "blocked", lanesText(applied.Blocked), "kafka/passed")
			equal(t, "parked", r.parkedRows(), "kafka:1 waiting!@, kafka:2 waiting!, kafka:3 waiting!@, kafka:4 retrying!, kafka:5 waiting@")
			out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", msg(3, "passed"))}})
			equal(t, "next", lanesText(out.Next), "kafka/passed")
			result, _ = r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
			equal(t, "nothing left", *result, RequestResult{Note: "nothing matched"})
		})
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	n := 0
	for _, c := range []struct {
		sel  checkpoint.Selection
		want string
	}{
		{checkpoint.Selection{IDs: []string{eventID(1), eventID(5), "nobody"}}, "a:1 b:1 b:5"},
		{checkpoint.Selection{IDs: []string{eventID(1)}, Sink: "b"}, "b:1"},
		{checkpoint.Selection{Sink: "a"}, "a:1 a:2 a:3"},
		{checkpoint.Selection{Groups: []string{"g2", "g1", "g0"}}, "a:1 a:2 b:1 b:5"},
		{checkpoint.Selection{Groups: []string{"g1", "g2"}, Sink: "b"}, "b:1 b:5"},
		{checkpoint.Selection{Type: "Order*"}, "a:2 b:5"},
		{checkpoint.Selection{Type: "Order_"}, ""},
		{checkpoint.Selection{Reason: "*time?out*"}, "a:3"},
		{checkpoint.Selection{Reason: "permanent", Sink: "b"}, "b:1 b:5"},
		{checkpoint.Selection{All: true, Limit: 2}, "a:1 a:2"},
		{checkpoint.Selection{All: true, States: []checkpoint.State{"waiting"}}, "b:4"},
		{checkpoint.Selection{All: true}, "a:1 a:2 a:3 b:1 b:5"},
	} {
		r.exec("DELETE FROM tailbox_parked")
		n++
		placed, later := dead("a", msg(2, "g1"), false), dead("a", msg(3, "g3"), true)
		placed.Message.Type, later.LastError = "OrderPlaced", "a time-out here"
		last := dead("b", msg(5, "g2"), true)
		last.Message.Type = "OrderGone"
		r.park(dead("a", msg(1, "g1"), true), placed, later, dead("b", msg(1, "g1"), true), follower("b", msg(4, "g3")), last)
		c.sel.AllowReorder = true
		result, _ := r.ask(checkpoint.VerbReplay, c.sel)
		got := r.text(`SELECT coalesce(string_agg(sink || ':' || ltrim(split_part(message_id, '-', 5), '0'), ' ' ORDER BY sink, position), '')
			FROM tailbox_parked WHERE replays > 0`)
		equal(t, fmt.Sprintf("%d %+v", n, c.sel), got, c.want)
		_ = result
	}
}

// A request over more than one transaction's worth goes on where it stopped, and never touches what died again meanwhile.
func TestRequestInParts(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	var ps []checkpoint.Parked
	for i := range 2500 {
		ps = append(ps, dead("kafka", msg(i, fmt.Sprintf("g%d", i%7)), i%2 == 0))
	}
	for i := range 6000 {
		ps = append(ps, follower("kafka", msg(10000+i, "g0")))
	}
	r.park(ps...)
	r.exec(`INSERT INTO tailbox_request (pipeline, verb, selection) VALUES ($1, 'replay', '{"all": true}')`, r.cfg.Pipeline)
	requests, err := r.st.Requests(r.ctx)
	if err != nil || len(requests) != 1 {
		t.Fatal(requests, err)
	}
	changed, rounds := 0, 0
	for done := false; !done; rounds++ {
		lanes, err := r.st.Lanes(r.ctx, &requests[0], 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(lanes) > 3 {
			t.Fatalf("%d lanes, want at most 3", len(lanes))
		}
		applied, err := r.st.Apply(r.ctx, &requests[0], lanes)
		if err != nil {
			t.Fatal(err)
		}
		if applied.Changed > sqlstore.RequestChunk {
			t.Fatalf("%d changed in one transaction", applied.Changed)
		}
		changed, done = changed+applied.Changed, applied.Done
		r.exec("UPDATE tailbox_parked SET state = 'dead' WHERE replays > 0")
		if rounds == 2 {
			r.reopen() // the progress is in the database
		}
		if rounds > 50 {
			t.Fatal("no end")
		}
	}
	equal(t, "changed", changed, 1250)
	equal(t, "replays", r.text("SELECT max(replays)::text FROM tailbox_parked"), "1")
	applied, err := r.st.Apply(r.ctx, &requests[0], nil)
	if err != nil || !applied.Done || applied.Changed != 0 {
		t.Errorf("applied again: %+v, %v", applied, err)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
	r.row(1)
	m := msg(1, "g")
	m.Headers = []outbox.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte("3")}}
	r.parkWhole(dead("kafka", m, true), follower("kafka", msg(2, "g")))
	payload, typ := []byte("new"), "Other"
	result, _ := r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{m.ID}, Edit: &checkpoint.Edit{Payload: &payload, Type: &typ,
		Headers: map[string]string{"a": "9", "c": "4"}}})
	equal(t, "changed", result.Changed, 1)
	got, _, err := r.st.Due(r.ctx, []string{"kafka"}, 10)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	e := got[0]
	if e.Original != m.ID || e.Message.ID != result.NewID || e.Message.ID == m.ID || len(e.Message.ID) != 36 || e.Replays != 1 {
		t.Errorf("original %s, id %s, new id %s", e.Original, e.Message.ID, result.NewID)
	}
	if string(e.Message.Payload) != "new" || e.Message.Type != "Other" || e.Message.Topic != "topic" || e.Message.Position != m.Position {
		t.Errorf("edited message: %+v", e.Message)
	}
	equal(t, "headers", e.Message.Headers, []outbox.Header{{Name: "a", Value: []byte("9")}, {Name: "b", Value: []byte("2")}, {Name: "c", Value: []byte("4")}})
	equal(t, "rows", r.rows(), "1 waiting 0")
	// It dies again, and is found by either id.
	c := died("kafka", m, true)
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c}})
	result, _ = r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{result.NewID}, Edit: &checkpoint.Edit{NewID: "mine"}})
	equal(t, "changed", result.Changed, 1)
	equal(t, "ids", r.text("SELECT message_id || ' ' || sent_id FROM tailbox_parked WHERE sent_id IS NOT NULL"), m.ID+" mine")
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
	equal(t, "rows", r.rows(), "1 delivered 1 !")
	for _, sel := range []checkpoint.Selection{{IDs: []string{"a", "b"}, Edit: &checkpoint.Edit{}}, {IDs: []string{"a"}}, {All: true, Edit: &checkpoint.Edit{}}} {
		if result, _ := r.ask(checkpoint.VerbEdit, sel); result.Error == "" {
			t.Errorf("edit of %+v was not refused", sel)
		}
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	for _, shapeName := range []string{"debezium", "tailbox"} {
		t.Run(shapeName, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, "17"), nil, shape(shapeName, "outbox"))
			want := map[string][2]string{"debezium": {"3", ""},
				"tailbox": {"1 waiting 0, 2 dead 15 dropped: why, 3 pending 0", "1 dead 1 dropped: why, 2 dead 15 dropped: why, 3 dead 1 dropped: why"}}[shapeName]
			for i := 1; i <= 3; i++ {
				r.row(i)
			}
			r.parkWhole(dead("kafka", msg(1, "g"), true), follower("audit", msg(1, "g")), dead("kafka", msg(2, "g"), true))
			// A delivery of message 3 is still on its way at another sink.
			three := msg(3, "h")
			r.park(dead("kafka", three, true))
			result, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{All: true})
			equal(t, "changed", result.Changed, 3)
			equal(t, "open", lanesText(applied.Open), "kafka/g kafka/h")
			equal(t, "parked", r.parkedRows(), "audit:1 waiting!@, kafka:1 dropped, kafka:3 dropped")
			equal(t, "rows", r.rows(), want[0])
			// A sweep leaves out what was dropped.
			_, at, err := r.st.Fetch(r.ctx, []checkpoint.RowRef{{Table: "public.outbox", ID: eventID(3)}}, outbox.Position{Log: 1})
			if err != nil || len(at) != 1 || !slices.Equal(at[0], []string{"kafka"}) {
				t.Errorf("parked at %v, %v", at, err)
			}
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("audit", msg(1, "g"))}, Rows: []checkpoint.Row{rowOf(three, true)}})
			equal(t, "parked", r.parkedRows(), "")
			got := r.rows()
			if shapeName == "tailbox" {
				want[1] = "1 dead 15 dropped: why, 2 dead 15 dropped: why, 3 dead 15 dropped: why"
			}
			equal(t, "rows", got, want[1])
			pending, err := r.st.Pending(r.ctx, "", 10)
			if err != nil || len(pending.Rows) != 0 {
				t.Errorf("pending: %v, %v", pending, err)
			}
		})
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.park(dead("kafka", msg(1, "g"), true), follower("kafka", msg(2, "g")), dead("kafka", msg(3, "h"), true), dead("audit", msg(3, "h"), true))
	result, applied := r.ask(checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"g", "h"}, Sink: "kafka"})
	equal(t, "changed", result.Changed, 2)
	equal(t, "open", lanesText(applied.Open), "kafka/h")
	equal(t, "blocked", lanesText(applied.Blocked), "kafka/g")
	equal(t, "parked", r.parkedRows(), "kafka:1 dead, kafka:2 waiting!@, audit:3 dead!, kafka:3 dead")
}

func TestHoldAndResume(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.park(head("kafka", msg(1, "g"), 0), follower("kafka", msg(2, "g")), head("audit", msg(1, "g"), 0), head("kafka", msg(3, "h"), 0))
	_, applied := r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"g", "empty"}})
	equal(t, "blocked", lanesText(applied.Blocked), "/empty /g")
	r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"h"}, Sink: "kafka"})
	equal(t, "due", r.due("kafka", "audit"), "")
	// What is parked, delivered or replayed meanwhile makes no difference.
	out := r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{head("kafka", msg(4, "empty"), 0), dead("audit", msg(5, "h"), true)},
		Changes: []checkpoint.Change{delivered("kafka", msg(1, "g")), delivered("kafka", msg(3, "h"))}})
	equal(t, "open", lanesText(out.Open)+lanesText(out.Next), "")
	loaded := r.reopen()
	equal(t, "held after a restart", lanesText(loaded.HeldLanes), "/empty /g kafka/h")
	equal(t, "due", r.due("kafka", "audit"), "")
	equal(t, "parked", r.parkedRows(), "audit:1 retrying!, kafka:2 waiting!, kafka:4 retrying!, audit:5 dead!")
	_, applied = r.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{"g", "h", "nobody"}})
	equal(t, "open", lanesText(applied.Open), "/g /h /nobody")
	equal(t, "due", r.due("kafka", "audit"), "audit:1 kafka:2")
	equal(t, "held", lanesText(r.reopen().HeldLanes), "/empty")
	_, applied = r.ask(checkpoint.VerbResume, checkpoint.Selection{Groups: []string{"empty"}})
	equal(t, "open", lanesText(applied.Open), "/empty")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:4")
	equal(t, "in force", r.text("SELECT count(*)::text FROM tailbox_request WHERE in_force IS NOT NULL"), "0")
}

func TestPauseAndResumeSinks(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"kafka", "audit"}})
	r.ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"mail"}})
	equal(t, "paused", r.reopen().PausedSinks, []string{"audit", "kafka", "mail"})
	r.ask(checkpoint.VerbResume, checkpoint.Selection{Sinks: []string{"kafka", "mail"}})
	equal(t, "paused", r.reopen().PausedSinks, []string{"audit"})
}

// An accepted gap serves one new position, and only the one behind the checkpoint that the operator saw.
func TestAcceptGap(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	c := &checkpoint.Checkpoint{SourceID: "1/1", Resume: "0/1", Log: 1}
	if err := r.st.Save(r.ctx, c); err != nil {
		t.Fatal(err)
	}
	accept := func(from string) {
		r.exec(`INSERT INTO tailbox_request (pipeline, verb, selection, reason)
			VALUES ($1, 'accept-gap', json_build_object('from', $2::text), 'because')`, r.cfg.Pipeline, from)
	}
	equal(t, "before", r.reopen().AcceptGap, false)
	accept("0/0")
	equal(t, "asked for behind another checkpoint", r.reopen().AcceptGap, false)
	accept("0/1")
	equal(t, "asked for", r.reopen().AcceptGap, true)
	accept("0/1") // after this start looked
	if err := r.st.Save(r.ctx, c); err != nil {
		t.Fatal(err)
	}
	equal(t, "a checkpoint of the same log uses nothing up", r.text("SELECT count(*)::text FROM tailbox_request WHERE done_at IS NULL"), "3")
	c.Log, c.Resume = 2, "0/2"
	if err := r.st.Save(r.ctx, c); err != nil {
		t.Fatal(err)
	}
	equal(t, "used up", r.text("SELECT string_agg(coalesce(result ->> 'note', 'open'), ', ' ORDER BY id) FROM tailbox_request"),
		"open, the gap was accepted, open")
	equal(t, "what is left is about a gap that is over", r.reopen().AcceptGap, false)
	result, _ := r.obey()
	equal(t, "without a gap", result.Error, "there is no gap: nothing was accepted")
}

// What lies about until a relay runs does not reach what was parked, or died, after it was asked for.
func TestRequestsReachOnlyWhatWasThere(t *testing.T) {
	t.Parallel()
	ask := func(r *storeRig, verb checkpoint.Verb, sel checkpoint.Selection) {
		if _, err := Ask(r.ctx, r.cfg, &checkpoint.Request{Verb: verb, Selection: sel, Reason: "why"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		verb checkpoint.Verb
		sel  checkpoint.Selection
		want string
	}{
		{checkpoint.VerbDrop, checkpoint.Selection{All: true}, "kafka:1 dropped, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbReplay, checkpoint.Selection{Sink: "kafka"}, "kafka:1 waiting!@, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"a", "b", "c"}}, "kafka:1 dead, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbDrop, checkpoint.Selection{All: true, States: []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying}},
			"kafka:1 dropped, kafka:2 dead!, kafka:3 dead!"},
		{checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{eventID(2), eventID(3)}}, "kafka:1 dead!, kafka:2 dropped, kafka:3 dropped"},
	} {
		r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
		two := msg(2, "b")
		r.park(dead("kafka", msg(1, "a"), true), head("kafka", two, 0))
		ask(r, test.verb, test.sel)
		r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died("kafka", two, true)}, Park: []checkpoint.Parked{dead("kafka", msg(3, "c"), true)}})
		r.obey()
		equal(t, fmt.Sprintf("%s %+v", test.verb, test.sel), r.parkedRows(), test.want)
	}
	// Requests that wait together do not hide what they are about from each other.
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.park(dead("kafka", msg(1, "a"), true))
	ask(r, checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"a"}})
	ask(r, checkpoint.VerbDrop, checkpoint.Selection{All: true})
	r.obey()
	r.obey()
	equal(t, "skipped, then dropped", r.parkedRows(), "kafka:1 dropped")
}

// The sink ” can be selected alone.
func TestSelectionOfTheUnrouted(t *testing.T) {
	t.Parallel()
	for _, sel := range []checkpoint.Selection{{Unrouted: true}, {Unrouted: true, Groups: []string{"a"}}, {Unrouted: true, IDs: []string{eventID(1), eventID(2)}}} {
		r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
		r.park(dead("", msg(1, "a"), true), dead("kafka", msg(2, "a"), true), dead("audit", msg(1, "a"), true))
		list, more, err := ListParked(r.ctx, r.cfg, sel, 10)
		if err != nil || more || len(list) != 1 || list[0].Sink != "" {
			t.Errorf("list %+v: %+v, %v", sel, list, err)
		}
		lanes, err := ListLanes(r.ctx, r.cfg, checkpoint.Selection{Unrouted: true}, 0)
		if err != nil || len(lanes) != 1 || lanes[0].Sink != "" {
			t.Errorf("lanes: %+v, %v", lanes, err)
		}
		r.ask(checkpoint.VerbDrop, sel)
		equal(t, fmt.Sprintf("%+v", sel), r.parkedRows(), ":1 dropped, audit:1 dead!, kafka:2 dead!")
	}
	for _, r := range []checkpoint.Request{{Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Unrouted: true, Groups: []string{"a"}}},
		{Verb: checkpoint.VerbDrop, Selection: checkpoint.Selection{Unrouted: true, Sink: "kafka"}}} {
		if sqlstore.Validate(&r) == nil {
			t.Errorf("%+v was not refused", r)
		}
	}
}

// Requests that nobody can carry out are closed with the reason, instead of coming up for ever.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	for _, c := range [][2]string{{"replay", "{}"}, {"accept-gap", "{}"}, {"replay", `{"ids": 7}`}, {"dance", "{}"}, {"hold", "{}"}, {"pause", "{}"}, {"resume", "{}"},
		{"drop", `{"all": true, "states": ["dropped"]}`}} {
		r.exec(`INSERT INTO tailbox_request (pipeline, verb, selection) VALUES ($1, $2, $3)`, r.cfg.Pipeline, c[0], c[1])
		requests, err := r.st.Requests(r.ctx)
		if err != nil || len(requests) != 0 {
			t.Errorf("%v: %v, %v", c, requests, err)
		}
		if r.text("SELECT result ->> 'error' FROM tailbox_request WHERE done_at IS NOT NULL ORDER BY id DESC LIMIT 1") == "" {
			t.Errorf("%v was closed without a reason", c)
		}
	}
}
