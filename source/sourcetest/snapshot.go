package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// snapshot establishes a position. The snapshot is closed at the test's end.
func (r *rig) snapshot() source.Snapshot {
	r.t.Helper()
	snap, err := r.src.Establish(r.ctx)
	r.must(err, "establish")
	r.t.Cleanup(func() { _ = snap.Close(context.WithoutCancel(r.ctx)) })
	return snap
}

// judge establishes a position after another one, and judges it.
func (r *rig) judge(acceptGap bool) (source.Snapshot, bool) {
	r.t.Helper()
	snap := r.snapshot()
	sweep, err := snap.Judge(r.ctx, source.Known{AcceptGap: acceptGap})
	r.must(err, "judge")
	return snap, sweep
}

// pending reads a sweep.
func (r *rig) pending(snap source.Snapshot, log uint32) (ms []*outbox.Message, parkedAt [][]string) {
	r.t.Helper()
	err := snap.Pending(r.ctx, log, func(_ context.Context, b *source.Batch) error {
		if b.Resume != "" || len(b.Marks) > 0 || b.Barrier != "" || len(b.Messages) == 0 || b.ParkedAt != nil && len(b.ParkedAt) != len(b.Messages) {
			r.t.Errorf("a sweep's batch of %d messages, %d parked, resume %q, %d marks", len(b.Messages), len(b.ParkedAt), b.Resume, len(b.Marks))
		}
		bytes := 0
		for i, m := range b.Messages {
			if want := (outbox.Position{Log: log, N: uint32(len(ms))}); m.Position != want || m.Txn != 0 || m.CommitTime.IsZero() {
				r.t.Errorf("a sweep's message has position %s, want %s; txn %d, commit time %s", m.Position, want, m.Txn, m.CommitTime)
			}
			bytes += len(m.Payload)
			ms = append(ms, m)
			var at []string
			if b.ParkedAt != nil {
				at = slices.Sorted(slices.Values(b.ParkedAt[i]))
			}
			parkedAt = append(parkedAt, at)
		}
		if len(b.Messages) > 1 && bytes > batchBytes {
			r.t.Errorf("a sweep's batch of %d messages and %d bytes of payload", len(b.Messages), bytes)
		}
		return nil
	})
	r.must(err, "read pending rows")
	return ms, parkedAt
}

// testSnapshotOrLog: with writers at work, each row is in the snapshot or comes after its position, never both and
// never neither.
func testSnapshotOrLog(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	var all sync.WaitGroup
	var stop atomic.Bool
	var mu sync.Mutex
	written := map[string]bool{}
	for w := range 3 {
		c := r.conn()
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				m := row(1_000_000*(w+1)+i, "g")
				if err := c.Insert(r.ctx, r.tables[0], m); err != nil {
					t.Errorf("insert: %v", err)
					return
				}
				mu.Lock()
				written[m.ID] = true
				mu.Unlock()
			}
		})
	}
	defer all.Wait()
	defer stop.Store(true)
	for range 3 {
		snap, sweep := r.judge(false)
		seen := map[string]bool{}
		if sweep {
			ms, _ := r.pending(snap, 5)
			for _, m := range ms {
				if seen[m.ID] {
					t.Fatalf("%s is swept twice", m.ID)
				}
				seen[m.ID] = true
			}
		}
		r.must(snap.Close(r.ctx), "close snapshot")
		missing := map[string]bool{}
		mu.Lock()
		for id := range written {
			if !seen[id] {
				missing[id] = true
			}
		}
		mu.Unlock()
		x := r.read(source.Start{From: snap.Resume()})
		for tail := 0; len(missing) > 0 || tail < 10; {
			for _, m := range x.next(fmt.Sprintf("%d rows that the snapshot does not hold", len(missing))).Messages {
				if seen[m.ID] {
					t.Fatalf("%s was in the snapshot and came from the log", m.ID)
				}
				delete(missing, m.ID)
				tail++
			}
		}
		x.stop()
	}
}

// testOpenTransaction: a transaction that is open while a position is established is in the log whole, or in the snapshot
// whole.
func testOpenTransaction(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	c := r.conn()
	for round := range 3 {
		first := 100 * (round + 1)
		r.must(c.Begin(r.ctx), "begin")
		r.must(c.Insert(r.ctx, r.tables[0], row(first, "g")), "insert")
		type answer struct {
			snap source.Snapshot
			err  error
		}
		established := make(chan answer, 1)
		go func() {
			snap, err := r.src.Establish(r.ctx)
			established <- answer{snap, err}
		}()
		// It may wait for the transaction's end. Nothing depends on how long that is looked at.
		var a answer
		select {
		case a = <-established:
		case <-time.After(200 * time.Millisecond):
		}
		r.must(c.Insert(r.ctx, r.tables[0], row(first+1, "g")), "insert")
		r.must(c.Commit(r.ctx), "commit")
		if a.snap == nil && a.err == nil {
			select {
			case a = <-established:
			case <-time.After(patience):
				t.Fatalf("waited %v for: Establish after the transaction that it waited for", patience)
			}
		}
		r.must(a.err, "establish")
		r.insert(row(first+2, "g"))
		got := map[string]int{}
		sweep, err := a.snap.Judge(r.ctx, source.Known{})
		r.must(err, "judge")
		if sweep {
			ms, _ := r.pending(a.snap, 1)
			for _, m := range ms {
				got[m.ID]++
			}
		}
		r.must(a.snap.Close(r.ctx), "close snapshot")
		x := r.read(source.Start{From: a.snap.Resume(), Log: 1})
		for got[EventID(first+2)] == 0 {
			for _, m := range x.next("the message after the transaction").Messages {
				got[m.ID]++
			}
		}
		x.stop()
		for n := first; n <= first+2; n++ {
			if got[EventID(n)] != 1 {
				t.Errorf("round %d: message %d came %d times from snapshot and log together", round, n, got[EventID(n)])
			}
		}
	}
}

// testJudge: what a new position makes of the rows that are there.
func testJudge(t *testing.T, k Kind) {
	plain, status := table("debezium", "outbox"), table("tailbox", "outbox")
	for name, c := range map[string]struct {
		table            Table
		rows             string // of rows 1 to 3: pending, or what settled them
		start            string
		first, acceptGap bool
		again            bool
		want             string
		fix              string
	}{
		"no rows":                    {table: plain, first: true},
		"first, unsaid":              {table: plain, rows: "pending", first: true, fix: "source.start"},
		"first, accepted":            {table: plain, rows: "pending", first: true, acceptGap: true},
		"first, pending":             {table: plain.with(outbox.Keep), rows: "pending", start: "pending", first: true, want: "1 2 3"},
		"first, now":                 {table: plain, rows: "pending", start: "now", first: true},
		"again, now":                 {table: plain, rows: "pending", start: "now", first: true, again: true, want: "1 2 3"},
		"again, unsaid, keep":        {table: plain.with(outbox.Keep), rows: "pending", first: true, again: true, fix: "since the first position"},
		"again, now, keep":           {table: plain.with(outbox.Keep), rows: "pending", start: "now", first: true, again: true, fix: "source.start to pending"},
		"again, now, accepted":       {table: plain.with(outbox.Keep), rows: "pending", start: "now", first: true, again: true, acceptGap: true},
		"again, now, empty":          {table: plain, start: "now", first: true, again: true},
		"again, now, status":         {table: status, rows: "pending", start: "now", first: true, again: true, want: "1 2 3"},
		"again, pending":             {table: plain, rows: "pending", start: "pending", first: true, again: true, want: "1 2 3"},
		"later, delete":              {table: plain, rows: "pending", start: "now", want: "1 2 3"},
		"later, delete, some":        {table: plain, rows: "delivered", want: "2 3"},
		"later, keep":                {table: plain.with(outbox.Keep), rows: "pending", start: "pending", fix: "accept-gap"},
		"later, keep, accepted":      {table: plain.with(outbox.Keep), rows: "pending", acceptGap: true},
		"later, keep, empty":         {table: plain.with(outbox.Keep)},
		"status, first":              {table: status, rows: "pending", first: true, want: "1 2 3"},
		"status, now":                {table: status, rows: "pending", start: "now", first: true, want: "1 2 3"},
		"status, later":              {table: status, rows: "pending", want: "1 2 3"},
		"status, keep":               {table: status.with(outbox.Keep), rows: "pending", want: "1 2 3"},
		"status, delivered":          {table: status, rows: "delivered", first: true, want: "2 3"},
		"status, all delivered":      {table: status, rows: "delivered delivered delivered"},
		"status, delivered and dead": {table: status, rows: "delivered dead", want: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{c.table}, Start: c.start})
			if c.rows != "" {
				for n := 1; n <= 3; n++ {
					r.insert(row(n, "g"))
				}
				for i, state := range strings.Fields(c.rows) {
					switch m := r.msg(i+1, "g"); state {
					case "delivered":
						r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(m, false)}})
					case "dead":
						r.parkWhole(Dead("kafka", m, false))
					}
				}
			}
			snap := r.snapshot()
			sweep, err := snap.Judge(r.ctx, source.Known{First: c.first, Again: c.again, AcceptGap: c.acceptGap})
			if sweep != (c.want != "") {
				t.Errorf("sweep %v, want %v", sweep, c.want != "")
			}
			if c.fix == "" {
				r.must(err, "judge")
			} else if !errors.Is(err, source.ErrUnjudged) || !strings.Contains(err.Error(), c.fix) {
				t.Errorf("judged with error %v, want ErrUnjudged and %q in it", err, c.fix)
			}
			if sweep {
				ms, _ := r.pending(snap, 4)
				slices.SortFunc(ms, func(a, b *outbox.Message) int { return strings.Compare(a.ID, b.ID) })
				equal(t, "swept", ids(ms), c.want)
			}
		})
	}
}

// testSweepOrder: rows that were written one after the other are swept in that order, whatever their ids; what comes
// after the position is no part of it.
func testSweepOrder(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	want := ""
	for i := range 300 {
		n := (i*7 + 3) % 300
		r.insert(row(n, "g"))
		want += fmt.Sprint(n) + " "
	}
	snap, _ := r.judge(false)
	r.insert(row(1000, "g"))
	ms, _ := r.pending(snap, 9)
	equal(t, "swept", ids(ms)+" ", want)
	// An error of emit ends it, and comes back as it is.
	own := errors.New("the relay's own")
	snap, _ = r.judge(false)
	if err := snap.Pending(r.ctx, 9, func(context.Context, *source.Batch) error { return own }); !errors.Is(err, own) {
		t.Errorf("Pending returned %v, want what emit returned", err)
	}
}

// testSweepOfParked: what is parked is swept with the names of the sinks where it is, by table and pipeline.
func testSweepOfParked(t *testing.T, k Kind) {
	tables := []Table{table("tailbox", "outbox"), table("debezium", "second")}
	if k.Polls {
		tables = tables[:1]
	}
	r := newStoreRig(t, k, Setup{Tables: tables})
	r.insert(rows(0, 2000, "g")...)
	for _, second := range r.tables[1:] {
		r.must(r.app.Insert(r.ctx, second, row(1, "g")), "insert")
	}
	one := r.msg(1, "g")
	r.park(Dead("kafka", one, true), Follower("mail", one), Dead("", r.msg(2, "g"), true), Head("kafka", r.msg(1999, "g"), 0))
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", r.msg(1999, "g"))}})
	snap, _ := r.judge(false)
	ms, at := r.pending(snap, 5)
	if want := 1999 + len(tables); len(ms) != want {
		t.Fatalf("swept %d messages, want %d", len(ms), want)
	}
	got := ""
	for i, m := range ms {
		// If a delivery is over while others are still unsettled, the store may remember that, or deliver again.
		if len(at[i]) > 0 && m.ID != EventID(1999) {
			got += fmt.Sprintf("%s %s %q, ", strings.TrimPrefix(m.Table, r.tables[0].Schema+"."), Short(m.ID), at[i])
		}
	}
	equal(t, "parked", got, `outbox 1 ["kafka" "mail"], outbox 2 [""], `)
}
