package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// TestWritersBesideSettlements: what is settled is never in the way of what is written. Writers see no deadlock and wait for no
// lock, whatever the order of their ids, and though a row's turn may come before its transaction is over.
func TestWritersBesideSettlements(t *testing.T) {
	for _, c := range []struct {
		name  string
		Table outbox.Table
		ddl   string
	}{
		{"delete", mysqltest.StoreShape("debezium", "outbox"), ""},
		{"mark", mysqltest.StoreShape("tailbox", "outbox"), ""},
		{"delete by a unique index", mysqltest.StoreShape("debezium", "outbox"), "ALTER TABLE outbox DROP PRIMARY KEY, ADD n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, ADD UNIQUE (id)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				r := newStoreRig(t, my, nil, c.Table)
				if c.ddl != "" {
					r.Exec(c.ddl)
					r.Reopen()
				}
				insert := "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (?, 'a', 'b', 'T', '{}')"
				if c.Table.Shape == "tailbox" {
					insert = "INSERT INTO outbox (id, type, payload, idempotency_key) VALUES (?, 'T', '{}', ?)"
				}
				const writers, each = 8, 250
				written := make(chan string, writers*each)
				var all sync.WaitGroup
				var refused atomic.Int64
				for range writers {
					conn := r.Connect()
					all.Go(func() {
						for range each {
							id := store.NewUUID()
							args := []any{id}
							if c.Table.Shape == "tailbox" {
								args = append(args, "key "+id)
							}
							for _, step := range []func() error{conn.Begin, func() error { _, err := conn.Execute(insert, args...); return err },
								func() error { written <- id; return conn.Commit() }} {
								if err := step(); err != nil {
									refused.Add(1)
									t.Errorf("a writer: %v", err)
									return
								}
							}
						}
					})
				}
				go func() {
					all.Wait()
					close(written)
				}()
				start := time.Now()
				settles, invisible := r.settleAll(written)
				t.Logf("%d rows settled in %d settlements and %v; %d times a row was not free; %d errors of writers", writers*each, settles,
					time.Since(start).Round(time.Millisecond), invisible, refused.Load())
				left := "SELECT COUNT(*) FROM outbox"
				if c.Table.Shape == "tailbox" {
					left += " WHERE status <> 'delivered'"
				}
				mysqltest.Equal(t, "rows left", r.Text(left), "0")
			})
		})
	}
}

// settleAll settles rows as they come, all that wait at a time.
func (r *storeRig) settleAll(ids <-chan string) (settles, invisible int) {
	r.T.Helper()
	var rows []checkpoint.Row
	take := func(id string) {
		rows = append(rows, checkpoint.Row{Table: r.DB + ".outbox", ID: id, Position: outbox.Position{Log: 1, Commit: 1}})
	}
	for open := true; open || len(rows) > 0; {
		if len(rows) == 0 {
			id, ok := <-ids
			if open = ok; !ok {
				continue
			}
			take(id)
		}
		for more := open; more; {
			select {
			case id, ok := <-ids:
				if more, open = ok, ok; ok {
					take(id)
				}
			default:
				more = false
			}
		}
		out := r.Settle(checkpoint.Settlement{Rows: rows, Checkpoint: func([]int) *checkpoint.Checkpoint {
			return &checkpoint.Checkpoint{SourceID: "s", Resume: "r", Log: 1, LastCommit: uint64(settles)}
		}})
		settles++
		if out.Gone != 0 {
			r.T.Fatalf("%d rows that are there are taken for gone", out.Gone)
		}
		invisible += len(out.Invisible)
		left := slices.Clone(rows[:0])
		for _, i := range out.Invisible {
			left = append(left, rows[i])
		}
		rows = left
	}
	return settles, invisible
}
