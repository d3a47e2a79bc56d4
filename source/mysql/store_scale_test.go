package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// reads is how many rows and index entries the store's session has read in f.
func (r *storeRig) reads(f func()) int64 {
	r.t.Helper()
	count := func() (n int64) {
		b := r.st.batch()
		b.each(func(row row) error {
			n += row.num(1)
			return nil
		}, "SHOW SESSION STATUS LIKE 'Handler_read%'")
		if err := r.st.send(r.ctx, b); err != nil {
			r.t.Fatal(err)
		}
		return n
	}
	before := count()
	f()
	return count() - before
}

// With 60,000 deliveries parked, what the relay asks every second, and what it does for each lane, still goes by index.
func TestManyParked(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, storeShape("tailbox", "outbox"))
		const lanes, each = 60, 1000
		start := time.Now()
		for l := range lanes {
			var ps []checkpoint.Parked
			for i := range each {
				m := r.msg(l*each+i, fmt.Sprintf("g%d", l))
				if i == 0 {
					ps = append(ps, head("kafka", m, time.Duration(l%2)*time.Hour))
					continue
				}
				ps = append(ps, follower("kafka", m))
			}
			r.park(ps...)
		}
		t.Logf("parked %d in %v", lanes*each, time.Since(start).Round(time.Millisecond))
		equal(t, "with a time", r.text("SELECT COUNT(*) FROM tailbox_parked WHERE next_attempt_at IS NOT NULL"), fmt.Sprint(lanes))
		for _, c := range []struct {
			name string
			most int64
			do   func()
		}{
			{"due", 1000, func() { r.due("kafka") }},
			{"page", 200, func() {
				if _, _, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "g1"}, outbox.Position{}, 20, 1<<20); err != nil {
					t.Fatal(err)
				}
			}},
			{"delivered", 400, func() {
				if out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", r.msg(0, "g0"))}}); len(out.Next) != 1 {
					t.Errorf("delivered: %+v", *out)
				}
			}},
			{"retried", 400, func() {
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", r.msg(1, "g0"), 2, time.Hour)}})
			}},
			{"parked", 400, func() { r.park(follower("kafka", r.msg(lanes*each, "g3"))) }},
			{"settled", 400, func() { r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(r.msg(3, "g0"), true)}}) }},
			// A row of each delivery for each count, and one of each lane. If the index is not used, each lane costs a row of each delivery.
			{"status", 8 * lanes * each, func() {
				if err := r.st.reportSinks(r.ctx, &Report{}); err != nil {
					t.Fatal(err)
				}
			}},
			{"requests", 50, func() {
				if _, err := r.st.Requests(r.ctx); err != nil {
					t.Fatal(err)
				}
			}},
		} {
			if n := r.reads(c.do); n > c.most {
				t.Errorf("%s: %d rows were read, want at most %d", c.name, n, c.most)
			} else {
				t.Logf("%s: %d rows read", c.name, n)
			}
		}
		equal(t, "blocked", len(r.reopen().Blocked), lanes)
	})
}

// A settlement of a thousand rows takes a few statements, which read each row a few times, however many others there are.
func TestThousandRows(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		for _, shape := range []string{"debezium", "tailbox"} {
			r := newStoreRig(t, my, nil, storeShape(shape, "outbox"))
			insert := "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (?, 'a', 'b', 'T', '{}')"
			if shape == "tailbox" {
				insert = "INSERT INTO outbox (id, type, payload) VALUES (?, 'T', '{}')"
			}
			b := r.st.batch()
			b.exec("BEGIN")
			for i := range 10000 {
				b.exec(insert, eventID(i))
			}
			b.exec("COMMIT")
			if err := r.st.send(r.ctx, b); err != nil {
				t.Fatal(err)
			}
			for try := range 3 {
				var rows []checkpoint.Row
				for i := range 1000 {
					rows = append(rows, rowOf(r.msg(try*1000+i, "g"), false))
				}
				start := time.Now()
				n := r.reads(func() {
					equal(t, "settled", *r.settle(checkpoint.Settlement{Rows: rows, Checkpoint: func([]int) *checkpoint.Checkpoint {
						return &checkpoint.Checkpoint{SourceID: "s", Resume: "r", Log: 1}
					}}), checkpoint.Settled{Saved: true})
				})
				t.Logf("%s: %v, %d rows read", shape, time.Since(start).Round(100*time.Microsecond), n)
				if n > 8000 {
					t.Errorf("%d rows were read for 1000", n)
				}
			}
		}
	})
}

// Rows are found by index whatever the type of their ids, in settlements that wait and in those that pass over locked rows.
func TestIDsGoByIndex(t *testing.T) {
	for _, c := range []struct {
		typ, only string
		id        func(n int) string // as a message has it
		literal   func(n int) string // nil = the id, quoted
	}{
		{typ: "CHAR(36)", id: eventID}, {typ: "VARCHAR(100) CHARACTER SET latin1", id: eventID}, {typ: "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin", id: eventID},
		{typ: "VARCHAR(100) CHARACTER SET utf8mb3", id: eventID}, {typ: "VARCHAR(100) COLLATE utf8mb4_unicode_ci", id: eventID}, {typ: "TEXT", id: eventID},
		{typ: "VARBINARY(40)", id: eventID}, {typ: "UUID", id: eventID, only: KindMariaDB},
		{typ: "BINARY(16)", id: eventID, literal: func(n int) string { return fmt.Sprintf("X'%032d'", n) }},
		{typ: "BIGINT", id: func(n int) string { return fmt.Sprint(n - 1000) }}, {typ: "BIGINT UNSIGNED", id: func(n int) string { return fmt.Sprint(uint64(1<<64-1) - uint64(n)) }},
		{typ: "DECIMAL(12,2)", id: func(n int) string { return fmt.Sprintf("%d.50", n) }},
		{typ: "DATETIME(3)", id: func(n int) string { return time.Unix(int64(1.7e9)+int64(n), 0).UTC().Format("2006-01-02 15:04:05.000") }},
	} {
		t.Run(c.typ, func(t *testing.T) {
			onBoth(t, func(t *testing.T, my *servers.My) {
				if c.only != "" && c.only != my.Kind {
					t.Skip("there is no such type")
				}
				table, ddl := idTable(c.typ)
				if c.typ == "TEXT" {
					ddl = strings.Replace(ddl, " PRIMARY KEY", ", KEY (`the id`(40))", 1)
				}
				r := newBareRig(t, my, append(relayTables(), ddl), table)
				r.open()
				b := r.st.batch()
				b.exec("BEGIN")
				for n := range 2000 {
					literal := quoteLiteral(c.id(n))
					if c.literal != nil {
						literal = c.literal(n)
					}
					b.exec("INSERT INTO events (`the id`, type) VALUES (?, 'T')", raw(literal))
				}
				b.exec("COMMIT")
				if err := r.st.send(r.ctx, b); err != nil {
					t.Fatal(err)
				}
				for try, cautious := range []bool{false, true} {
					var rows []checkpoint.Row
					for n := range 5 {
						rows = append(rows, checkpoint.Row{Table: r.db + ".events", ID: c.id(100*n + try), Position: outbox.Position{Log: 1, Commit: 1}, Parked: n == 4})
					}
					r.st.cautious = cautious
					if n := r.reads(func() { equal(t, "settled", *r.settle(checkpoint.Settlement{Rows: rows}), checkpoint.Settled{}) }); n > 150 {
						t.Errorf("%d rows were read for 5, cautious: %v", n, cautious)
					}
				}
				equal(t, "marked", r.text("SELECT COUNT(*) FROM events WHERE st = 'delivered'"), "10")
			})
		})
	}
}
