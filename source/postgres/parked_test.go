package postgres

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sqlstore"
	"github.com/tailbox/tailbox/test/servers"
)

// What is parked comes back as it was.
func TestParkedRoundTrip(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("tailbox", "outbox"))
			full := checkpoint.Parked{Sink: `s"ink`, Message: &outbox.Message{ID: eventID(1), Type: "Type", Topic: "töpic", Group: "g:1",
				Key: []byte{0, 255}, Payload: []byte("\x00\xff payload"), Headers: []outbox.Header{{Name: "b", Value: []byte("1")},
					{Name: "a", Value: nil}, {Name: "b", Value: []byte("two\x00\"\\\n")}, {Name: "e", Value: []byte{}}},
				Tenant: "t", ContentType: "c", IdempotencyKey: "i", CorrelationID: "r", Priority: -3, MaxAttempts: 9,
				AvailableAt: time.Unix(1800000000, 5000), CreatedAt: time.Unix(1600000000, 0), Table: "public.outbox",
				Fields:     []outbox.Field{{Name: "x", Value: []byte("y")}, {Name: "n", Null: true}, {Name: "z", Value: []byte{}}},
				Position:   outbox.Position{Log: math.MaxUint32, Commit: math.MaxUint64, N: math.MaxUint32},
				CommitTime: time.Unix(1700000000, 123000), Txn: 77},
				State: checkpoint.StateRetrying, Blocks: true, Attempts: 4, Due: true, LastError: "e\x00\xff", ErrorClass: "rejected", Replays: 2}
			bare := checkpoint.Parked{Sink: "b", Message: &outbox.Message{ID: "", Table: "public.outbox", Position: outbox.Position{Log: 1}},
				State: checkpoint.StateRetrying, Due: true}
			empty := checkpoint.Parked{Sink: "b", Message: &outbox.Message{ID: "e", Key: []byte{}, Payload: []byte{}, Table: "public.outbox",
				Position: outbox.Position{Log: 2}}, State: checkpoint.StateRetrying, Due: true}
			r.park(full, bare, empty)
			got, next, err := r.st.Due(r.ctx, []string{"b", `s"ink`, "other"}, 10)
			if err != nil || next != 0 {
				t.Fatalf("next in %v, %v", next, err)
			}
			full.LastError = "e\uFFFD\uFFFD"
			full.Message.Txn = 0
			diff := cmp.Diff([]checkpoint.Parked{bare, empty, full}, got, cmpopts.IgnoreFields(checkpoint.Parked{}, "NextAttempt"),
				cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }))
			if diff != "" {
				t.Errorf("parked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	long := sqlstore.ErrorText(strings.Repeat("ä", sqlstore.MaxErrorText))
	if len(long) > sqlstore.MaxErrorText || strings.Trim(long, "ä") != "" {
		t.Errorf("long text became %d bytes, ending in %q", len(long), long[len(long)-4:])
	}
}

// A message that is parked already stays as it is: the log is read again after a crash.
func TestParkAgainChangesNothing(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.park(dead("kafka", msg(1, "g"), true))
	r.park(head("kafka", msg(1, "g"), 0), follower("kafka", msg(2, "g")), head("audit", msg(1, "g"), 0))
	equal(t, "parked", r.parkedRows(), "audit:1 retrying!@, kafka:1 dead!, kafka:2 waiting!")
	equal(t, "attempts", r.text("SELECT attempts::text FROM tailbox_parked WHERE state = 'dead'"), "15")
}

// Only the first of a lane is due, and whoever leaves hands over in the same transaction (R7, R10).
func TestLanePromotion(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	a, b, c, d := msg(1, "g"), msg(2, "g"), msg(3, "g"), msg(4, "h")
	r.park(head("kafka", a, time.Hour), follower("kafka", b), follower("kafka", c), head("kafka", d, 0))
	equal(t, "parked", r.parkedRows(), "kafka:1 retrying!@, kafka:2 waiting!, kafka:3 waiting!, kafka:4 retrying!@")
	equal(t, "due", r.due("kafka"), "kafka:4")
	ps, next, err := r.st.Due(r.ctx, []string{"kafka"}, 10)
	if err != nil || len(ps) != 1 || next < 59*time.Minute || next > time.Hour {
		t.Errorf("due: %d, next in %v, %v", len(ps), next, err)
	}
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", a)}})
	equal(t, "open", lanesText(out.Open), "")
	equal(t, "next", lanesText(out.Next), "kafka/g")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:4")
	// The second fails and dies without blocking, the third goes on.
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died("kafka", b, false)}})
	equal(t, "next", lanesText(out.Next), "kafka/g")
	equal(t, "parked", r.parkedRows(), "kafka:2 dead, kafka:3 waiting!@, kafka:4 retrying!@")
	// The third fails for an hour: nothing of the lane is due; then it is dead and blocks.
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", c, 2, time.Hour)}})
	equal(t, "next", lanesText(out.Next)+lanesText(out.Open), "")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{died("kafka", c, true)},
		Park: []checkpoint.Parked{follower("kafka", msg(5, "g"))}})
	equal(t, "next", lanesText(out.Next)+lanesText(out.Open), "")
	equal(t, "parked", r.parkedRows(), "kafka:2 dead, kafka:3 dead!, kafka:4 retrying!@, kafka:5 waiting!")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", c), delivered("kafka", d)}})
	equal(t, "open", lanesText(out.Open), "kafka/h")
	equal(t, "next", lanesText(out.Next), "kafka/g")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", msg(5, "g"))}})
	equal(t, "open", lanesText(out.Open), "kafka/g")
	equal(t, "parked", r.parkedRows(), "kafka:2 dead")
}

// A follower that is parked just after the last one left becomes the first of its lane: it must not wait for ever.
func TestFollowerWithoutHeadIsDue(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.park(follower("kafka", msg(1, "g")), follower("kafka", msg(2, "g")))
	equal(t, "due", r.due("kafka"), "kafka:1")
}

// Deliveries without a group, and those with a time of their own, are lanes of their own.
func TestLanesOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	later := msg(3, "g")
	later.AvailableAt = time.Now().Add(time.Hour)
	scheduled := checkpoint.Parked{Sink: "kafka", Message: later, State: checkpoint.StateWaiting, Due: true, NextAttempt: time.Hour}
	r.park(head("kafka", msg(1, ""), 0), head("kafka", msg(2, ""), 0), scheduled)
	equal(t, "parked", r.parkedRows(), "kafka:1 retrying@, kafka:2 retrying@, kafka:3 waiting@")
	equal(t, "due", r.due("kafka"), "kafka:1 kafka:2")
	equal(t, "blocked", lanesText(r.reopen().Blocked), "")
	page, more, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "g"}, outbox.Position{}, 10, 1<<20)
	if err != nil || len(page) != 0 || more {
		t.Errorf("page of a lane without blocking deliveries: %s, %v, %v", deliveries(page), more, err)
	}
	c := retried("kafka", later, 1, 0)
	c.Blocks = false
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c, delivered("kafka", msg(1, ""))}})
	equal(t, "open", lanesText(out.Open)+lanesText(out.Next), "")
	equal(t, "due", r.due("kafka"), "kafka:2 kafka:3")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", later)}})
	equal(t, "open", lanesText(out.Open)+lanesText(out.Next), "")
}

func TestPage(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	lane := checkpoint.Lane{Sink: "kafka", Group: "g"}
	page := func(after outbox.Position, limit, bytes int) string {
		t.Helper()
		ps, more, err := r.st.Page(r.ctx, lane, after, limit, bytes)
		if err != nil {
			t.Fatal(err)
		}
		if more {
			return strings.TrimSpace(deliveries(ps) + " …")
		}
		return deliveries(ps)
	}
	equal(t, "empty", page(outbox.Position{}, 5, 1000), "")
	r.park(head("kafka", msg(1, "g"), 0), follower("kafka", msg(2, "g")), dead("kafka", msg(3, "g"), false), follower("kafka", msg(4, "g")),
		dead("kafka", msg(5, "g"), true), follower("kafka", msg(6, "g")), follower("other", msg(2, "g")), follower("kafka", msg(2, "h")))
	equal(t, "up to the dead one", page(outbox.Position{}, 5, 1000), "kafka:1 kafka:2 kafka:4 …")
	equal(t, "limit", page(outbox.Position{}, 2, 1000), "kafka:1 kafka:2 …")
	equal(t, "bytes", page(outbox.Position{}, 5, 10), "kafka:1 …")
	equal(t, "after", page(msg(1, "g").Position, 5, 1000), "kafka:2 kafka:4 …")
	equal(t, "at the dead one", page(msg(4, "g").Position, 5, 1000), "…")
	equal(t, "the end", page(msg(5, "g").Position, 5, 1000), "kafka:6")
	r.park(dead("", msg(2, "g"), true))
	equal(t, "up to one that could not be routed", page(outbox.Position{}, 5, 1000), "kafka:1 kafka:2 …")
	r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"g"}})
	equal(t, "held", page(outbox.Position{}, 5, 1000), "…")
}

// What could not be routed blocks its group at every sink, from its position on.
func TestUnroutableBlocksItsGroup(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	bad := msg(2, "g")
	r.park(head("kafka", msg(1, "g"), 0), dead("", bad, true), follower("kafka", msg(3, "g")), follower("audit", msg(3, "g")), head("audit", msg(4, "h"), 0))
	equal(t, "parked", r.parkedRows(), "kafka:1 retrying!@, :2 dead!, audit:3 waiting!, kafka:3 waiting!, audit:4 retrying!@")
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", msg(1, "g"))}})
	equal(t, "next", lanesText(out.Next)+lanesText(out.Open), "")
	equal(t, "due", r.due("kafka", "audit", ""), "audit:4")
	_, applied := r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{bad.ID}})
	equal(t, "blocked", lanesText(applied.Blocked), "/g")
	equal(t, "due", r.due("kafka", "audit", ""), ":2 audit:4")
	out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("", bad)}})
	equal(t, "open", lanesText(out.Open), "/g")
	equal(t, "due", r.due("kafka", "audit"), "audit:3 kafka:3 audit:4")
	// One that is parked later, but stands earlier, takes their turn away again.
	early := msg(2, "g")
	early.ID = eventID(12)
	r.park(dead("", early, true))
	equal(t, "due", r.due("kafka", "audit"), "audit:4")
	_, applied = r.ask(checkpoint.VerbSkip, checkpoint.Selection{Groups: []string{"g"}})
	equal(t, "open", lanesText(applied.Open), "/g")
	equal(t, "due", r.due("kafka", "audit"), "audit:3 kafka:3 audit:4")
}

// on_exhausted latest: all but the newest of the lane are dead.
func TestSupersede(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
	for i := 1; i <= 4; i++ {
		r.row(i)
	}
	r.parkWhole(head("kafka", msg(1, "g"), 0), follower("kafka", msg(2, "g")), follower("kafka", msg(3, "g")), head("kafka", msg(4, "h"), time.Hour))
	c := died("kafka", msg(1, "g"), false)
	c.Supersede = true
	out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c}})
	equal(t, "next", lanesText(out.Next), "kafka/g")
	equal(t, "parked", r.parkedRows(), "kafka:1 dead, kafka:2 dead, kafka:3 waiting!@, kafka:4 retrying!@")
	equal(t, "rows", r.rows(), "1 dead 15 bad, 2 dead 0 superseded by a later message of its group, 3 waiting 0, 4 retrying 1 boom")
}

// Fair: a sink with many due lanes does not hide another's; and the answer is bounded in number and in bytes.
func TestDueIsFairAndBounded(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	var ps []checkpoint.Parked
	for i := 1; i <= 50; i++ {
		ps = append(ps, head("busy", msg(i, ""), 0))
	}
	ps = append(ps, head("calm", msg(60, ""), 0))
	r.park(ps...)
	got, next, err := r.st.Due(r.ctx, []string{"busy", "calm"}, 5)
	if err != nil || len(got) != 5 || got[4].Sink != "calm" || next != time.Millisecond {
		t.Errorf("due: %s, next in %v, %v", deliveries(got), next, err)
	}
	r.exec("DELETE FROM tailbox_parked WHERE sink = 'busy' AND message_id > $1", eventID(5))
	r.exec("UPDATE tailbox_parked SET payload = convert_to(repeat('x', 7000000), 'UTF8') WHERE sink = 'busy'")
	got, next, err = r.st.Due(r.ctx, []string{"busy"}, 50)
	if err != nil || len(got) != 3 || next != time.Millisecond {
		t.Errorf("due: %d deliveries of 7 MB, next in %v, %v, want 3", len(got), next, err)
	}
	got, _, err = r.st.Due(r.ctx, []string{"busy", "calm"}, 50)
	if err != nil || len(got) != 3 || got[2].Sink != "calm" {
		t.Errorf("due beside another sink: %s, %v", deliveries(got), err)
	}
}

// Large messages that are parked, or read again from their rows, pass through in bounded pieces.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	var ps []checkpoint.Parked
	for i := 1; i <= 5; i++ {
		m := msg(i, "g")
		m.Payload = make([]byte, 6<<20)
		ps = append(ps, follower("kafka", m))
	}
	r.park(ps...)
	equal(t, "parked", r.parkedRows(), "kafka:1 waiting!@, kafka:2 waiting!, kafka:3 waiting!, kafka:4 waiting!, kafka:5 waiting!")
	r.exec("UPDATE tailbox_parked SET in_table = true, payload = NULL")
	r.exec(`INSERT INTO outbox SELECT message_id::uuid, 'a', 'b', 'T', to_jsonb(repeat('x', 6000000)) FROM tailbox_parked`)
	page, more, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "g"}, outbox.Position{}, 10, 1<<20)
	if err != nil || deliveries(page) != "kafka:1 kafka:2 kafka:3" || !more {
		t.Errorf("page: %s, %v, %v", deliveries(page), more, err)
	}
	for i := range page {
		if len(page[i].Message.Payload) != 6000002 || page[i].InTable {
			t.Errorf("message %d has %d bytes", i, len(page[i].Message.Payload))
		}
	}
}
