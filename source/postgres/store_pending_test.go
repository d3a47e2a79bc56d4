package postgres

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/test/servers"
)

// pendingAll lists all pending rows in chunks of limit.
func (r *storeRig) pendingAll(limit int) (names []string, calls int) {
	r.t.Helper()
	for cursor := ""; ; {
		rows, err := r.st.Pending(r.ctx, cursor, limit)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(rows.Rows) > limit {
			r.t.Fatalf("%d rows, want at most %d", len(rows.Rows), limit)
		}
		for _, ref := range rows.Rows {
			names = append(names, strings.TrimPrefix(ref.Table, "public.")+":"+short(ref.ID))
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
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("tailbox", "outbox"))
	r.exec("DROP INDEX outbox_pending")
	r.exec(`INSERT INTO outbox (id, type, payload, status) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'T', '',
		CASE WHEN i % 40000 = 7 THEN 'pending' ELSE 'delivered' END FROM generate_series(1, 150000) i`)
	r.reopen()
	equal(t, "index", r.st.tables.order[0].pendingIndex, false)
	names, calls := r.pendingAll(100)
	equal(t, "pending", strings.Join(names, " "), "outbox:7 outbox:40007 outbox:80007 outbox:120007")
	if calls < 2 {
		t.Errorf("%d calls, want several", calls)
	}
}

// The barrier comes after the list in the log, and the log is flushed past it.
func TestPendingBarrier(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.row(1)
	before, err := pgrepl.ParseLSN(r.text("SELECT pg_current_wal_insert_lsn()::text"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.st.Pending(r.ctx, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	barrier, err := pgrepl.ParseLSN(rows.Barrier)
	if err != nil || barrier < before || uint64(barrier) != rows.Commit {
		t.Errorf("barrier %s, commit %x, before %s, %v", rows.Barrier, rows.Commit, before, err)
	}
	if flushed, _ := pgrepl.ParseLSN(r.text("SELECT pg_current_wal_flush_lsn()::text")); flushed <= barrier {
		t.Errorf("flushed up to %s, want past %s", flushed, barrier)
	}
}

// A message that was too large to be copied is read from its row when it is replayed: the limit may have been raised.
func TestInTableIsReadAgain(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), func(c *Config) { c.MaxMessage = 1000 }, shape("debezium", "outbox"))
	r.exec(`INSERT INTO outbox VALUES ($1, 'a', 'b', 'T', to_jsonb(repeat('x', 5000)))`, eventID(1))
	m := msg(1, "g")
	m.Payload, m.Fault = nil, &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "large"}
	p := dead("kafka", m, true)
	p.InTable = true
	r.parkWhole(p)
	equal(t, "row stays", r.rows(), "1")
	result, _ := r.ask(checkpoint.VerbEdit, checkpoint.Selection{IDs: []string{m.ID}, Edit: &checkpoint.Edit{}})
	equal(t, "an edit without payload is refused", result.Refused, 1)
	r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.ID}})
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.Fault == nil || ps[0].Message.Fault.Class != outbox.FaultTooLarge || !ps[0].InTable {
		t.Fatalf("still too large: %+v, %v", ps, err)
	}
	r.cfg.MaxMessage = 10000
	r.reopen()
	ps, _, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.Fault != nil || len(ps[0].Message.Payload) != 5002 || ps[0].InTable {
		t.Fatalf("read again: %+v, %v", ps, err)
	}
	if got := ps[0].Message; got.Group != "g" || got.Position != m.Position || !got.CommitTime.Equal(m.CommitTime) {
		t.Errorf("its place changed: %+v", got)
	}
	r.exec("DELETE FROM outbox")
	ps, _, err = r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 || ps[0].Message.Fault == nil || !strings.Contains(ps[0].Message.Fault.Reason, "drop it") {
		t.Fatalf("gone: %+v, %v", ps, err)
	}
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
	equal(t, "parked", r.parkedRows(), "")
}

// What a role lacks stops the store with the cure; it does not make it try for ever.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := newStoreRig(t, pg, nil, shape("debezium", "outbox"))
	role := "relay_" + r.db
	role = role[:min(len(role), 60)]
	r.exec("CREATE ROLE " + role + " LOGIN PASSWORD 'p'")
	t.Cleanup(func() { r.exec("DROP OWNED BY " + role); r.exec("DROP ROLE " + role) })
	if err := r.st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.cfg.URL = strings.Replace(pg.SocketURL(r.db), "postgres@", role+":p@", 1)
	if _, err := r.cfg.Open(r.ctx); err == nil || !strings.Contains(err.Error(), "tailbox check") && !strings.Contains(err.Error(), "permission") {
		t.Errorf("open without privileges: %v", err)
	}
	r.exec(RoleSQL(r.cfg, role))
	r.open()
	r.row(1)
	r.row(2)
	r.parkWhole(head("kafka", msg(1, "g"), 0))
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(2, "g"), false)}, Changes: []checkpoint.Change{delivered("kafka", msg(1, "g"))}})
	equal(t, "rows", r.rows(), "")
	r.exec("REVOKE DELETE ON outbox FROM " + role)
	r.row(3)
	_, err := r.st.Settle(r.ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(msg(3, "g"), false)}})
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
			r := newRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id "+id+", type text, payload text, status text DEFAULT 'pending');;"+
				tableNames("").ownTables(), shape("tailbox", "a"))
			s := &storeRig{rig: r, ctx: t.Context()}
			s.open()
			one := "1"
			if id == "uuid" {
				one = eventID(1)
			}
			r.exec("INSERT INTO a VALUES (NULL, 't', 'p'), ($1::text::"+id+", 't', 'p')", one)
			if id == "text" || id == "char(40)" {
				r.exec("INSERT INTO a VALUES ('', 't', 'p')")
			}
			rows, err := s.st.Pending(s.ctx, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "pending", rows.Rows, []checkpoint.RowRef{{Table: "public.a", ID: one}})
			r.mu.Lock()
			defer r.mu.Unlock()
			if !strings.Contains(r.log.String(), "pending rows without an id") {
				t.Errorf("log: %s", r.log.String())
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
			r := newStoreRig(t, servers.Shared(t, "17"), nil, shape(name, "outbox"))
			r.row(2)
			m := msg(1, "g")
			m.ID = outbox.StandInID(m.Position.String())
			m.Fault = &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "no id"}
			m.Txn = 1 << 31 // of a transaction that nobody sees
			p := dead("kafka", m, true)
			p.InTable = true
			out := r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{p}, Rows: []checkpoint.Row{rowOf(m, true), rowOf(msg(2, "h"), false)}})
			equal(t, "settled", *out, checkpoint.Settled{})
			result, _ := r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.ID}})
			equal(t, "replayed", result.Changed, 1)
			due, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
			if err != nil || len(due) != 1 || due[0].Message.Fault == nil || due[0].Message.Fault.Reason != "no id" {
				t.Fatalf("due: %+v, %v", due, err)
			}
			out = r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
			equal(t, "open", lanesText(out.Open), "kafka/g")
			equal(t, "parked", r.parkedRows(), "")
			equal(t, "settled", *r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(m, false)}}), checkpoint.Settled{})
		})
	}
}
