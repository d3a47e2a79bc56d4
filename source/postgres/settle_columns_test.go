package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
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
			r := &storeRig{ctx: t.Context(), rig: newRig(t, servers.Shared(t, "17"), ddl+");;"+tableNames("").ownTables(), table)}
			r.open()
			r.exec(`INSERT INTO events (id, type) VALUES ('1', 'T'), ('2', 'T'), ('3', 'T')`)
			var rows []checkpoint.Row
			for i, id := range []string{"1", "2"} {
				rows = append(rows, checkpoint.Row{Table: "public.events", ID: id, Position: outbox.Position{Log: 1, Commit: uint64(i + 1)}})
			}
			if out := r.settle(checkpoint.Settlement{Rows: rows}); out.Gone != 0 || len(out.Invisible) != 0 {
				t.Errorf("settled: %+v, want nothing gone or invisible", *out)
			}
			m := &outbox.Message{ID: "3", Table: "public.events", Position: outbox.Position{Log: 1, Commit: 9}, Group: "g"}
			r.parkWhole(dead("kafka", m, true))
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
			done := "status = 'delivered'"
			if !strings.Contains(columns, "status") {
				done = "delivered_at IS NOT NULL"
			}
			if got := r.text(`SELECT count(*)::text FROM events WHERE ` + done); got != "3" {
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
			r := newStoreRig(t, servers.Shared(t, "17"), func(c *Config) { c.Tables[0].Columns.Failures = "failures" }, shape("tailbox", "outbox"))
			r.exec("CREATE DOMAIN tries AS smallint")
			r.exec("ALTER TABLE outbox ALTER attempts TYPE " + typ + ", ADD failures " + typ)
			r.reopen()
			r.row(1)
			r.row(2)
			m, other := msg(1, "g"), msg(2, "h")
			r.parkWhole(head("kafka", m, time.Hour), head("kafka", other, time.Hour))
			tried := func() string { return r.text("SELECT last_attempt_at::text FROM outbox WHERE id = $1", m.ID) }
			show := func() string {
				return r.text("SELECT concat_ws(' ', status, attempts, failures) FROM outbox WHERE id = $1", m.ID)
			}
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", m, 40000, 0), retried("kafka", other, 1, 0)}})
			equal(t, "row", show(), "retrying "+most+" "+most)
			before := tried()
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", m, 40001, 0)}})
			if now := tried(); now == before {
				t.Errorf("last attempt at %s, and the one before too", now)
			}
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m), delivered("kafka", other)}})
			equal(t, "delivered", r.text("SELECT string_agg(status, ' ') FROM outbox"), "delivered delivered")
		})
	}
}

// What all rows of a statement get fits as well.
func TestAlikeCountsFit(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
	r.exec("ALTER TABLE outbox ALTER attempts TYPE smallint")
	r.reopen()
	r.row(1)
	w := &rowWork{table: r.st.tables.order[0], alike: true, rows: []rowChange{{id: eventID(1), RowChange: &store.RowChange{Word: "retrying", Attempts: 40000}}}}
	args, err := w.args()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.st.conn.Exec(r.ctx, w.sql(false), args...); err != nil {
		t.Fatal(err)
	}
	equal(t, "rows", r.rows(), "1 retrying 32767")
}

// A statement in which the server finds other parameters than the relay fails, as any other that is wrong; messages are settled.
func TestFeedbackOfOtherParameters(t *testing.T) {
	t.Parallel()
	var failed int
	r := newStoreRig(t, servers.Shared(t, "17"), func(c *Config) {
		c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' /* /* */ :id */"}
		c.Feedback = func(_, _ string, n int, why error) {
			if failed += n; !errors.Is(why, errParams) {
				t.Errorf("feedback: %v", why)
			}
		}
	}, shape("debezium", "outbox"))
	r.exec("CREATE TABLE orders (id uuid PRIMARY KEY, state text)")
	r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{dead("kafka", msg(1, "g"), true), dead("kafka", msg(2, "h"), true)}})
	equal(t, "failed", failed, 2)
	equal(t, "parked", r.parkedRows(), "kafka:1 dead!, kafka:2 dead!")
}

// Ids from before the id column got another type cannot be found in the table: their messages are settled without a row.
func TestSettleAfterIDTypeChanged(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"uuid USING gen_random_uuid()", "bigint USING 7"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
			r.exec("ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE text")
			r.exec("INSERT INTO outbox (id, type, payload) VALUES ('old', 'T', '')")
			r.exec("ALTER TABLE outbox ALTER id TYPE " + typ)
			r.reopen()
			m, tooLarge := msg(1, "g"), msg(2, "h")
			m.ID, tooLarge.ID = "old", "older"
			p := dead("kafka", tooLarge, true)
			p.InTable = true
			out := r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{p}, Rows: []checkpoint.Row{rowOf(m, false), rowOf(tooLarge, true)}})
			equal(t, "settled", *out, checkpoint.Settled{})
			r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{tooLarge.ID}})
			due, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
			if err != nil || len(due) != 1 || due[0].Message.Fault == nil {
				t.Errorf("due: %+v, %v", due, err)
			}
			equal(t, "status", r.text("SELECT status FROM outbox"), "pending")
		})
	}
}

// An array is no id, and says so before anything is read.
func TestArrayIsNoID(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id int[] PRIMARY KEY, type text, payload text);;"+tableNames("").ownTables(), shape("tailbox", "a"))
	st, err := openStore(t.Context(), r.cfg)
	if err == nil {
		_ = st.Close(t.Context())
	}
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "column id of table public.a is an array") {
		t.Errorf("open: %v", err)
	}
	findings, err := r.cfg.Check(t.Context())
	if problems := levels(findings, Problem); err != nil || !strings.Contains(problems, "column id of table public.a is an array") {
		t.Errorf("check: %v, %s", err, problems)
	}
}
