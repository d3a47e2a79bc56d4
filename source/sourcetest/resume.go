package sourcetest

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// An end is a place to resume, after so many messages.
type end struct {
	at    source.Resume
	after int
	// lastCommit is the highest commit ordinal that it covers, as a checkpoint would hold it.
	lastCommit uint64
}

// testResumeAnywhere: every Resume and Mark is a place to go on from, with nothing lost, nothing twice, and the same
// ids and positions as before.
func testResumeAnywhere(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	total := 0
	other := r.conn()
	for i := range 30 {
		n := 1 + i%4
		// Others write at the same time, and some of that is rolled back.
		r.must(other.Begin(r.ctx), "begin")
		r.must(other.Insert(r.ctx, r.tables[0], row(100_000+i, "other")), "insert")
		r.must(r.app.Begin(r.ctx), "begin")
		r.insert(rows(total+1, n, "g")...)
		r.must(r.app.Commit(r.ctx), "commit")
		if i%3 == 0 {
			r.must(other.Rollback(r.ctx), "roll back")
		} else {
			r.must(other.Commit(r.ctx), "commit")
			total++
		}
		total += n
	}
	x := r.read(source.Start{From: from, Log: 7})
	all, ends := x.ends(from, total)
	x.stop()
	if len(ends) < 2 {
		t.Fatalf("%d places to resume", len(ends))
	}
	step := max(1, len(ends)/15)
	for i := 0; i < len(ends); i += step {
		e := ends[i]
		if e.after == total {
			continue
		}
		x := r.read(source.Start{From: e.at, Log: 7, LastCommit: e.lastCommit})
		again, _ := x.messages(total - e.after)
		same(t, all[e.after:], again)
		x.stop()
	}
}

// ends reads total messages and collects every place to resume.
func (x *reader) ends(from source.Resume, total int) (all []*outbox.Message, ends []end) {
	x.r.t.Helper()
	last := func(n int) uint64 {
		if n == 0 {
			return x.start.LastCommit
		}
		return all[n-1].Position.Commit
	}
	ends = append(ends, end{from, 0, x.start.LastCommit})
	for done := false; !done; {
		b := x.next("all messages and the end of their transaction")
		before := len(all)
		all = append(all, b.Messages...)
		for _, m := range b.Marks {
			ends = append(ends, end{m.Resume, before + m.N, last(before + m.N)})
		}
		if b.Resume != "" {
			ends = append(ends, end{b.Resume, len(all), last(len(all))})
			done = len(all) >= total
		}
	}
	if len(all) != total {
		x.r.t.Fatalf("got %d messages, want %d", len(all), total)
	}
	return all, ends
}

// same compares messages that were read twice.
func same(t *testing.T, was, is []*outbox.Message) {
	t.Helper()
	for i := range was {
		if was[i].ID != is[i].ID || was[i].Position != is[i].Position {
			t.Fatalf("message %d of %d was %s at %s, and is %s at %s when it is read again", i, len(was),
				Short(was[i].ID), was[i].Position, Short(is[i].ID), is[i].Position)
		}
	}
}

// testLargeTransaction: a transaction that is larger than any buffer is emitted in bounded pieces, without a place to
// resume inside it.
func testLargeTransaction(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	const chunk, chunks = 500, 40
	r.must(r.app.Begin(r.ctx), "begin")
	for i := range chunks {
		r.insert(rows(1+i*chunk, chunk, "g")...)
	}
	r.must(r.app.Commit(r.ctx), "commit")
	r.insert(row(chunk*chunks+1, "g"))
	x := r.read(source.Start{From: from})
	// That no place to resume comes inside the transaction, and no batch is too large, is the reader's own check.
	batches := 0
	for got := 0; got < chunk*chunks+1; batches++ {
		b := x.next("the transaction's messages")
		for _, m := range b.Messages {
			if got++; m.ID != EventID(got) {
				t.Fatalf("message %d is %s", got, m.ID)
			}
		}
		if len(b.Messages) == chunk*chunks {
			t.Fatalf("a batch of %d messages", len(b.Messages))
		}
	}
	if x.last.N != 0 && x.seen[0].m.Position.Commit == x.last.Commit {
		t.Errorf("the message after the transaction has position %s", x.last)
	}
	if batches < 3 {
		t.Errorf("%d batches", batches)
	}
}
