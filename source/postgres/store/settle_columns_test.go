package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// TestSettleSomeColumns: a table that is marked may have any of the columns that a mark can write, in any company.
func TestSettleSomeColumns(t *testing.T) {
	t.Parallel()
	for _, columns := range []string{"status", "delivered_at", "status attempts", "status last_error", "status attempts delivered_at",
		"status next_attempt_at", "delivered_at last_attempt_at", "status attempts last_attempt_at next_attempt_at last_error delivered_at", "status failures last_attempt_at updated_at",
		"delivered_at failures last_error updated_at"} {
		t.Run(columns, func(t *testing.T) {
			t.Parallel()
			types := map[string]string{"status": "text DEFAULT 'pending'", "attempts": "int", "last_error": "text",
				"delivered_at": "timestamptz", "next_attempt_at": "timestamptz", "last_attempt_at": "timestamptz", "failures": "smallint", "updated_at": "timestamp"}
			table := outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(),
				Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload"}}
			ddl := "CREATE TABLE events (id text PRIMARY KEY, type text, payload text"
			for _, name := range strings.Fields(columns) {
				*table.Columns.Field(name) = name
				ddl += ", " + name + " " + types[name]
			}
			r := &pgtest.StoreRig{Ctx: t.Context(), Rig: pgtest.NewRig(t, servers.Shared(t, "17"), ddl+");;"+migrate.TablesIn("").Script(), table)}
			r.Open()
			r.Exec(`INSERT INTO events (id, type) VALUES ('1', 'T'), ('2', 'T'), ('3', 'T')`)
			var rows []checkpoint.Row
			for i, id := range []string{"1", "2"} {
				rows = append(rows, checkpoint.Row{Table: "public.events", ID: id, Position: outbox.Position{Log: 1, Commit: uint64(i + 1)}})
			}
			if out := r.Settle(checkpoint.Settlement{Rows: rows}); out.Gone != 0 || len(out.Invisible) != 0 {
				t.Errorf("settled: %+v, want nothing gone or invisible", *out)
			}
			m := &outbox.Message{ID: "3", Table: "public.events", Position: outbox.Position{Log: 1, Commit: 9}, Group: "g"}
			r.ParkWhole(sourcetest.Dead("kafka", m, true))
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
			done := "status = 'delivered'"
			if !strings.Contains(columns, "status") {
				done = "delivered_at IS NOT NULL"
			}
			if got := r.Text(`SELECT count(*)::text FROM events WHERE ` + done); got != "3" {
				t.Errorf("%s rows are marked, want 3", got)
			}
		})
	}
}

// A column for attempts that is full shows the most that it holds, and the settlement goes on.
func TestCountsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for typ, most := range map[string]string{"smallint": "32767", "tries": "32767", "int": "40000", "numeric(3,0)": "999", "numeric(12,1)": "40000.0"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
			r.Exec("CREATE DOMAIN tries AS smallint")
			r.Exec("ALTER TABLE outbox ALTER attempts TYPE " + typ + ", ADD failures " + typ)
			r.Cfg.Tables[0].Columns.Failures = "failures"
			r.Reopen()
			r.Row(1)
			r.Row(2)
			m, other := pgtest.Msg(1, "g"), pgtest.Msg(2, "h")
			r.ParkWhole(sourcetest.Head("kafka", m, time.Hour), sourcetest.Head("kafka", other, time.Hour))
			tried := func() string { return r.Text("SELECT last_attempt_at::text FROM outbox WHERE id = $1", m.ID) }
			show := func() string {
				return r.Text("SELECT concat_ws(' ', status, attempts, failures) FROM outbox WHERE id = $1", m.ID)
			}
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", m, 40000, 0), sourcetest.Retried("kafka", other, 1, 0)}})
			pgtest.Equal(t, "row", show(), "retrying "+most+" "+most)
			before := tried()
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", m, 40001, 0)}})
			if now := tried(); now == before {
				t.Errorf("last attempt at %s, and the one before too", now)
			}
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m), sourcetest.Delivered("kafka", other)}})
			pgtest.Equal(t, "delivered", r.Text("SELECT string_agg(status, ' ') FROM outbox"), "delivered delivered")
		})
	}
}

// What all rows of a statement get fits as well.
func TestAlikeCountsFit(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Exec("ALTER TABLE outbox ALTER attempts TYPE smallint")
	r.Reopen()
	r.Row(1)
	sql, args, err := r.St.AlikeStatement(&store.RowChange{State: "retrying", Attempts: 40000}, sourcetest.EventID(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.St.Conn.Exec(r.Ctx, sql, args...); err != nil {
		t.Fatal(err)
	}
	pgtest.Equal(t, "rows", r.Rows(), "1 retrying 32767")
}

// A statement in which the server finds other parameters than the relay fails, as any other that is wrong; messages are settled.
func TestFeedbackOfOtherParameters(t *testing.T) {
	t.Parallel()
	var failed int
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), func(c *session.Config) {
		c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' /* /* */ :id */"}
		c.Feedback = func(_, _ string, n int, why error) {
			if failed += n; !errors.Is(why, pgstore.ErrParams) {
				t.Errorf("feedback: %v", why)
			}
		}
	}, pgtest.Shape("debezium", "outbox"))
	r.Exec("CREATE TABLE orders (id uuid PRIMARY KEY, state text)")
	r.Settle(checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Dead("kafka", pgtest.Msg(1, "g"), true), sourcetest.Dead("kafka", pgtest.Msg(2, "h"), true)}})
	pgtest.Equal(t, "failed", failed, 2)
	pgtest.Equal(t, "parked", r.ParkedRows(), "kafka:1 dead!, kafka:2 dead!")
}

// Ids from before the id column got another type cannot be found in the table: their messages are settled without a row.
func TestSettleAfterIDTypeChanged(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"uuid USING gen_random_uuid()", "bigint USING 7"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
			r.Exec("ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE text")
			r.Exec("INSERT INTO outbox (id, type, payload) VALUES ('old', 'T', '')")
			r.Exec("ALTER TABLE outbox ALTER id TYPE " + typ)
			r.Reopen()
			m, tooLarge := pgtest.Msg(1, "g"), pgtest.Msg(2, "h")
			m.ID, tooLarge.ID = "old", "older"
			p := sourcetest.Dead("kafka", tooLarge, true)
			p.InTable = true
			out := r.Settle(checkpoint.Settlement{Park: []checkpoint.Parked{p}, Rows: []checkpoint.Row{sourcetest.RowOf(m, false), sourcetest.RowOf(tooLarge, true)}})
			pgtest.Equal(t, "settled", *out, checkpoint.Settled{})
			r.Ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{tooLarge.ID}})
			due, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
			if err != nil || len(due) != 1 || due[0].Message.Fault == nil {
				t.Errorf("due: %+v, %v", due, err)
			}
			pgtest.Equal(t, "status", r.Text("SELECT status FROM outbox"), "pending")
		})
	}
}

// An array is no id, and says so before anything is read.
func TestArrayIsNoID(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id int[] PRIMARY KEY, type text, payload text);;"+migrate.TablesIn("").Script(), pgtest.Shape("tailbox", "a"))
	st, err := pgstore.Open(t.Context(), r.Cfg)
	if err == nil {
		_ = st.Close(t.Context())
	}
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "column id of table public.a is an array") {
		t.Errorf("open: %v", err)
	}
	findings, err := setup.Check(t.Context(), r.Cfg)
	if problems := pgtest.Levels(findings, check.Problem); err != nil || !strings.Contains(problems, "column id of table public.a is an array") {
		t.Errorf("check: %v, %s", err, problems)
	}
}
