package sourcetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// testJustRead: the log is faster than visibility. A row that was just read is there: settling it at once, under writers,
// finds it sooner or later, and never takes it for gone (R5).
func testJustRead(t *testing.T, k Kind) {
	for _, outboxTable := range []Table{table("debezium", "outbox"), table("tailbox", "outbox")} {
		t.Run(string(outboxTable.OnDelivered), func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{outboxTable}})
			x := r.read(source.Start{From: r.establish()})
			const writers, each = 3, 150
			var all sync.WaitGroup
			for w := range writers {
				c := r.conn()
				all.Go(func() {
					for i := range each {
						if err := c.Insert(r.ctx, r.tables[0], row(1000*(w+1)+i, "g")); err != nil {
							t.Errorf("insert: %v", err)
							return
						}
					}
				})
			}
			for got := 0; got < writers*each; {
				b := x.next("what the writers commit")
				got += len(b.Messages)
				r.untilVisible(b.Messages...)
			}
			all.Wait()
			left, err := r.db.Rows(r.ctx, r.tables[0])
			r.must(err, "read rows")
			left = slices.DeleteFunc(left, func(row Row) bool { return row.Status == "delivered" })
			equal(t, "rows left", len(left), 0)
		})
	}
}

// testGone: a row that the application removed is settled, and counted.
func testGone(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox"), table("tailbox", "second")}})
	x := r.read(source.Start{From: r.establish()})
	r.must(r.app.Begin(r.ctx), "begin")
	r.insert(rows(1, 3, "g")...)
	r.must(r.app.Delete(r.ctx, r.tables[0], EventID(1)), "delete") // in the same transaction
	r.must(r.app.Insert(r.ctx, r.tables[1], row(4, "g")), "insert")
	r.must(r.app.Commit(r.ctx), "commit")
	r.must(r.app.Delete(r.ctx, r.tables[0], EventID(3)), "delete")
	r.must(r.app.Delete(r.ctx, r.tables[1], EventID(4)), "delete")
	ms, _ := x.messages(4)
	s := checkpoint.Settlement{}
	for _, m := range ms {
		s.Rows = append(s.Rows, RowOf(m, false))
	}
	gone := 0
	r.until("all rows to be settled", func() bool {
		out := r.settle(s)
		gone += out.Gone
		var left []checkpoint.Row
		for _, i := range out.Invisible {
			left = append(left, s.Rows[i])
		}
		s.Rows = left
		return len(left) == 0
	})
	equal(t, "gone", gone, 3)
	equal(t, "rows", r.rows(), "")
	if k.Lacks[CanTruncate] == "" {
		r.insert(row(5, "g"))
		r.must(r.app.Truncate(r.ctx, r.tables[0]), "truncate")
		equal(t, "after truncate", *r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(5, "g"), false)}}), checkpoint.Settled{Gone: 1})
	}
	// For a parked delivery a missing row is settled.
	r.parkWhole(Head("kafka", r.msg(6, "g"), 0))
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", r.msg(6, "g"))}})
	equal(t, "parked", r.parked(), "")
}

// testInvisible: a row whose transaction is not visible yet is neither settled nor gone; what stands beside it is
// settled, the checkpoint hears of it, and its turn comes once it is visible.
func testInvisible(t *testing.T, k Kind) {
	for name, ends := range map[string]func(*rig, Conn) error{
		"commit":   func(r *rig, c Conn) error { return c.Commit(r.ctx) },
		"rollback": func(r *rig, c Conn) error { return c.Rollback(r.ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
			r.insert(row(1, "g"), row(3, "g"))
			other := r.conn()
			r.must(other.Begin(r.ctx), "begin")
			r.must(other.Insert(r.ctx, r.tables[0], row(2, "g")), "insert")
			two := r.msg(2, "g")
			var err error
			two.Txn, err = k.Txn(r.ctx, other)
			r.must(err, "name the transaction")
			told := []int{-1}
			out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(1, "g"), false), RowOf(two, false), RowOf(r.msg(3, "g"), false)},
				Park: []checkpoint.Parked{Head("kafka", r.msg(9, "h"), 0)},
				Checkpoint: func(invisible []int) *checkpoint.Checkpoint {
					told = slices.Clone(invisible)
					return &checkpoint.Checkpoint{SourceID: "s", Resume: "here", Log: 1}
				}})
			equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{1}, Saved: true})
			equal(t, "what the checkpoint was told", told, []int{1})
			equal(t, "parked", r.parked(), "kafka:9 retrying!@")
			r.must(ends(r, other), "end the transaction")
			gone := 0
			r.until("the row to be visible", func() bool {
				out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(two, false)}})
				gone = out.Gone
				return len(out.Invisible) == 0
			})
			equal(t, "gone", gone == 1, name == "rollback")
			equal(t, "rows", r.rows(), "")
		})
	}
}

// testLockedRows: a row that the application has locked is there: it is not gone, and others do not wait for it longer
// than a moment.
func testLockedRows(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 3, "g")...)
	other := r.conn()
	r.must(other.Begin(r.ctx), "begin")
	r.must(other.Update(r.ctx, r.tables[0], row(2, "g")), "update")
	r.must(other.Delete(r.ctx, r.tables[0], EventID(3)), "delete")
	rows := []checkpoint.Row{RowOf(r.msg(1, "g"), false), RowOf(r.msg(2, "g"), false), RowOf(r.msg(3, "g"), false), RowOf(r.msg(9, "g"), false)}
	// Those that are free are settled while the others are locked, at once or soon.
	gone, left := 0, rows
	r.until("the rows beside locked ones to be settled", func() bool {
		out := r.settle(checkpoint.Settlement{Rows: left})
		gone += out.Gone
		var still []checkpoint.Row
		for _, i := range out.Invisible {
			still = append(still, left[i])
		}
		left = still
		return len(left) <= 2
	})
	equal(t, "locked rows that are left for later", left, rows[1:3])
	equal(t, "gone", gone, 1)
	r.must(other.Commit(r.ctx), "commit")
	r.until("the rows to be free", func() bool {
		out := r.settle(checkpoint.Settlement{Rows: rows[1:3]})
		gone = out.Gone
		return len(out.Invisible) == 0
	})
	equal(t, "gone", gone, 1)
	equal(t, "rows", r.rows(), "1 delivered 1 !, 2 delivered 1 !")
}

// testLockedParked: where the row of a message is locked when its last parked delivery leaves, the lane opens at once and
// the row is dealt with later.
func testLockedParked(t *testing.T, k Kind) {
	for name, want := range map[string]string{"delivered": "1 delivered 2 !", "dropped": "1 dead 1 dropped: why"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
			r.insert(row(1, "g"))
			m := r.msg(1, "g")
			r.parkWhole(Head("kafka", m, 0))
			other := r.conn()
			r.must(other.Begin(r.ctx), "begin")
			r.must(other.Update(r.ctx, r.tables[0], row(1, "g")), "update")
			if name == "delivered" {
				out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", m)}})
				equal(t, "open", lanesText(out.Open), "kafka/g")
			} else {
				answer, applied := r.ask(checkpoint.VerbDrop, checkpoint.Selection{All: true, States: []checkpoint.State{checkpoint.StateRetrying}})
				equal(t, "changed", answer.Changed, 1)
				equal(t, "open", lanesText(applied.Open), "kafka/g")
			}
			equal(t, "rows", r.rows(), "1 retrying 1 boom")
			equal(t, "due", r.due("kafka"), "")
			loaded := r.reopen()
			equal(t, "blocked and parked after a restart", lanesText(loaded.Blocked)+strings.Join(loaded.ParkedSinks, " "), "")
			r.must(other.Commit(r.ctx), "commit")
			r.until("the row to be dealt with", func() bool {
				r.due("kafka")
				return r.rows() == want
			})
			equal(t, "parked", r.parked(), "")
		})
	}
}

// testBusyTable: settling goes on among transactions that lock the same rows the other way round: no deadlock ends the
// session.
func testBusyTable(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	const n = 60
	r.insert(rows(0, n, "g")...)
	var all sync.WaitGroup
	var stop atomic.Bool
	var changed, refused atomic.Int64
	for w := range 2 {
		c := r.conn()
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := c.Begin(r.ctx); err != nil {
					t.Errorf("begin: %v", err)
					return
				}
				var err error
				for row := n - 1 - (i+w)%7; row >= 0 && err == nil; row -= 7 {
					err = c.Update(r.ctx, r.tables[0], rows(row, 1, "g")...)
				}
				if err == nil {
					err = c.Insert(r.ctx, r.tables[0], row(1000*(w+1)+i, "g"))
				}
				if err == nil {
					if err = c.Commit(r.ctx); err == nil {
						changed.Add(1)
					}
				}
				if err != nil {
					refused.Add(1) // the other one of a deadlock
					_ = c.Rollback(r.ctx)
				}
			}
		})
	}
	defer all.Wait()
	defer stop.Store(true)
	r.until("transactions of others", func() bool { return changed.Load() > 0 })
	var s checkpoint.Settlement
	for i := range n {
		s.Rows = append(s.Rows, RowOf(r.msg(i, "g"), false))
	}
	r.until("all rows to be settled among others' transactions", func() bool {
		out := r.settle(s)
		if out.Gone != 0 {
			t.Fatalf("%d rows that are there are taken for gone", out.Gone)
		}
		var left []checkpoint.Row
		for _, i := range out.Invisible {
			left = append(left, s.Rows[i])
		}
		s.Rows = left
		return len(left) == 0
	})
	t.Logf("beside %d transactions of others; %d were refused", changed.Load(), refused.Load())
}

// testBeforeTheRow: while another delivery of the message is on its way, the poller may deliver or bury the parked one: the
// row is left alone until the message's Row is settled. Else a row that a sweep would have to find again is gone.
func testBeforeTheRow(t *testing.T, k Kind) {
	for shape, want := range map[string][2]string{"debezium": {"1, 2", ""}, "tailbox": {"1 pending 0, 2 pending 0", "1 delivered 1 !, 2 dead 15 bad"}} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{table(shape, "outbox")}})
			r.insert(rows(1, 2, "g")...)
			one, two := r.msg(1, "g"), r.msg(2, "h")
			r.park(Head("kafka", one, 0), Head("kafka", two, 0))
			equal(t, "rows with parked deliveries", r.rows(), want[0])
			r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", one), died(two, true)}})
			equal(t, "rows with one delivered and one dead", r.rows(), want[0])
			r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(one, true), RowOf(two, true)}})
			equal(t, "rows that are settled", r.rows(), want[1])
		})
	}
}

// testView: with some parked, a row with a status column shows the worst delivery, and what becomes of it.
func testView(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(row(1, "g"))
	m := r.msg(1, "g")
	r.parkWhole(Head("a", m, 0), Follower("b", m), Dead("c", m, true))
	show := func(want string, cs ...checkpoint.Change) {
		t.Helper()
		r.settle(checkpoint.Settlement{Changes: cs})
		equal(t, "row", r.rows(), want)
	}
	show("1 dead 15 bad")
	show("1 retrying 1 boom", Delivered("c", m))
	show("1 retrying 2 again", Retried("a", m, 2, 0))
	show("1 waiting 0", Delivered("a", m))
	show("1 delivered 1 !", Delivered("b", m))
	equal(t, "parked", r.parked(), "")
	// Settled again after a crash whose answer was lost.
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("b", m)}})
}

// testRerouted: a message that could not be routed, and now can be, goes on as parked at its sinks; its row stays settled.
func testRerouted(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(row(1, "g"))
	m := r.msg(1, "g")
	r.parkWhole(Dead("", m, true))
	r.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.ID}})
	waiting := Follower("kafka", m)
	waiting.Due = true
	out := r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{waiting}, Changes: []checkpoint.Change{Delivered("", m)}})
	equal(t, "open", lanesText(out.Open), "/g")
	equal(t, "due", r.due("kafka", ""), "kafka:1")
	equal(t, "rows", r.rows(), "1 waiting 0")
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", m)}})
	equal(t, "rows", r.rows(), "1 delivered 1 !")
	equal(t, "parked", r.parked(), "")
}

// testManyLanes: 10,000 lanes park in one settlement, and are found, paged and opened again.
func testManyLanes(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	const n = 10_000
	var s checkpoint.Settlement
	for i := range n {
		m := r.msg(i, fmt.Sprintf("g%d", i))
		s.Park = append(s.Park, Head("kafka", m, 0))
		s.Rows = append(s.Rows, RowOf(m, true))
	}
	s.Checkpoint = func([]int) *checkpoint.Checkpoint {
		return &checkpoint.Checkpoint{SourceID: "s", Resume: "here", Log: 1}
	}
	out := r.settle(s)
	equal(t, "gone", out.Gone, n) // no application wrote them
	loaded := r.reopen()
	equal(t, "blocked", len(loaded.Blocked), n)
	equal(t, "checkpoint", loaded.Checkpoint.Resume, "here")
	for left := n; left > 0; {
		ps, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 2500, Bytes: 16 << 20})
		r.must(err, "due")
		if len(ps) == 0 || len(ps) > 2500 || len(ps) < left && next <= 0 {
			t.Fatalf("%d due of %d, next in %v", len(ps), left, next)
		}
		var cs []checkpoint.Change
		var last outbox.Position // which of the lanes that are due since the same moment come first is nowhere promised
		for i := range ps {
			if ps[i].Message.Position.Compare(last) <= 0 {
				t.Fatalf("due out of order: %s after %s", ps[i].Message.Position, last)
			}
			last = ps[i].Message.Position
			cs = append(cs, Delivered("kafka", ps[i].Message))
		}
		if out := r.settle(checkpoint.Settlement{Changes: cs}); len(out.Open) != len(ps) {
			t.Fatalf("%d lanes open, want %d", len(out.Open), len(ps))
		}
		left -= len(ps)
	}
	equal(t, "blocked", len(r.reopen().Blocked), 0)
}
