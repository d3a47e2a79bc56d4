package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// The sink ” can be selected alone.
func TestSelectionOfTheUnrouted(t *testing.T) {
	t.Parallel()
	for _, sel := range []checkpoint.Selection{{Unrouted: true}, {Unrouted: true, Groups: []string{"a"}}, {Unrouted: true, IDs: []string{eventID(1), eventID(2)}}} {
		r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
		r.park(dead("", msg(1, "a"), true), dead("kafka", msg(2, "a"), true), dead("audit", msg(1, "a"), true))
		list, more, err := r.cfg.Operator().List(r.ctx, sel, 10, true)
		if err != nil || more || len(list) != 1 || list[0].Sink != "" {
			t.Errorf("list %+v: %+v, %v", sel, list, err)
		}
		lanes, err := r.cfg.Operator().Lanes(r.ctx, checkpoint.Selection{Unrouted: true}, 0)
		if err != nil || len(lanes) != 1 || lanes[0].Sink != "" {
			t.Errorf("lanes: %+v, %v", lanes, err)
		}
		r.ask(checkpoint.VerbDrop, sel)
		equal(t, fmt.Sprintf("%+v", sel), r.parkedRows(), ":1 dropped, audit:1 dead!, kafka:2 dead!")
	}
	for _, r := range []checkpoint.Request{{Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Unrouted: true, Groups: []string{"a"}}},
		{Verb: checkpoint.VerbDrop, Selection: checkpoint.Selection{Unrouted: true, Sink: "kafka"}}} {
		if store.Validate(&r) == nil {
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

// A trigger of the user's that refuses what a request does to a row ends the request, and nothing else.
func TestRequestRefusedByTrigger(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.row(1)
	r.park(dead("kafka", msg(1, "a"), true), dead("mail", msg(1, "a"), true), dead("kafka", msg(2, "b"), true))
	r.exec(`UPDATE tailbox_parked SET row_settled = true`) // as of a row that was too large to be copied, which stays
	r.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	r.exec(`CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()`)
	was := r.parkedRows()
	result, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{eventID(1)}})
	if want := "table public.outbox: ERROR: not this one (SQLSTATE P0001)"; !strings.Contains(result.Error, want) || applied.Changed != 0 {
		t.Errorf("result %+v, want %q", *result, want)
	}
	equal(t, "parked", r.parkedRows(), was)
	if result, _ = r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"b"}}); result.Error != "" || result.Changed != 1 {
		t.Errorf("what follows: %+v", *result)
	}
}

// A selection that the server refuses to look for is closed with what it says, instead of coming up for ever.
func TestRefusedSelection(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	result, _ := r.ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{"a\x00"}})
	if !strings.Contains(result.Error, "SQLSTATE 22021") || !strings.Contains(result.Error, "nothing was changed") {
		t.Errorf("result %+v", *result)
	}
}

// While others hold a lock on the table of requests, requests wait, and nothing else does.
func TestRequestsWhileTheirTableIsLocked(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"ACCESS EXCLUSIVE", "EXCLUSIVE"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, "17"), func(c *Config) {
				c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' WHERE id = :id::uuid"}
			}, shape("debezium", "outbox"))
			r.exec(`INSERT INTO tailbox_request (pipeline, verb, selection, reason, "by") VALUES ($1, 'hold', '{"groups": ["a"]}', 'why', 'op')`, r.cfg.Pipeline)
			other := r.connect()
			exec(t, other, "BEGIN")
			exec(t, other, "LOCK TABLE tailbox_request IN "+mode+" MODE")
			for i := range 2 {
				if rs, err := r.st.Requests(r.ctx); err != nil || len(rs) != 0 {
					t.Errorf("requests, time %d: %v, %v", i+1, rs, err)
				}
			}
			exec(t, r.st.conn, "SET lock_timeout = '1h'")
			if rs, err := r.st.Requests(r.ctx); err != nil || len(rs) != 0 {
				t.Errorf("requests, without waiting: %v, %v", rs, err)
			}
			exec(t, r.st.conn, "SET lock_timeout = '2s'")
			r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{dead("kafka", msg(1, "g"), true)}}) // there is no table orders: that is written down later
			equal(t, "parked", r.parkedRows(), "kafka:1 dead!")
			exec(t, other, "ROLLBACK")
			rs, err := r.st.Requests(r.ctx)
			if err != nil || len(rs) != 1 {
				t.Errorf("requests, afterwards: %v, %v", rs, err)
			}
			result, _ := r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"b"}})
			equal(t, "changed", result.Changed, 1)
		})
	}
}

// What failed of feedback is not written down while the table of requests is locked, and the settlement goes on.
func TestFeedbackWhileRequestsAreLocked(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), func(c *Config) {
		c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' WHERE id = :id::uuid"}
	}, shape("debezium", "outbox"))
	other := r.connect()
	exec(t, other, "BEGIN")
	exec(t, other, "LOCK TABLE tailbox_request")
	r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{dead("kafka", msg(1, "g"), true)}})
	equal(t, "parked", r.parkedRows(), "kafka:1 dead!")
}

// Who may ask for verbs can say neither who asked, nor when, nor what came of it.
func TestClientsCannotForge(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	role := r.role("client", "")
	r.exec(ClientSQL(r.cfg, role) + "GRANT USAGE ON SCHEMA public TO " + role)
	client := r.as(role)
	id, err := client.Operator().Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"mail"}}, By: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "who asked", r.text(`SELECT "by" || ' ' || (requested_at <= now()) FROM tailbox_request WHERE id = $1`, id), role+" true")
	equal(t, "changed", func() int { result, _ := r.obey(); return result.Changed }(), 1)
	conn, err := pgx.Connect(r.ctx, client.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(r.ctx) }()
	for _, column := range []string{"by", "requested_at", "done_at", "result", "in_force"} {
		_, err := conn.Exec(r.ctx, "INSERT INTO tailbox_request (pipeline, verb, "+quoteIdent(column)+") VALUES ('a', 'pause', NULL)")
		equal(t, column, sqlState(err), "42501")
	}
}
