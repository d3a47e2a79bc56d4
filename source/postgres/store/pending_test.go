package store_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// pendingAll lists all pending rows in chunks of limit.
func pendingAll(r *pgtest.StoreRig, limit int) (names []string, calls int) {
	r.T.Helper()
	for cursor := ""; ; {
		rows, err := r.St.Pending(r.Ctx, cursor, limit)
		if err != nil {
			r.T.Fatal(err)
		}
		if len(rows.Rows) > limit {
			r.T.Fatalf("%d rows, want at most %d", len(rows.Rows), limit)
		}
		for _, ref := range rows.Rows {
			names = append(names, strings.TrimPrefix(ref.Table, "public.")+":"+sourcetest.Short(ref.ID))
		}
		calls++
		if cursor = rows.Cursor; cursor == "" {
			return names, calls
		}
	}
}

// A table with a long history and no index on what is pending is read in windows, each in bounded time.
func TestPendingWindows(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Exec("DROP INDEX outbox_pending")
	r.Exec(`INSERT INTO outbox (id, type, payload, status) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'T', '',
		CASE WHEN i % 40000 = 7 THEN 'pending' ELSE 'delivered' END FROM generate_series(1, 150000) i`)
	r.Reopen()
	pgtest.Equal(t, "index", r.St.FirstTable().PendingIndex, false)
	names, calls := pendingAll(r, 100)
	pgtest.Equal(t, "pending", strings.Join(names, " "), "outbox:7 outbox:40007 outbox:80007 outbox:120007")
	if calls < 2 {
		t.Errorf("%d calls, want several", calls)
	}
}

// The barrier comes after the list in the log, and the log is flushed past it.
func TestPendingBarrier(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	r.Row(1)
	before, err := pgrepl.ParseLSN(r.Text("SELECT pg_current_wal_insert_lsn()::text"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.St.Pending(r.Ctx, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	barrier, err := pgrepl.ParseLSN(rows.Barrier)
	if err != nil || barrier < before || uint64(barrier) != rows.Commit {
		t.Errorf("barrier %s, commit %x, before %s, %v", rows.Barrier, rows.Commit, before, err)
	}
	if flushed, _ := pgrepl.ParseLSN(r.Text("SELECT pg_current_wal_flush_lsn()::text")); flushed <= barrier {
		t.Errorf("flushed up to %s, want past %s", flushed, barrier)
	}
}

// A message that was too large to be copied is read from its row when it is replayed: the limit may have been raised.
func TestInTableIsReadAgain(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), func(c *session.Config) { c.MaxMessage = 1000 }, pgtest.Shape("debezium", "outbox"))
	r.Exec(`INSERT INTO outbox VALUES ($1, 'a', 'b', 'T', to_jsonb(repeat('x', 5000)))`, sourcetest.EventID(1))
	m := pgtest.Msg(1, "g")
	m.Payload, m.Fault = nil, &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "large"}
	p := sourcetest.Dead("kafka", m, true)
	p.InTable = true
	r.ParkWhole(p)
	pgtest.Equal(t, "row stays", r.Rows(), "1")
	result, _ := r.Ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{m.ID}, Edit: &checkpoint.Edit{}})
	pgtest.Equal(t, "an edit without payload is refused", result.Refused, 1)
	r.Ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.ID}})
	ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.Fault == nil || ps[0].Message.Fault.Class != outbox.FaultTooLarge || !ps[0].InTable {
		t.Fatalf("still too large: %+v, %v", ps, err)
	}
	r.Cfg.MaxMessage = 10000
	r.Reopen()
	ps, _, err = r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.Fault != nil || len(ps[0].Message.Payload) != 5002 || ps[0].InTable {
		t.Fatalf("read again: %+v, %v", ps, err)
	}
	if got := ps[0].Message; got.Group != "g" || got.Position != m.Position || !got.CommitTime.Equal(m.CommitTime) {
		t.Errorf("its place changed: %+v", got)
	}
	r.Exec("DELETE FROM outbox")
	ps, _, err = r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.Fault == nil || !strings.Contains(ps[0].Message.Fault.Reason, "drop it") {
		t.Fatalf("gone: %+v, %v", ps, err)
	}
	r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
	pgtest.Equal(t, "parked", r.ParkedRows(), "")
}

// What a role lacks stops the store with the fix; it does not make it try for ever.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := pgtest.NewStoreRig(t, pg, nil, pgtest.Shape("debezium", "outbox"))
	role := "relay_" + r.DB
	role = role[:min(len(role), 60)]
	r.Exec("CREATE ROLE " + role + " LOGIN PASSWORD 'p'")
	t.Cleanup(func() { r.Exec("DROP OWNED BY " + role); r.Exec("DROP ROLE " + role) })
	if err := r.St.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	r.Cfg.URL = strings.Replace(pg.SocketURL(r.DB), "postgres@", role+":p@", 1)
	if _, err := postgres.Config(r.Cfg).Open(r.Ctx); err == nil || !strings.Contains(err.Error(), "tailbox check") && !strings.Contains(err.Error(), "permission") {
		t.Errorf("open without privileges: %v", err)
	}
	r.Exec(setup.RoleSQL(r.Cfg, role))
	r.Open()
	r.Row(1)
	r.Row(2)
	r.ParkWhole(sourcetest.Head("kafka", pgtest.Msg(1, "g"), 0))
	r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(2, "g"), false)}, Changes: []checkpoint.Change{sourcetest.Delivered("kafka", pgtest.Msg(1, "g"))}})
	pgtest.Equal(t, "rows", r.Rows(), "")
	r.Exec("REVOKE DELETE ON outbox FROM " + role)
	r.Row(3)
	_, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(3, "g"), false)}})
	if err == nil || !strings.Contains(err.Error(), "grant") || !strings.Contains(err.Error(), source.ErrStop.Error()) {
		t.Errorf("settle without DELETE: %v", err)
	}
}

// Rows without an id are told of, and neither listed nor in the way of those that have one.
func TestPendingWithoutID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"uuid", "bigint", "char(40)", "text"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id "+id+", type text, payload text, status text DEFAULT 'pending');;"+
				migrate.TablesIn("").Script(), pgtest.Shape("tailbox", "a"))
			s := &pgtest.StoreRig{Rig: r, Ctx: t.Context()}
			s.Open()
			one := "1"
			if id == "uuid" {
				one = sourcetest.EventID(1)
			}
			r.Exec("INSERT INTO a VALUES (NULL, 't', 'p'), ($1::text::"+id+", 't', 'p')", one)
			if id == "text" || id == "char(40)" {
				r.Exec("INSERT INTO a VALUES ('', 't', 'p')")
			}
			rows, err := s.St.Pending(s.Ctx, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "pending", rows.Rows, []checkpoint.RowRef{{Table: "public.a", ID: one}})
			r.Mu.Lock()
			defer r.Mu.Unlock()
			if !strings.Contains(r.Log.String(), "pending rows without an id") {
				t.Errorf("log: %s", r.Log.String())
			}
		})
	}
}

// A message whose row has no id is settled without its row, alone or with others.
func TestSettleWithoutID(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"debezium", "tailbox"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape(name, "outbox"))
			r.Row(2)
			m := pgtest.Msg(1, "g")
			m.ID = outbox.StandInID(m.Position.String())
			m.Fault = &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "no id"}
			m.Txn = 1 << 31 // of a transaction that nobody sees
			p := sourcetest.Dead("kafka", m, true)
			p.InTable = true
			out := r.Settle(checkpoint.Settlement{Park: []checkpoint.Parked{p}, Rows: []checkpoint.Row{sourcetest.RowOf(m, true), sourcetest.RowOf(pgtest.Msg(2, "h"), false)}})
			pgtest.Equal(t, "settled", *out, checkpoint.Settled{})
			result, _ := r.Ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.ID}})
			pgtest.Equal(t, "replayed", result.Changed, 1)
			due, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
			if err != nil || len(due) != 1 || due[0].Message.Fault == nil || due[0].Message.Fault.Reason != "no id" {
				t.Fatalf("due: %+v, %v", due, err)
			}
			out = r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
			pgtest.Equal(t, "open", sourcetest.LanesText(out.Open), "kafka/g")
			pgtest.Equal(t, "parked", r.ParkedRows(), "")
			pgtest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(m, false)}}), checkpoint.Settled{})
		})
	}
}
