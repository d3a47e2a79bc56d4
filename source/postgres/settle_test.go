package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

func TestSettleRows(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run("delete "+version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("debezium", "outbox"))
			for i := 1; i <= 3; i++ {
				r.row(i)
			}
			out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(1, "g"), false), rowOf(msg(3, "g"), false)}})
			equal(t, "settled", *out, checkpoint.Settled{})
			equal(t, "rows", r.rows(), "2")
		})
		t.Run("mark "+version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("tailbox", "outbox"))
			for i := 1; i <= 3; i++ {
				r.row(i)
			}
			r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(1, "g"), false), rowOf(msg(3, "g"), false)}})
			equal(t, "rows", r.rows(), "1 delivered 1 !, 2 pending 0, 3 delivered 1 !")
		})
	}
	t.Run("keep", func(t *testing.T) {
		t.Parallel()
		table := shape("tailbox", "outbox")
		table.OnDelivered = outbox.Keep
		r := newStoreRig(t, servers.Shared(t, "17"), nil, table)
		r.row(1)
		m := msg(1, "g")
		r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(m, false)}})
		r.parkWhole(dead("kafka", m, true))
		r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
		equal(t, "rows", r.rows(), "1 pending 0")
		equal(t, "parked", r.parkedRows(), "")
	})
}

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
			table := outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: outbox.DefaultWords,
				Columns: outbox.Columns{ID: "the id", Type: "type", Payload: "payload", Status: "st", Attempts: "tries", LastError: "err"}}
			r := &storeRig{ctx: t.Context(), rig: newRig(t, servers.Shared(t, "17"), "CREATE DOMAIN my_id AS bigint;;CREATE DOMAIN my_err AS varchar(9);;"+
				"CREATE TYPE my_enum AS ENUM ('a', 'b');;CREATE TYPE word AS ENUM ('pending', 'delivered', 'dead', 'waiting', 'retrying');;"+
				`CREATE TABLE events ("the id" `+c.typ+` PRIMARY KEY, type text, payload text, st word DEFAULT 'pending', tries smallint, err my_err);;`+
				tableNames("").expand(ownTables), table)}
			r.open()
			r.exec(`INSERT INTO events ("the id", type) VALUES ($1::text::`+c.typ+`, 'T')`, c.id)
			m := &outbox.Message{ID: c.id, Table: "public.events", Position: outbox.Position{Log: 1, Commit: 5}, Group: "g"}
			r.parkWhole(dead("kafka", m, true))
			equal(t, "view", r.text(`SELECT st || ' ' || tries || ' ' || err FROM events`), "dead 15 bad")
			long := retried("kafka", m, 3, 0)
			long.LastError = "a long error\x00 text"
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{long}})
			equal(t, "view", r.text(`SELECT st || ' ' || tries || ' ' || err FROM events`), "retrying 3 a long er")
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
			equal(t, "row", r.text(`SELECT st || ' ' || tries || coalesce(err, '') FROM events`), "delivered 4")
			rows, err := r.st.Pending(r.ctx, "", 10)
			if err != nil || len(rows.Rows) != 0 {
				t.Errorf("pending: %v, %v", rows, err)
			}
			r.exec(`UPDATE events SET st = 'pending'`)
			rows, err = r.st.Pending(r.ctx, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "pending", rows.Rows, []checkpoint.RowRef{{Table: "public.events", ID: c.id}})
		})
	}
}

// A row that the application removed is settled and counted; one that is only not visible yet is settled again later (R5).
func TestSettleGoneAndInvisible(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("debezium", "outbox"))
			other := r.connect()
			begin := func(i int) uint64 {
				t.Helper()
				var xid int64
				for _, sql := range []string{"BEGIN", fmt.Sprintf("INSERT INTO outbox VALUES ('%s', 'a', 'b', 'T')", eventID(i))} {
					if _, err := other.Exec(r.ctx, sql); err != nil {
						t.Fatal(err)
					}
				}
				if err := other.QueryRow(r.ctx, "SELECT txid_current() % (2^32)::bigint").Scan(&xid); err != nil {
					t.Fatal(err)
				}
				return uint64(xid)
			}
			gone, prepared, visible := msg(1, "g"), msg(2, "g"), msg(3, "g")
			gone.Txn = begin(1)
			exec(t, other, "COMMIT")
			prepared.Txn = begin(2)
			exec(t, other, "PREPARE TRANSACTION '"+r.db+"'")
			r.row(3)
			r.exec("DELETE FROM outbox WHERE id = $1", eventID(1))
			var told []int
			out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(gone, false), rowOf(prepared, false), rowOf(visible, false)},
				Checkpoint: func(invisible []int) *checkpoint.Checkpoint {
					told = invisible
					return nil
				}})
			equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{1}, Gone: 1})
			equal(t, "told before the checkpoint", told, []int{1})
			r.exec("COMMIT PREPARED '" + r.db + "'")
			out = r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(prepared, false)}})
			equal(t, "settled", *out, checkpoint.Settled{})
			equal(t, "rows", r.rows(), "")

			r.row(4)
			r.exec("TRUNCATE outbox")
			out = r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(4, "g"), false)}})
			equal(t, "after TRUNCATE", *out, checkpoint.Settled{Gone: 1})
		})
	}
}

func exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Under a synchronous standby that does not answer, the log has a transaction long before others see it. The parked
// copy is durable at once; the row's view waits.
func TestSettleHangingCommit(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17")
	r := newStoreRig(t, pg, nil, shape("tailbox", "outbox"))
	r.exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	r.exec("SELECT pg_reload_conf()")
	r.exec("SET synchronous_commit = local")
	r.until("a standby is waited for", func() bool { return r.text("SHOW synchronous_standby_names") == "nobody" })
	// The store's own commits would wait for it, too.
	exec(t, r.st.conn, "SET synchronous_commit = local")
	other := r.connect()
	exec(t, other, "BEGIN")
	exec(t, other, "INSERT INTO outbox (id, type, payload) VALUES ($1, 'T', '')", eventID(1))
	m := msg(1, "g")
	var xid int64
	if err := other.QueryRow(r.ctx, "SELECT txid_current() % (2^32)::bigint").Scan(&xid); err != nil {
		t.Fatal(err)
	}
	m.Txn = uint64(xid)
	committed := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.Background(), "COMMIT")
		committed <- err
	}()
	r.until("the commit hangs", func() bool {
		return r.text("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()") == "1"
	})
	s := checkpoint.Settlement{Park: []checkpoint.Parked{head("kafka", m, time.Hour)}, Rows: []checkpoint.Row{rowOf(m, true)}}
	equal(t, "invisible", r.settle(s).Invisible, []int{0})
	equal(t, "parked", r.parkedRows(), "kafka:1 retrying!@")
	equal(t, "row settled", r.text("SELECT row_settled::text FROM tailbox_parked"), "false")
	r.exec("ALTER SYSTEM RESET synchronous_standby_names")
	r.exec("SELECT pg_reload_conf()")
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(m, true)}})
	equal(t, "settled", *out, checkpoint.Settled{})
	equal(t, "rows", r.rows(), "1 retrying 1 boom")
	equal(t, "row settled", r.text("SELECT row_settled::text FROM tailbox_parked"), "true")
}

// A row that the application has locked is there: it is not gone, and others do not wait for it.
func TestSettleLockedRows(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	for i := 1; i <= 4; i++ {
		r.row(i)
	}
	other := r.connect()
	exec(t, other, "BEGIN")
	exec(t, other, "SELECT FROM outbox WHERE id IN ($1, $2) FOR UPDATE", eventID(2), eventID(3))
	rows := []checkpoint.Row{rowOf(msg(1, "g"), false), rowOf(msg(2, "g"), false), rowOf(msg(3, "g"), false), rowOf(msg(9, "g"), false)}
	s := checkpoint.Settlement{Rows: rows, Park: []checkpoint.Parked{head("kafka", msg(4, "g"), 0)}}
	out := r.settle(s)
	equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{1, 2}, Gone: 1})
	equal(t, "rows", r.rows(), "2, 3, 4")
	exec(t, other, "DELETE FROM outbox WHERE id = $1", eventID(3))
	exec(t, other, "COMMIT")
	out = r.settle(checkpoint.Settlement{Rows: rows[1:3]})
	equal(t, "settled", *out, checkpoint.Settled{Gone: 1})
	equal(t, "rows", r.rows(), "4")
	equal(t, "passes over locked rows", r.st.cautious, false)
}

// A table that is locked as a whole holds up nothing but its own rows.
func TestSettleLockedTable(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"), shape("tailbox", "second"))
	r.row(1)
	r.exec("INSERT INTO second (id, type, payload) VALUES ($1, 'T', '')", eventID(2))
	other := r.connect()
	exec(t, other, "BEGIN")
	exec(t, other, "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
	second := msg(2, "g")
	second.Table = "public.second"
	out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(1, "g"), false), rowOf(second, false)}})
	equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{0}})
	equal(t, "second", r.text("SELECT status FROM second"), "delivered")
	exec(t, other, "ROLLBACK")
	equal(t, "settled", *r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(1, "g"), false)}}), checkpoint.Settled{})
	equal(t, "rows", r.rows(), "")
}

// Where the row of a message is locked when its last parked delivery leaves, the row is dealt with later.
func TestSettleLockedRowOfParked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"delivered", "dropped"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
			r.row(1)
			m := msg(1, "g")
			r.parkWhole(head("kafka", m, 0))
			other := r.connect()
			exec(t, other, "BEGIN")
			exec(t, other, "SELECT FROM outbox FOR UPDATE")
			want := "1 delivered 2 !"
			if name == "delivered" {
				out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
				equal(t, "open", lanesText(out.Open), "kafka/g")
			} else {
				result, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{All: true, States: []checkpoint.State{"retrying"}})
				equal(t, "changed", result.Changed, 1)
				equal(t, "open", lanesText(applied.Open), "kafka/g")
				want = "1 dead 1 dropped: why"
			}
			equal(t, "rows", r.rows(), "1 retrying 1 boom")
			equal(t, "due", r.due("kafka"), "")
			equal(t, "parked", r.parkedRows(), "kafka:1 "+name)
			loaded := r.reopen()
			equal(t, "blocked after a restart", lanesText(loaded.Blocked), "")
			equal(t, "sinks after a restart", len(loaded.ParkedSinks), 0)
			exec(t, other, "COMMIT")
			equal(t, "due", r.due("kafka"), "")
			equal(t, "rows", r.rows(), want)
			equal(t, "parked", r.parkedRows(), "")
		})
	}
}

// A statement that was prepared before ALTER TABLE is prepared again.
func TestSettleAfterAlterTable(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
	r.row(1)
	r.row(2)
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(1, "g"), false)}})
	r.exec("ALTER TABLE outbox ALTER COLUMN last_error TYPE varchar(40), ALTER COLUMN attempts TYPE bigint")
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(2, "g"), false)}})
	equal(t, "rows", r.rows(), "1 delivered 1 !, 2 delivered 1 !")
}

// While another delivery of the message is on its way, the poller may deliver or bury the parked one: the row is left alone until
// the message's Row is settled. Else a row that a sweep would have to find again is gone.
func TestChangeBeforeTheRowIsSettled(t *testing.T) {
	t.Parallel()
	for _, shapeName := range []string{"debezium", "tailbox"} {
		t.Run(shapeName, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, "17"), nil, shape(shapeName, "outbox"))
			want := map[string][3]string{"debezium": {"1, 2", "1, 2", ""},
				"tailbox": {"1 pending 0, 2 pending 0", "1 pending 0, 2 pending 0", "1 delivered 1 !, 2 dead 15 bad"}}[shapeName]
			r.row(1)
			r.row(2)
			one, two := msg(1, "g"), msg(2, "h")
			r.park(head("kafka", one, 0), head("kafka", two, 0))
			equal(t, "rows", r.rows(), want[0])
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", one), died("kafka", two, true)}})
			equal(t, "rows", r.rows(), want[1])
			r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(one, true), rowOf(two, true)}})
			equal(t, "rows", r.rows(), want[2])
		})
	}
}

// A message that could not be routed, and now can be, goes on as parked at its sinks; its row stays settled.
func TestReroutedMessageStaysSettled(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
	r.row(1)
	m := msg(1, "g")
	r.parkWhole(dead("", m, true))
	r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.ID}})
	waiting := follower("kafka", m)
	waiting.Due = true
	out := r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{waiting}, Changes: []checkpoint.Change{delivered("", m)}})
	equal(t, "open", lanesText(out.Open), "/g")
	equal(t, "due", r.due("kafka", ""), "kafka:1")
	equal(t, "rows", r.rows(), "1 waiting 0")
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
	equal(t, "rows", r.rows(), "1 delivered 1 !")
	equal(t, "parked", r.parkedRows(), "")
}
