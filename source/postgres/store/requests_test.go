package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// The sink ” can be selected alone.
func TestSelectionOfTheUnrouted(t *testing.T) {
	t.Parallel()
	for _, sel := range []checkpoint.Selection{{Unrouted: true}, {Unrouted: true, Groups: []string{"a"}}, {Unrouted: true, IDs: []string{sourcetest.EventID(1), sourcetest.EventID(2)}}} {
		r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
		r.Park(sourcetest.Dead("", pgtest.Msg(1, "a"), true), sourcetest.Dead("kafka", pgtest.Msg(2, "a"), true), sourcetest.Dead("audit", pgtest.Msg(1, "a"), true))
		list, more, err := postgres.Config(r.Cfg).Operator().List(r.Ctx, sel, 10, true)
		if err != nil || more || len(list) != 1 || list[0].Sink != "" {
			t.Errorf("list %+v: %+v, %v", sel, list, err)
		}
		lanes, next, err := postgres.Config(r.Cfg).Operator().Lanes(r.Ctx, checkpoint.Selection{Unrouted: true}, checkpoint.Lane{}, 0)
		if err != nil || next != nil || len(lanes) != 1 || lanes[0].Sink != "" {
			t.Errorf("lanes: %+v, %v", lanes, err)
		}
		r.Ask(checkpoint.VerbDrop, sel)
		pgtest.Equal(t, fmt.Sprintf("%+v", sel), r.ParkedRows(), ":1 dropped, audit:1 dead!, kafka:2 dead!")
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
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	for _, c := range [][2]string{{"replay", "{}"}, {"accept-gap", "{}"}, {"replay", `{"ids": 7}`}, {"dance", "{}"}, {"hold", "{}"}, {"pause", "{}"}, {"resume", "{}"},
		{"drop", `{"all": true, "states": ["dropped"]}`}} {
		r.Exec(`INSERT INTO tailbox_request (pipeline, verb, selection) VALUES ($1, $2, $3)`, r.Cfg.Pipeline, c[0], c[1])
		requests, err := r.St.Requests(r.Ctx)
		if err != nil || len(requests) != 0 {
			t.Errorf("%v: %v, %v", c, requests, err)
		}
		if r.Text("SELECT result ->> 'error' FROM tailbox_request WHERE done_at IS NOT NULL ORDER BY id DESC LIMIT 1") == "" {
			t.Errorf("%v was closed without a reason", c)
		}
	}
}

// A trigger of the user's that refuses what a request does to a row ends the request, and nothing else.
func TestRequestRefusedByTrigger(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	r.Row(1)
	r.Park(sourcetest.Dead("kafka", pgtest.Msg(1, "a"), true), sourcetest.Dead("mail", pgtest.Msg(1, "a"), true), sourcetest.Dead("kafka", pgtest.Msg(2, "b"), true))
	r.Exec(`UPDATE tailbox_parked SET row_settled = true`) // as of a row that was too large to be copied, which stays
	r.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	r.Exec(`CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()`)
	was := r.ParkedRows()
	result, applied := r.Ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{sourcetest.EventID(1)}})
	if want := "table public.outbox: ERROR: not this one (SQLSTATE P0001)"; !strings.Contains(result.Error, want) || applied.Changed != 0 {
		t.Errorf("result %+v, want %q", *result, want)
	}
	pgtest.Equal(t, "parked", r.ParkedRows(), was)
	if result, _ = r.Ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"b"}}); result.Error != "" || result.Changed != 1 {
		t.Errorf("what follows: %+v", *result)
	}
}

// A selection that the server refuses to look for is closed with what it says, instead of coming up for ever.
func TestRefusedSelection(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	result, _ := r.Ask(checkpoint.VerbDrop, checkpoint.Selection{IDs: []string{"a\x00"}})
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
			r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), func(c *session.Config) {
				c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' WHERE id = :id::uuid"}
			}, pgtest.Shape("debezium", "outbox"))
			r.Exec(`INSERT INTO tailbox_request (pipeline, verb, selection, reason, "by") VALUES ($1, 'hold', '{"groups": ["a"]}', 'why', 'op')`, r.Cfg.Pipeline)
			other := r.Connect()
			pgtest.Exec(t, other, "BEGIN")
			pgtest.Exec(t, other, "LOCK TABLE tailbox_request IN "+mode+" MODE")
			for i := range 2 {
				if rs, err := r.St.Requests(r.Ctx); err != nil || len(rs) != 0 {
					t.Errorf("requests, time %d: %v, %v", i+1, rs, err)
				}
			}
			pgtest.Exec(t, r.St.Conn, "SET lock_timeout = '1h'")
			if rs, err := r.St.Requests(r.Ctx); err != nil || len(rs) != 0 {
				t.Errorf("requests, without waiting: %v, %v", rs, err)
			}
			pgtest.Exec(t, r.St.Conn, "SET lock_timeout = '2s'")
			r.Settle(checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Dead("kafka", pgtest.Msg(1, "g"), true)}}) // there is no table orders: that is written down later
			pgtest.Equal(t, "parked", r.ParkedRows(), "kafka:1 dead!")
			pgtest.Exec(t, other, "ROLLBACK")
			rs, err := r.St.Requests(r.Ctx)
			if err != nil || len(rs) != 1 {
				t.Errorf("requests, afterwards: %v, %v", rs, err)
			}
			result, _ := r.Ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"b"}})
			pgtest.Equal(t, "changed", result.Changed, 1)
		})
	}
}

// What failed of feedback is not written down while the table of requests is locked, and the settlement goes on.
func TestFeedbackWhileRequestsAreLocked(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), func(c *session.Config) {
		c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' WHERE id = :id::uuid"}
	}, pgtest.Shape("debezium", "outbox"))
	other := r.Connect()
	pgtest.Exec(t, other, "BEGIN")
	pgtest.Exec(t, other, "LOCK TABLE tailbox_request")
	r.Settle(checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Dead("kafka", pgtest.Msg(1, "g"), true)}})
	pgtest.Equal(t, "parked", r.ParkedRows(), "kafka:1 dead!")
}

// Who may ask for verbs can say neither who asked, nor when, nor what came of it.
func TestClientsCannotForge(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	role := r.Role("client", "")
	r.Exec(setup.ClientSQL(r.Cfg, role) + "GRANT USAGE ON SCHEMA public TO " + role)
	client := r.As(role)
	id, err := postgres.Config(client).Operator().Ask(r.Ctx, &checkpoint.Request{Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"mail"}}, By: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Equal(t, "who asked", r.Text(`SELECT "by" || ' ' || (requested_at <= now()) FROM tailbox_request WHERE id = $1`, id), role+" true")
	pgtest.Equal(t, "changed", func() int { result, _ := r.Obey(); return result.Changed }(), 1)
	conn, err := pgx.Connect(r.Ctx, client.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(r.Ctx) }()
	for _, column := range []string{"by", "requested_at", "done_at", "result", "in_force"} {
		_, err := conn.Exec(r.Ctx, "INSERT INTO tailbox_request (pipeline, verb, "+sqltext.Ident(column)+") VALUES ('a', 'pause', NULL)")
		pgtest.Equal(t, column, pgerr.State(err), "42501")
	}
}
