package sourcetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// pendingAll lists the ids of all pending rows, in chunks of limit.
func (r *rig) pendingAll(limit int) (names []string) {
	r.t.Helper()
	for _, ref := range r.pendingRows(limit) {
		names = append(names, ref.ID)
	}
	return names
}

func (r *rig) pendingRows(limit int) (refs []checkpoint.RowRef) {
	r.t.Helper()
	cursor := ""
	for calls := 1; ; calls++ {
		rows, err := r.st.Pending(r.ctx, cursor, limit)
		r.must(err, "list pending rows")
		if len(rows.Rows) > limit {
			r.t.Fatalf("%d rows, want at most %d", len(rows.Rows), limit)
		}
		refs = append(refs, rows.Rows...)
		if cursor = rows.Cursor; cursor == "" {
			return refs
		}
		if calls > 10_000 {
			r.t.Fatalf("the list of pending rows does not end: %d rows so far", len(refs))
		}
	}
}

// untilVisible settles the row of a message that was just read, as often as it takes to become visible. The row
// is there: it must not be taken for one that is gone.
func (r *rig) untilVisible(ms ...*outbox.Message) {
	r.t.Helper()
	var s checkpoint.Settlement
	for _, m := range ms {
		s.Rows = append(s.Rows, RowOf(m, true))
	}
	r.until("rows that were committed to be visible", func() bool {
		out := r.settle(s)
		if out.Gone != 0 {
			r.t.Fatalf("%d of %d rows that are there are taken for gone", out.Gone, len(s.Rows))
		}
		var left []checkpoint.Row
		for _, i := range out.Invisible {
			left = append(left, s.Rows[i])
		}
		s.Rows = left
		return len(left) == 0
	})
}

// testPending: the list names every pending row once, in the same order whatever its pages, and no row that is kept,
// settled, or parked.
func testPending(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox"), table("tailbox", "kept").with(outbox.Keep), table("tailbox", "marked")}})
	r.insert(row(3, "g"))
	r.insert(row(1, "g"), row(2, "g"))
	r.must(r.app.Insert(r.ctx, r.tables[1], row(9, "g")), "insert")
	r.must(r.app.Insert(r.ctx, r.tables[2], rows(4, 5, "g")...), "insert")
	five, six := r.msg(5, "g"), r.msg(6, "g")
	five.Table, six.Table = r.tables[2].String(), r.tables[2].String()
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(five, false)}})
	r.parkWhole(Dead("kafka", six, true))
	seven := r.msg(7, "g")
	seven.Table = six.Table
	r.park(Dead("kafka", seven, true)) // its row is not settled: nobody but a relay's memory knows of its other deliveries
	big := r.msg(2, "g")
	big.Payload, big.Fault = nil, &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "large"}
	r.parkWhole(checkpoint.Parked{Sink: "kafka", Message: big, State: checkpoint.StateDead, InTable: true})
	equal(t, "row of what was not copied", r.rows(), "1, 2, 3")
	want := r.pendingAll(100)
	sorted := slices.Sorted(slices.Values(want))
	equal(t, "pending", sorted, []string{EventID(1), EventID(3), EventID(4), EventID(7), EventID(8)})
	for _, limit := range []int{1, 2, 3} {
		got := r.pendingAll(limit)
		equal(t, fmt.Sprintf("pending by %d", limit), got, want)
	}
	requests, err := r.st.Requests(r.ctx)
	r.must(err, "read requests")
	equal(t, "requests", len(requests), 0)
}

// testPendingBesideWriters: rows that are there during the whole listing are in it once, whatever comes and goes beside.
func testPendingBesideWriters(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	const n = 200
	for i := range n {
		if i%50 == 0 {
			r.insert(rows(1000+i, 50, "g")...)
		}
	}
	var all sync.WaitGroup
	var stop atomic.Bool
	c := r.conn()
	all.Go(func() {
		for i := 0; !stop.Load(); i++ {
			before, after := row(i%1000, "g"), row(100_000+i, "g") // neither has the id of a row that stays
			if err := c.Insert(r.ctx, r.tables[0], before, after); err != nil {
				t.Errorf("insert: %v", err)
				return
			}
			if err := c.Delete(r.ctx, r.tables[0], before.ID, after.ID); err != nil {
				t.Errorf("delete: %v", err)
				return
			}
		}
	})
	defer all.Wait()
	defer stop.Store(true)
	for _, limit := range []int{7, 100} {
		names := r.pendingAll(limit)
		seen := map[string]int{}
		for _, name := range names {
			seen[name]++
		}
		for i := range n {
			if seen[EventID(1000+i)] != 1 {
				t.Fatalf("in pages of %d, row %d is listed %d times", limit, 1000+i, seen[EventID(1000+i)])
			}
		}
	}
}

// fetchAll is more bytes than any test has.
const fetchAll = 1 << 30

// testFetch: rows that are still pending are read at the given position, in the order in which they were written, with
// the sinks where they are parked; and no more of them than the caller has room for.
func testFetch(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox"), table("debezium", "second")}})
	for _, n := range []int{5, 4, 3, 2, 1} { // against the order of ids
		r.insert(row(n, "g"))
	}
	r.must(r.app.Insert(r.ctx, r.tables[1], row(9, "g")), "insert")
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(2, "g"), false)}})
	r.park(Dead("kafka", r.msg(3, "g"), true), Dead("audit", r.msg(3, "g"), true))
	var refs []checkpoint.RowRef
	for n := 1; n <= 6; n++ {
		refs = append(refs, checkpoint.RowRef{Table: r.tables[0].String(), ID: EventID(n)})
	}
	refs = append(refs, checkpoint.RowRef{Table: r.tables[1].String(), ID: EventID(9)})
	at := outbox.Position{Log: 2, Commit: 500, N: 3}
	ms, parkedAt, err := r.st.Fetch(r.ctx, refs, at, fetchAll)
	r.must(err, "fetch")
	var got []string
	for i, m := range ms {
		got = append(got, fmt.Sprintf("%s@%d", Short(m.ID), m.Position.N))
		if m.Position.Log != 2 || m.Position.Commit != 500 || m.Txn != 0 || m.CommitTime.IsZero() || time.Since(m.CommitTime) > time.Hour || m.Type != "Counted" {
			t.Errorf("message %d: %+v", i, *m)
		}
	}
	equal(t, "fetched", strings.Join(got, " "), "5@3 4@4 3@5 1@6 9@7")
	for i, sinks := range parkedAt {
		if want := map[bool]string{true: "audit kafka"}[i == 2]; strings.Join(slices.Sorted(slices.Values(sinks)), " ") != want {
			t.Errorf("message %d is parked at %q, want %q", i, sinks, want)
		}
	}
	for _, bytes := range []int{1, 2*ms[0].Size() - 1} { // one by one, and two by two
		var pieces []string
		for left := refs; len(left) > 0; {
			some, _, err := r.st.Fetch(r.ctx, left, at, bytes)
			r.must(err, "fetch a piece")
			if len(some) == 0 {
				break
			}
			if first := bytes - some[0].Size(); len(some) > 1 && first <= 0 || len(some) > 2 {
				t.Errorf("%d messages came where there is room for %d bytes", len(some), bytes)
			}
			for _, m := range some {
				pieces = append(pieces, Short(m.ID))
				left = slices.DeleteFunc(slices.Clone(left), func(ref checkpoint.RowRef) bool { return ref.ID == m.ID && ref.Table == m.Table })
			}
		}
		equal(t, fmt.Sprintf("fetched by %d bytes", bytes), strings.Join(pieces, " "), "5 4 3 1 9")
	}
	ms, _, err = r.st.Fetch(r.ctx, nil, at, fetchAll)
	r.must(err, "fetch nothing")
	equal(t, "fetched nothing", len(ms), 0)
}

// testReset: a row that an operator sets to pending with plain SQL is delivered again: as it is, where nothing of it is
// parked; and while a dead delivery of it is, as a replay with what the row says now, at its old position, with no attempt
// spent (R11).
func testReset(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	r.insert(rows(1, 5, "g")...)
	r.parkWhole(Dead("kafka", r.msg(1, "g"), false), Dead("audit", r.msg(1, "g"), false), Head("kafka", r.msg(2, "g"), time.Hour), Dead("kafka", r.msg(3, "h"), true))
	r.park(Dead("kafka", r.msg(4, "h"), true)) // a delivery of it is on its way elsewhere, and its row still pending
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(5, "g"), false)}})
	mended := row(1, "g")
	mended.Payload = []byte("mended")
	r.must(r.app.Update(r.ctx, r.tables[0], mended), "update")
	r.must(r.db.Reset(r.ctx, r.tables[0], EventID(1), EventID(2), EventID(5)), "reset")
	names := r.pendingAll(100)
	equal(t, "pending", strings.Join(names, " "), EventID(4)+" "+EventID(5))
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(5, "g"), false)}})
	r.pendingAll(100) // a second look asks for nothing twice
	applied := Obey(r.ctx, r.t, r.st)
	equal(t, "changed", applied.Changed, 2)
	equal(t, "blocked", lanesText(applied.Blocked), "audit/g kafka/g")
	equal(t, "parked", r.parked(), "audit:1 waiting!@, kafka:1 waiting!@, kafka:2 retrying!, kafka:3 dead!, kafka:4 dead!")
	p := r.one("kafka")
	if m := p.Message; string(m.Payload) != "mended" || m.Group != "g" || m.Position != r.msg(1, "g").Position || p.Attempts != 0 || p.Replays != 1 {
		t.Errorf("replayed: %+v %+v", p, *m)
	}
	names = r.pendingAll(100)
	equal(t, "pending", strings.Join(names, " "), EventID(4))
	equal(t, "changed by another look", Obey(r.ctx, r.t, r.st).Changed, 0)
}

// testNullStatus: a status that is NULL is that of a row from before there was a status. It is pending, unless its delivered_at says otherwise,
// or the column by which the application tells what it gave up.
func testNullStatus(t *testing.T, k Kind) {
	flagged := table("tailbox", "outbox")
	flagged.Set = []outbox.SetValue{{State: "dead", Column: flagged.Columns.CorrelationID, Value: "given up"}}
	r := newRig(t, k, Setup{Tables: []Table{flagged}})
	r.must(k.NullStatus(r.ctx, r.db, r.tables[0]), "let the status be NULL")
	r.open()
	dead := row(5, "g")
	dead.CorrelationID = "given up"
	r.insert(append(rows(1, 4, "g"), dead)...)
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(1, "g"), false), RowOf(r.msg(4, "g"), false)}})
	r.must(k.NullStatus(r.ctx, r.db, r.tables[0], EventID(1), EventID(2), EventID(5)), "set the status to NULL")
	snap, sweep := r.judge(false)
	if !sweep {
		t.Fatal("there is nothing to sweep")
	}
	swept, _ := r.pending(snap, 1)
	equal(t, "a sweep", ids(swept), "2 3")
	pending := r.pendingAll(100)
	slices.Sort(pending)
	equal(t, "the comparison", pending, []string{EventID(2), EventID(3)})
	var refs []checkpoint.RowRef
	for n := 1; n <= 5; n++ {
		refs = append(refs, checkpoint.RowRef{Table: r.tables[0].String(), ID: EventID(n)})
	}
	fetched, _, err := r.st.Fetch(r.ctx, refs, outbox.Position{Log: 1, Commit: 5}, fetchAll)
	r.must(err, "fetch")
	slices.SortFunc(fetched, func(a, b *outbox.Message) int { return strings.Compare(a.ID, b.ID) })
	equal(t, "a fetch", ids(fetched), "2 3")
}
