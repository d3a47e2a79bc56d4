package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// reads is how many rows and index entries the store's session has read in f.
func (r *storeRig) reads(f func()) int64 { return mysqltest.Reads(r.StoreRig, r.store().Session, f) }

// A settlement of a thousand rows takes a few statements, which read each row a few times, however many others there are.
func TestThousandRows(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for _, shape := range []string{"debezium", "tailbox"} {
			r := newStoreRig(t, my, nil, mysqltest.StoreShape(shape, "outbox"))
			insert := "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (?, 'a', 'b', 'T', '{}')"
			if shape == "tailbox" {
				insert = "INSERT INTO outbox (id, type, payload) VALUES (?, 'T', '{}')"
			}
			b := r.store().Batch()
			b.Exec("BEGIN")
			for i := range 10000 {
				b.Exec(insert, sourcetest.EventID(i))
			}
			b.Exec("COMMIT")
			if err := r.store().Send(r.Ctx, b); err != nil {
				t.Fatal(err)
			}
			for try := range 3 {
				var rows []checkpoint.Row
				for i := range 1000 {
					rows = append(rows, sourcetest.RowOf(r.Msg(try*1000+i, "g"), false))
				}
				start := time.Now()
				n := r.reads(func() {
					mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: rows, Checkpoint: func([]int) *checkpoint.Checkpoint {
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
		{typ: "CHAR(36)", id: sourcetest.EventID}, {typ: "VARCHAR(100) CHARACTER SET latin1", id: sourcetest.EventID}, {typ: "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin", id: sourcetest.EventID},
		{typ: "VARCHAR(100) CHARACTER SET utf8mb3", id: sourcetest.EventID}, {typ: "VARCHAR(100) COLLATE utf8mb4_unicode_ci", id: sourcetest.EventID}, {typ: "TEXT", id: sourcetest.EventID},
		{typ: "VARBINARY(40)", id: sourcetest.EventID}, {typ: "UUID", id: sourcetest.EventID, only: server.KindMariaDB},
		{typ: "BINARY(16)", id: sourcetest.EventID, literal: func(n int) string { return fmt.Sprintf("X'%032d'", n) }},
		{typ: "BIGINT", id: func(n int) string { return fmt.Sprint(n - 1000) }}, {typ: "BIGINT UNSIGNED", id: func(n int) string { return fmt.Sprint(uint64(1<<64-1) - uint64(n)) }},
		{typ: "DECIMAL(12,2)", id: func(n int) string { return fmt.Sprintf("%d.50", n) }},
		{typ: "DATETIME(3)", id: func(n int) string { return time.Unix(int64(1.7e9)+int64(n), 0).UTC().Format("2006-01-02 15:04:05.000") }},
	} {
		t.Run(c.typ, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				if c.only != "" && c.only != my.Kind {
					t.Skip("there is no such type")
				}
				table, ddl := idTable(c.typ)
				if c.typ == "TEXT" {
					ddl = strings.Replace(ddl, " PRIMARY KEY", ", KEY (`the id`(40))", 1)
				}
				r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl), table)
				r.Open()
				b := r.store().Batch()
				b.Exec("BEGIN")
				for n := range 2000 {
					literal := quote.Text(c.id(n))
					if c.literal != nil {
						literal = c.literal(n)
					}
					b.Exec("INSERT INTO events (`the id`, type) VALUES (?, 'T')", quote.Raw(literal))
				}
				b.Exec("COMMIT")
				if err := r.store().Send(r.Ctx, b); err != nil {
					t.Fatal(err)
				}
				for try, skipLocked := range []bool{false, true} {
					var rows []checkpoint.Row
					for n := range 5 {
						rows = append(rows, checkpoint.Row{Table: r.DB + ".events", ID: c.id(100*n + try), Position: outbox.Position{Log: 1, Commit: 1}, Parked: n == 4})
					}
					r.store().SkipLocked = skipLocked
					if n := r.reads(func() {
						mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: rows}), checkpoint.Settled{})
					}); n > 150 {
						t.Errorf("%d rows were read for 5, skipLocked: %v", n, skipLocked)
					}
				}
				mysqltest.Equal(t, "marked", r.Text("SELECT COUNT(*) FROM events WHERE st = 'delivered'"), "10")
			})
		})
	}
}
