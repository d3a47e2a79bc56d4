package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// Ids travel as what their column is, and tables differ in what they have of the shape.
func TestSettleIDTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, id string }{
		{"uuid", "0b0e8f6a-8a3e-4b58-9d3c-111111111111"}, {"bigint", "-9000000000"}, {"integer", "7"}, {"smallint", "3"},
		{"text", "ä'\\x"}, {"varchar(13)", "0HZXEQ5Y8JY5Z"}, {"char(5)", "abc"}, {"numeric", "1.50"}, {"my_id", "42"}, {"my_enum", "b"},
		{"timestamp", "2024-02-03 04:05:06.789"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			t.Parallel()
			table := outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(),
				Columns: outbox.Columns{ID: "the id", Type: "type", Payload: "payload", Status: "st", Attempts: "tries", LastError: "err"}}
			r := &pgtest.StoreRig{Ctx: t.Context(), Rig: pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE DOMAIN my_id AS bigint;;CREATE DOMAIN my_err AS varchar(9);;"+
				"CREATE TYPE my_enum AS ENUM ('a', 'b');;CREATE TYPE word AS ENUM ('pending', 'delivered', 'dead', 'waiting', 'retrying');;"+
				`CREATE TABLE events ("the id" `+c.typ+` PRIMARY KEY, type text, payload text, st word DEFAULT 'pending', tries smallint, err my_err);;`+
				migrate.TablesIn("").Script(), table)}
			r.Open()
			r.Exec(`INSERT INTO events ("the id", type) VALUES ($1::text::`+c.typ+`, 'T')`, c.id)
			m := &outbox.Message{ID: c.id, Table: "public.events", Position: outbox.Position{Log: 1, Commit: 5}, Group: "g"}
			r.ParkWhole(sourcetest.Dead("kafka", m, true))
			pgtest.Equal(t, "view", r.Text(`SELECT st || ' ' || tries || ' ' || err FROM events`), "dead 15 bad")
			long := sourcetest.Retried("kafka", m, 3, 0)
			long.LastError = "a long error\x00 text"
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{long}})
			pgtest.Equal(t, "view", r.Text(`SELECT st || ' ' || tries || ' ' || err FROM events`), "retrying 3 a long er")
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
			pgtest.Equal(t, "row", r.Text(`SELECT st || ' ' || tries || coalesce(err, '') FROM events`), "delivered 4")
			rows, err := r.St.Pending(r.Ctx, "", 10)
			if err != nil || len(rows.Rows) != 0 {
				t.Errorf("pending: %v, %v", rows, err)
			}
			r.Exec(`UPDATE events SET st = 'pending'`)
			rows, err = r.St.Pending(r.Ctx, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "pending", rows.Rows, []checkpoint.RowRef{{Table: "public.events", ID: c.id}})
		})
	}
}

// What a trigger or a rule of the database says against a settlement is told with the table it is about, whether
// rows are counted or named.
func TestSettleErrorNamesTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape string
		named bool
	}{{"debezium", false}, {"debezium", true}, {"tailbox", false}, {"tailbox", true}} {
		t.Run(fmt.Sprintf("%s, named %v", c.shape, c.named), func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "other"), pgtest.Shape(c.shape, "outbox"))
			r.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$`)
			r.Exec(`CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON outbox FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
			r.St.SetNamed(c.named)
			_, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false)}})
			if err == nil || !strings.Contains(err.Error(), "table public.outbox: ") || !strings.Contains(err.Error(), "not today") {
				t.Errorf("settle: %v, want an error that names the table and its cause", err)
			}
		})
	}
}

// Under a synchronous standby that does not answer, the log has a transaction long before others see it. The parked
// copy is durable at once; the row's view waits.
func TestSettleHangingCommit(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17")
	r := pgtest.NewStoreRig(t, pg, nil, pgtest.Shape("tailbox", "outbox"))
	m, show := hangingCommit(r, "INSERT INTO outbox (id, type, payload) VALUES ($1, 'T', '')")
	s := checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Head("kafka", m, time.Hour)}, Rows: []checkpoint.Row{sourcetest.RowOf(m, true)}}
	pgtest.Equal(t, "invisible", r.Settle(s).Invisible, []int{0})
	pgtest.Equal(t, "parked", r.ParkedRows(), "kafka:1 retrying!@")
	pgtest.Equal(t, "row settled", r.Text("SELECT row_settled::text FROM tailbox_parked"), "false")
	show()
	out := r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(m, true)}})
	pgtest.Equal(t, "settled", *out, checkpoint.Settled{})
	pgtest.Equal(t, "rows", r.Rows(), "1 retrying 1 boom")
	pgtest.Equal(t, "row settled", r.Text("SELECT row_settled::text FROM tailbox_parked"), "true")
}

// hangingCommit commits message 1, which the statement inserts, in a transaction that is in the log, and that nobody sees before show.
func hangingCommit(r *pgtest.StoreRig, insert string) (m *outbox.Message, show func()) {
	t := r.T
	r.Exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	r.Exec("SELECT pg_reload_conf()")
	r.Exec("SET synchronous_commit = local")
	// The store's own commits would wait for it, too.
	pgtest.Exec(t, r.St.Conn, "SET synchronous_commit = local")
	hanging := func() string {
		return r.Text("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()")
	}
	// Sessions wait for a standby once the checkpointer has read the configuration, too.
	probe, probed := r.Connect(), make(chan error, 1)
	var heeded atomic.Bool
	go func() {
		for !heeded.Load() {
			if _, err := probe.Exec(context.Background(), "SELECT pg_logical_emit_message(true, 'probe', '')"); err != nil {
				probed <- err
				return
			}
		}
		probed <- nil
	}()
	r.Until("a standby is waited for", func() bool { return hanging() == "1" })
	heeded.Store(true)
	other := r.Connect()
	pgtest.Exec(t, other, "BEGIN")
	pgtest.Exec(t, other, insert, sourcetest.EventID(1))
	m = pgtest.Msg(1, "g")
	var xid int64
	if err := other.QueryRow(r.Ctx, "SELECT txid_current() % (2^32)::bigint").Scan(&xid); err != nil {
		t.Fatal(err)
	}
	m.Txn = uint64(xid)
	committed := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.Background(), "COMMIT")
		committed <- err
	}()
	r.Until("the commit hangs", func() bool { return hanging() == "2" })
	return m, func() {
		r.Exec("ALTER SYSTEM RESET synchronous_standby_names")
		r.Exec("SELECT pg_reload_conf()")
		if err := errors.Join(<-committed, <-probed); err != nil {
			t.Fatal(err)
		}
	}
}

// The log shows a transaction before others see it: feedback about it waits, so that it finds a business row that was written with the
// message. It is the same for messages that are not delivered, and for rows that are kept, which no mark waits for.
func TestFeedbackAwaitsVisibility(t *testing.T) {
	t.Parallel()
	table := pgtest.Shape("tailbox", "outbox")
	table.OnDelivered = outbox.Keep
	table.Feedback = outbox.Feedback{}
	for _, kind := range outbox.Outcomes() {
		table.Feedback[kind] = "UPDATE business SET state = :outcome WHERE id = :id::uuid"
	}
	pg := servers.Postgres(t, "17")
	for _, kind := range outbox.Outcomes() {
		t.Run(kind, func(t *testing.T) {
			r := pgtest.NewStoreRig(t, pg, nil, table)
			r.Exec("CREATE TABLE business (id uuid, state text)")
			m, show := hangingCommit(r, "WITH o AS (INSERT INTO outbox (id, type, payload) VALUES ($1, 'T', '') RETURNING id) INSERT INTO business SELECT id, 'new' FROM o")
			var s checkpoint.Settlement
			switch kind {
			case outbox.OutcomeDelivered:
				s.Rows = []checkpoint.Row{sourcetest.RowOf(m, false)}
				s.Rows[0].Message = m
			case outbox.OutcomeRetrying:
				s.Park = []checkpoint.Parked{sourcetest.Head("kafka", m, time.Hour)}
			case outbox.OutcomeDead:
				p := sourcetest.Head("kafka", m, time.Hour)
				p.State = checkpoint.StateDead
				s.Park = []checkpoint.Parked{p}
			}
			settled := make(chan error, 1)
			go func() {
				_, err := r.St.Settle(r.Ctx, &s)
				settled <- err
			}()
			var early bool
			r.Until("it waits", func() bool {
				early = len(settled) > 0
				return early || r.Text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "+
					"AND query LIKE '%pg_current_snapshot()::pg_catalog.text'") == "1"
			})
			show()
			if err := <-settled; err != nil || early {
				t.Errorf("settle: %v, before the transaction was visible: %v", err, early)
			}
			pgtest.Equal(t, "the business row", r.Text("SELECT state FROM business"), kind)
		})
	}
}

// A table that is locked as a whole holds up nothing but its own rows.
func TestSettleLockedTable(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"), pgtest.Shape("tailbox", "second"))
	r.Row(1)
	r.Row(4)
	r.Exec("INSERT INTO second (id, type, payload) VALUES ($1, 'T', '')", sourcetest.EventID(2))
	large := sourcetest.Head("kafka", pgtest.Msg(4, "h"), 0)
	large.InTable = true
	r.Park(large, sourcetest.Head("kafka", pgtest.Msg(3, "g"), 0))
	other := r.Connect()
	pgtest.Exec(t, other, "BEGIN")
	pgtest.Exec(t, other, "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
	second := pgtest.Msg(2, "g")
	second.Table = "public.second"
	out := r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false), sourcetest.RowOf(second, false)}})
	pgtest.Equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{0}})
	pgtest.Equal(t, "second", r.Text("SELECT status FROM second"), "delivered")
	r.Exec("INSERT INTO second (id, type, payload) VALUES ($1, 'T', '')", sourcetest.EventID(3))
	pending, err := r.St.Pending(r.Ctx, "", 10)
	if err != nil || len(pending.Rows) != 1 || pending.Rows[0].ID != sourcetest.EventID(3) || pending.Cursor != "" {
		t.Errorf("pending beside a lock: %+v, %v", pending, err)
	}
	ms, _, err := r.St.Fetch(r.Ctx, []checkpoint.RowRef{{Table: "public.outbox", ID: sourcetest.EventID(1)}, {Table: "public.second", ID: sourcetest.EventID(3)}},
		outbox.Position{Log: 1, Commit: 5}, 1<<20)
	if err != nil || len(ms) != 1 || ms[0].ID != sourcetest.EventID(3) {
		t.Errorf("fetched beside a lock: %v, %v", ms, err)
	}
	// A delivery whose payload is in the table waits, and no other.
	ps, wait, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.ID != sourcetest.EventID(3) || wait != store.LockedFor {
		t.Errorf("due beside a lock: %v, again in %v, %v", ps, wait, err)
	}
	page, more, err := r.St.Page(r.Ctx, checkpoint.Lane{Sink: "kafka", Group: "h"}, outbox.Position{}, 10, 1<<20)
	if err != nil || len(page) != 0 || !more {
		t.Errorf("a lane beside a lock: %v, more %v, %v", page, more, err)
	}
	pgtest.Exec(t, other, "ROLLBACK")
	pgtest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false)}}), checkpoint.Settled{})
	pgtest.Equal(t, "rows", r.Rows(), "4")
}

// A table that is away for a moment, being renamed and back, is waited for; one that stays away stops the relay.
func TestSettleTableAway(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	r.Row(1)
	r.Exec("ALTER TABLE outbox RENAME TO gone")
	rows := checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false)}}
	settled := make(chan error, 1)
	go func() {
		_, err := r.St.Settle(r.Ctx, &rows)
		settled <- err
	}()
	pid := r.St.Conn.PgConn().PID()
	r.Until("the settlement to meet that", func() bool {
		select {
		case err := <-settled:
			t.Fatalf("settle without the table: %v", err)
		default:
		}
		return r.Text("SELECT count(*)::text FROM pg_stat_activity WHERE pid = $1 AND state = 'idle' AND query ILIKE 'rollback%'", pid) == "1"
	})
	r.Exec("ALTER TABLE gone RENAME TO outbox")
	if err := <-settled; err != nil {
		t.Errorf("settle: %v", err)
	}
	pgtest.Equal(t, "rows", r.Rows(), "")
	r.Exec("DROP TABLE outbox")
	if _, err := r.St.Settle(r.Ctx, &rows); !errors.Is(err, source.ErrNoTable) {
		t.Errorf("settle without the table: %v", err)
	}
}

// Who waits to lock a table is told of where rows wait behind it: what has read the table, as a sweep has, may be what it waits for.
func TestSettleAwaitedTable(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	r.Row(1)
	sweep, altering := r.Connect(), r.Connect()
	pgtest.Exec(t, sweep, "BEGIN")
	pgtest.Exec(t, sweep, "SELECT count(*) FROM outbox")
	altered := make(chan error, 1)
	go func() {
		_, err := altering.Exec(r.Ctx, "ALTER TABLE outbox ADD COLUMN more int")
		altered <- err
	}()
	r.Until("somebody to wait", func() bool {
		return r.Text("SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'outbox'::regclass") == "1"
	})
	rows := checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false)}}
	pgtest.Equal(t, "settled", *r.Settle(rows), checkpoint.Settled{Invisible: []int{0}, Awaited: true})
	// What was found out is not paid for again: a settlement that waited for the table now would wait for ever.
	pgtest.Exec(t, r.St.Conn, "SET lock_timeout = 0")
	ctx, cancel := context.WithTimeout(r.Ctx, time.Minute)
	defer cancel()
	for range 3 {
		out, err := r.St.Settle(ctx, &rows)
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Equal(t, "settled again", *out, checkpoint.Settled{Invisible: []int{0}, Awaited: true})
	}
	pgtest.Exec(t, sweep, "COMMIT")
	if err := <-altered; err != nil {
		t.Error(err)
	}
	pgtest.Equal(t, "settled afterwards", *r.Settle(rows), checkpoint.Settled{})
	pgtest.Equal(t, "rows", r.Rows(), "")
}

// A statement that was prepared before ALTER TABLE is prepared again.
func TestSettleAfterAlterTable(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Row(1)
	r.Row(2)
	r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false)}})
	r.Exec("ALTER TABLE outbox ALTER COLUMN last_error TYPE varchar(40), ALTER COLUMN attempts TYPE bigint")
	r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(2, "g"), false)}})
	pgtest.Equal(t, "rows", r.Rows(), "1 delivered 1 !, 2 delivered 1 !")
}
