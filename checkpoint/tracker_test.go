package checkpoint_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// model is the tracker as one would write it without any care for speed.
type model struct {
	pos  []outbox.Position
	need []uint64
	open []uint64
	ends map[int]source.Resume // number of messages before the end -> resume
	from source.Resume
}

func (m *model) prefix() int {
	n := 0
	for n < len(m.open) && m.open[n] == 0 {
		n++
	}
	return n
}

func (m *model) safe() (source.Resume, int) {
	for n := m.prefix(); n > 0; n-- {
		if r, ok := m.ends[n]; ok {
			return r, n
		}
	}
	if r, ok := m.ends[0]; ok {
		return r, 0
	}
	return m.from, 0
}

// TestTrackerAgreesWithModel completes messages in random order and compares the safe position and what is settled
// beyond it with the model (I2).
func TestTrackerAgreesWithModel(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b"}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{ends: map[int]source.Resume{}, from: "start"}
		tr := checkpoint.NewTracker(1, "start", 0)
		seqs := []uint64{}
		commit := uint64(10)
		n := uint32(0)
		for step := range 60 {
			switch r.IntN(4) {
			case 0, 1:
				burst := 1
				if seed%100 == 0 && r.IntN(4) == 0 {
					burst = 700 // more than is forgotten at once
				}
				for range burst {
					need := uint64(r.IntN(4)) | uint64(r.IntN(2))<<63
					p := outbox.Position{Log: 1, Commit: commit, N: n}
					n++
					open := need
					if r.IntN(2) == 0 && burst > 1 {
						open = 0
					}
					seqs = append(seqs, tr.Add(p, need, open))
					m.pos, m.need, m.open = append(m.pos, p), append(m.need, need), append(m.open, open)
				}
			case 2:
				res := source.Resume(fmt.Sprintf("r%d", step))
				tr.End(res)
				m.ends[len(m.pos)] = res
				commit++
				n = 0
			case 3:
				if len(seqs) == 0 {
					continue
				}
				i := r.IntN(len(seqs))
				if m.open[i] == 0 {
					continue
				}
				part := m.open[i] & -m.open[i]
				for ; i < len(seqs) && m.open[i]&part != 0; i++ { // a run of them
					m.open[i] &^= part
					tr.Settle(seqs[i], part)
				}
				tr.Durable()
			}
			resume, _, safe := tr.Safe()
			wantResume, wantN := m.safe()
			if resume != wantResume || int(safe) != wantN+1 {
				t.Fatalf("seed %d step %d: safe = %q before message %d, want %q before %d", seed, step, resume, safe, wantResume, wantN+1)
			}
			above, _, open := tr.Above(safe, names)
			if want := uint64(m.prefix() + 1); open != want {
				t.Fatalf("seed %d step %d: first open %d, want %d", seed, step, open, want)
			}
			for i := wantN; i < len(m.pos); i++ {
				got := checkpoint.Covers(above[checkpoint.Whole], m.pos[i])
				if want := m.open[i] == 0; got != want {
					t.Fatalf("seed %d step %d: message %d whole = %v, want %v", seed, step, i, got, want)
				}
				for b, name := range names {
					bit := uint64(1) << b
					settled := m.need[i]&^m.open[i]&bit != 0
					if got := checkpoint.Covers(above[name], m.pos[i]); got && m.open[i] != 0 && !settled ||
						!got && m.open[i] != 0 && settled {
						t.Fatalf("seed %d step %d: message %d at %s = %v, want %v", seed, step, i, name, got, settled)
					}
				}
			}
		}
	}
}

// TestTrackerAdvance forgets what is durable and goes on with the same numbers.
func TestTrackerAdvance(t *testing.T) {
	t.Parallel()
	tr := checkpoint.NewTracker(1, "0", 0)
	for i := range 5000 {
		seq := tr.Add(outbox.Position{Log: 1, Commit: uint64(i + 1)}, 1, 1)
		tr.End(source.Resume(fmt.Sprint(i + 1)))
		if i >= 10 {
			tr.Settle(seq-10, 1)
			resume, last, safe := tr.Safe()
			if want := source.Resume(fmt.Sprint(i - 9)); resume != want || last != uint64(i-9) {
				t.Fatalf("after %d: resume %q last %d, want %q", i, resume, last, want)
			}
			tr.Advance(safe)
			if tr.Len() != 10 {
				t.Fatalf("after %d: %d messages tracked, want 10", i, tr.Len())
			}
		}
	}
}

// TestTrackerReopen takes back what a settlement did not do.
func TestTrackerReopen(t *testing.T) {
	t.Parallel()
	tr := checkpoint.NewTracker(1, "0", 0)
	seq := tr.Add(outbox.Position{Log: 1, Commit: 1}, 1|1<<63, 1|1<<63)
	tr.End("1")
	tr.Settle(seq, 1|1<<63)
	if r, _, _ := tr.Safe(); r != "1" {
		t.Fatalf("safe = %q, want 1", r)
	}
	tr.Reopen(seq, 1<<63|2) // 2 is no part of it
	if r, _, _ := tr.Safe(); r != "0" {
		t.Fatalf("safe = %q after reopening, want 0", r)
	}
	tr.Settle(seq, 1<<63)
	if r, _, _ := tr.Safe(); r != "1" {
		t.Fatalf("safe = %q, want 1", r)
	}
}

// TestTrackerForgetsInsideATransaction settles a transaction of 100,000 messages in bursts, with some that stay open, and
// looks at what is kept of them.
func TestTrackerForgetsInsideATransaction(t *testing.T) {
	t.Parallel()
	const n = 100_000
	r := rand.New(rand.NewPCG(7, 7))
	tr := checkpoint.NewTracker(3, "start", 0)
	pos := func(i int) outbox.Position { return outbox.Position{Log: 3, Commit: 77, N: uint32(i)} }
	late := map[int]uint64{}
	var burst []uint64
	for i := range n {
		seq := tr.Add(pos(i), 3, 3)
		if r.IntN(20_000) == 0 {
			tr.Settle(seq, 2)
			late[i] = seq
			continue
		}
		if burst = append(burst, seq); len(burst) == 700 {
			r.Shuffle(len(burst), func(a, b int) { burst[a], burst[b] = burst[b], burst[a] })
			for _, seq := range burst {
				tr.Settle(seq, 3)
			}
			tr.Durable()
			burst = burst[:0]
		}
	}
	for _, seq := range burst {
		tr.Settle(seq, 3)
	}
	tr.Durable()
	tr.End("end")
	if kept, most := tr.Kept(), (len(late)+2)*1024; kept > most {
		t.Errorf("%d messages kept one by one, want at most %d", kept, most)
	}
	for len(late) > 0 {
		resume, _, safe := tr.Safe()
		if resume != "start" || safe != 1 {
			t.Fatalf("safe = %q before message %d, want the start", resume, safe)
		}
		above, ranges, _ := tr.Above(safe, []string{"a", "b"})
		if ranges > 2*len(late)+1 {
			t.Fatalf("%d ranges for %d open messages", ranges, len(late))
		}
		for i := range n {
			_, open := late[i]
			if got := checkpoint.Covers(above[checkpoint.Whole], pos(i)); got == open {
				t.Fatalf("message %d settled = %v, want %v", i, got, !open)
			}
			if got := checkpoint.Covers(above["b"], pos(i)); open && !got || checkpoint.Covers(above["a"], pos(i)) && open {
				t.Fatalf("message %d: its parts are wrong", i)
			}
		}
		for i, seq := range late {
			tr.Settle(seq, 1)
			tr.Durable()
			delete(late, i)
			break
		}
	}
	resume, last, safe := tr.Safe()
	if resume != "end" || last != 77 || safe != n+1 {
		t.Fatalf("safe = %q, %d before message %d, want the end", resume, last, safe)
	}
	tr.Advance(safe)
	if tr.Len() != 0 || tr.Kept() > 1024 {
		t.Errorf("%d tracked, %d kept one by one after the end", tr.Len(), tr.Kept())
	}
}
