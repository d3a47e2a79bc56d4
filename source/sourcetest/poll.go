package sourcetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// PollLacks are the cases that no source which polls can pass, for Kind.Lacks.
func PollLacks() map[string]string {
	return map[string]string{
		"CommitOrder":    "rows come in the order of their numbers, which are drawn before the commit: SequenceOrder",
		"StatementOrder": "it polls one table, because the sequences of two have no common order; and each row has a Commit of its own",
		"Ignored":        "rows are read as they are when they are read: one that was updated before comes updated, one that was deleted does not come",
		"Progress":       "only rows of the table move the place to resume, and nothing has to be released",
		CanOutlast:       "the server does not give up a session that asks nothing",
	}
}

// awhile gives a source the time to do what it must not do. Nothing depends on how long that is.
func (r *rig) awhile() {
	r.t.Helper()
	select {
	case <-time.After(150 * time.Millisecond):
	case <-r.ctx.Done():
		r.t.Fatal("the case has taken too long")
	}
}

// testSequenceOrder: rows come in the order of their numbers, however late the lowest one commits; a number that was rolled
// back is not waited for any longer than its transaction lasts.
func testSequenceOrder(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	first, second := r.conn(), r.conn()
	x := r.read(source.Start{From: r.establish(), Log: 1})
	for round := range 3 {
		n := 10 * round
		r.must(first.Begin(r.ctx), "begin")
		r.must(first.Insert(r.ctx, r.tables[0], row(n, "g")), "insert")
		r.must(second.Begin(r.ctx), "begin")
		r.must(second.Insert(r.ctx, r.tables[0], row(n+1, "g")), "insert")
		r.insert(row(n+2, "g"))
		r.awhile()
		r.must(first.Insert(r.ctx, r.tables[0], row(n+3, "g")), "insert")
		r.insert(row(n+4, "g"))
		r.must(second.Rollback(r.ctx), "roll back")
		r.awhile()
		r.must(first.Commit(r.ctx), "commit")
		ms, _ := x.messages(4)
		equal(t, "order", ids(ms), fmt.Sprintf("%d %d %d %d", n, n+2, n+3, n+4))
		for i, m := range ms[1:] {
			if m.Position.Commit <= ms[i].Position.Commit || m.Position.N != 0 {
				t.Errorf("position %s after %s", m.Position, ms[i].Position)
			}
		}
	}
}

// testOutOfOrder: many writers draw numbers and commit, or roll back, in any order: every committed row comes once, and the
// positions only grow, which the reader holds by itself.
func testOutOfOrder(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	x := r.read(source.Start{From: r.establish(), Log: 1})
	const writers, transactions = 4, 60
	var all sync.WaitGroup
	var mu sync.Mutex
	committed := map[string]bool{}
	for w := range writers {
		random := rand.New(rand.NewPCG(uint64(w), 7))
		c, rider := r.conn(), r.conn()
		all.Go(func() {
			for i := range transactions {
				var ms, riders []*outbox.Message
				steps := []func() error{func() error { return c.Begin(r.ctx) }}
				for j := range 1 + random.IntN(3) {
					m := row(100_000*w+100*i+j, "g")
					ms = append(ms, m)
					steps = append(steps, func() error { return c.Insert(r.ctx, r.tables[0], m) })
					if random.IntN(2) == 0 { // one that overtakes
						m := row(100_000*w+100*i+50+j, "g")
						riders = append(riders, m)
						steps = append(steps, func() error { return rider.Insert(r.ctx, r.tables[0], m) })
					}
				}
				if random.IntN(4) == 0 {
					ms = nil
					steps = append(steps, func() error { return c.Rollback(r.ctx) })
				} else {
					steps = append(steps, func() error { return c.Commit(r.ctx) })
				}
				for _, step := range steps {
					if err := step(); err != nil {
						t.Errorf("write: %v", err)
						return
					}
				}
				mu.Lock()
				for _, m := range append(ms, riders...) {
					committed[m.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	// The last row is written when all others are, so it is read after them.
	last, seen := EventID(99_999_999), map[string]bool{}
	r.must(r.app.Insert(r.ctx, r.tables[0], row(99_999_998, "first")), "insert")
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
		if err := r.app.Insert(r.ctx, r.tables[0], row(99_999_999, "last")); err != nil {
			t.Errorf("write the last row: %v", err)
		}
	}()
	defer func() { <-done }()
	for !seen[last] {
		for _, m := range x.next("all rows").Messages {
			if seen[m.ID] {
				t.Fatalf("%s came twice", m.ID)
			}
			seen[m.ID] = true
		}
		if t.Failed() {
			return
		}
	}
	missing := ""
	for one := range committed {
		if !seen[one] {
			missing += Short(one) + " "
		}
	}
	equal(t, "missing", strings.TrimSpace(missing), "")
	equal(t, "rows", len(seen), len(committed)+2)
}

// testLateRow: a row whose number is below what was read is not lost: it is among the pending rows when the barrier has
// passed, and was not emitted.
func testLateRow(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	r.insert(rows(1, 5, "g")...)
	from := r.establish()
	r.insert(rows(6, 2, "g")...)
	x := r.read(source.Start{From: from, Log: 1})
	if ms, _ := x.messages(2); k.Number == nil {
		t.Fatal("the kind cannot write a number")
	} else {
		r.must(k.Number(r.ctx, r.db, r.tables[0], row(9, "late"), ms[0].Position.Commit-1, EventID(5)), "write a row with an old number")
	}
	r.open() // not before: nobody keeps its session alive
	rows, err := r.st.Pending(r.ctx, "", 100)
	r.must(err, "list pending rows")
	r.src.Await(rows.Barrier)
	for {
		b := x.next("the barrier")
		if len(b.Messages) > 0 {
			t.Fatalf("got %s", ids(b.Messages))
		}
		if b.Barrier == rows.Barrier {
			break
		}
	}
	if last := x.last.Commit; rows.Commit < last {
		t.Errorf("the barrier is at %d, and %d was read", rows.Commit, last)
	}
	late := ""
	for _, ref := range rows.Rows {
		if ref.ID == EventID(9) {
			late = ref.ID
		}
	}
	equal(t, "late row", late, EventID(9))
}
