package sourcetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/source"
)

// testCommitOrder: transactions that overlap are emitted in the order of their commits, whole, whatever the order of
// their ids and of their first writes.
func testCommitOrder(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	const writers = 4
	conns := make([]Conn, writers)
	for i := range conns {
		conns[i] = r.conn()
		r.must(conns[i].Begin(r.ctx), "begin")
	}
	// All write in turns, the last one first; then they commit in an order of their own.
	for part := range 3 {
		for i := range conns {
			n := 100*(writers-i) + part
			r.must(conns[i].Insert(r.ctx, r.tables[0], row(n, "same")), "insert")
		}
	}
	want := ""
	for _, i := range []int{2, 0, 3, 1} {
		r.must(conns[i].Commit(r.ctx), "commit")
		for part := range 3 {
			want += fmt.Sprint(100*(writers-i)+part) + " "
		}
	}
	r.insert(row(1, "same"))
	ms, _ := r.read(source.Start{From: from, Log: 3}).messages(3*writers + 1)
	equal(t, "order", ids(ms), want+"1")
	for i := 0; i < 3*writers; i += 3 {
		if a, b := ms[i].Position, ms[i+2].Position; a.Commit != b.Commit {
			t.Errorf("one transaction has positions %s and %s", a, b)
		}
		if a, b := ms[i].Position, ms[i+3].Position; a.Commit >= b.Commit {
			t.Errorf("two transactions have positions %s and %s", a, b)
		}
	}
}

// testConcurrentWriters: under many writers each one's messages come in its order, once, and none is missing.
func testConcurrentWriters(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	x := r.read(source.Start{From: r.establish(), Log: 1})
	const writers, each = 4, 100
	var all sync.WaitGroup
	for w := range writers {
		c := r.conn()
		all.Go(func() {
			for i := range each {
				if i%5 == 0 {
					if err := c.Begin(r.ctx); err != nil {
						t.Errorf("begin: %v", err)
						return
					}
				}
				if err := c.Insert(r.ctx, r.tables[0], row(1000*w+i, fmt.Sprintf("w%d", w))); err != nil {
					t.Errorf("insert: %v", err)
					return
				}
				if i%5 == 4 {
					if err := c.Commit(r.ctx); err != nil {
						t.Errorf("commit: %v", err)
						return
					}
				}
			}
		})
	}
	ms, _ := x.messages(writers * each)
	all.Wait()
	next := map[string]int{}
	for _, m := range ms {
		var w int
		if _, err := fmt.Sscanf(m.Group, "w%d", &w); err != nil {
			t.Fatalf("message %s has group %q", m.ID, m.Group)
		}
		if want := EventID(1000*w + next[m.Group]); m.ID != want {
			t.Fatalf("writer %d: got %s, want %s", w, m.ID, want)
		}
		next[m.Group]++
	}
}

// testStatementOrder: the rows of a transaction come in the order in which they were written, over all tables, and N
// tells that order.
func testStatementOrder(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox"), table("debezium", "second")}})
	from := r.establish()
	r.must(r.app.Begin(r.ctx), "begin")
	want := ""
	for i := range 20 {
		n := 100 - i
		r.must(r.app.Insert(r.ctx, r.tables[i%2], row(n, "g"), row(n-50, "g")), "insert")
		want += fmt.Sprintf("%d %d ", n, n-50)
	}
	r.must(r.app.Commit(r.ctx), "commit")
	r.insert(row(1, "g"))
	ms, _ := r.read(source.Start{From: from}).messages(41)
	equal(t, "order", ids(ms), want+"1")
	for i, m := range ms[:40] {
		if table := r.tables[i/2%2].String(); m.Table != table {
			t.Errorf("message %s is of table %s, want %s", Short(m.ID), m.Table, table)
		}
		if m.Position.Commit != ms[0].Position.Commit || i > 0 && m.Position.N <= ms[i-1].Position.N {
			t.Errorf("message %s has position %s after %s", Short(m.ID), m.Position, ms[max(0, i-1)].Position)
		}
	}
	group := ms[2].Group
	if ms[0].Group != "g" || group != "order:g" {
		t.Errorf("groups %q and %q, want g and order:g", ms[0].Group, group)
	}
}

// testRollback: what was rolled back is never seen.
func testRollback(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	other := r.conn()
	for i := range 5 {
		r.must(other.Begin(r.ctx), "begin")
		r.must(other.Insert(r.ctx, r.tables[0], rows(1000+10*i, 5, "g")...), "insert")
		r.insert(row(i, "g"))
		r.must(other.Rollback(r.ctx), "roll back")
	}
	// The id is free again.
	r.insert(row(1000, "g"))
	ms, _ := r.read(source.Start{From: from}).messages(6)
	equal(t, "messages", ids(ms), "0 1 2 3 4 1000")
}

// testSavepoint: what was rolled back to a savepoint is never seen, what came before and after it is.
func testSavepoint(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	r.must(r.app.Begin(r.ctx), "begin")
	r.insert(rows(1, 3, "g")...)
	r.must(r.app.Savepoint(r.ctx), "savepoint")
	r.insert(rows(10, 500, "g")...)
	r.must(r.app.RollbackTo(r.ctx), "roll back to savepoint")
	r.insert(row(4, "g"))
	r.must(r.app.Savepoint(r.ctx), "savepoint")
	r.insert(row(5, "g"))
	r.must(r.app.Commit(r.ctx), "commit")
	r.insert(row(6, "g"))
	ms, _ := r.read(source.Start{From: from}).messages(6)
	equal(t, "messages", ids(ms), "1 2 3 4 5 6")
	for _, m := range ms[:5] {
		if !k.Polls && m.Position.Commit != ms[0].Position.Commit {
			t.Errorf("message %s has position %s, and the first one of its transaction %s", Short(m.ID), m.Position, ms[0].Position)
		}
	}
}

// testIgnored: changes to rows that are there are no messages; where the log holds them they are counted.
func testIgnored(t *testing.T, k Kind) {
	var mu sync.Mutex
	ignored := map[string]int{}
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox"), table("debezium", "second")}, Ignored: func(why string, n int) {
		mu.Lock()
		defer mu.Unlock()
		ignored[why] += n
	}})
	from := r.establish()
	truncates := k.Lacks[CanTruncate] == ""
	r.must(r.app.Begin(r.ctx), "begin")
	r.insert(rows(1, 3, "g")...)
	changed := row(2, "g")
	changed.Type = "Changed"
	r.must(r.app.Update(r.ctx, r.tables[0], changed), "update")
	r.must(r.app.Delete(r.ctx, r.tables[0], EventID(3)), "delete")
	r.insert(row(4, "g"))
	r.must(r.app.Commit(r.ctx), "commit")
	r.must(r.app.Insert(r.ctx, r.tables[1], row(5, "g")), "insert")
	if truncates {
		r.must(r.app.Truncate(r.ctx, r.tables[1]), "truncate")
	}
	r.must(r.app.Delete(r.ctx, r.tables[0], EventID(1), EventID(2)), "delete")
	r.insert(row(6, "g"))
	x := r.read(source.Start{From: from})
	ms, _ := x.messages(6)
	equal(t, "messages", ids(ms), "1 2 3 4 5 6")
	if ms[1].Type != "Counted" {
		t.Errorf("message 2 has type %q: the insert's row is wanted, not what an update made of it", ms[1].Type)
	}
	x.stop()
	mu.Lock()
	defer mu.Unlock()
	for _, why := range k.Counted {
		if ignored[why] == 0 {
			t.Errorf("ignored %v: nothing is counted as %q", ignored, why)
		}
	}
}
