package checkpoint

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A Tracker turns completions in any order into a safe position: the end of the last transaction before which everything
// is settled, and what is settled beyond it (R6, I2). It has no clock, goroutine or I/O, and is not safe for concurrent use.
//
// Messages are numbered from 1 in the order of the log. Each has a set of open parts, one bit a part: the sinks it goes
// to, and its row in the user's table. It is settled when no part is open.
type Tracker struct {
	ring  []slot // power of two
	first uint64 // number of the oldest message in the ring
	next  uint64 // number that the next message gets
	marks []mark // ends of transactions at or after first, ascending
	head  int    // first live entry of marks

	log        uint32
	resume     source.Resume // of the last mark that was passed for good
	lastCommit uint64
}

type slot struct {
	commit uint64
	n      uint32
	need   uint64 // parts the message has
	open   uint64 // parts that are not settled
}

// mark says that a transaction ends before message number seq.
type mark struct {
	seq    uint64
	resume source.Resume
}

// NewTracker begins at a checkpoint.
func NewTracker(log uint32, from source.Resume, lastCommit uint64) *Tracker {
	return &Tracker{ring: make([]slot, 1024), first: 1, next: 1, log: log, resume: from, lastCommit: lastCommit}
}

// Add takes the next message of the log and returns its number. Of its parts, those that are not open are settled already,
// as a checkpoint said. A message without open parts is settled at once.
func (t *Tracker) Add(p outbox.Position, parts, open uint64) uint64 {
	if t.next-t.first == uint64(len(t.ring)) {
		t.grow()
	}
	seq := t.next
	t.next++
	*t.at(seq) = slot{commit: p.Commit, n: p.N, need: parts, open: open & parts}
	return seq
}

func (t *Tracker) grow() {
	old := t.ring
	t.ring = make([]slot, 2*len(old))
	for seq := t.first; seq < t.next; seq++ {
		t.ring[seq&uint64(len(t.ring)-1)] = old[seq&uint64(len(old)-1)]
	}
}

func (t *Tracker) at(seq uint64) *slot { return &t.ring[seq&uint64(len(t.ring)-1)] }

// End says that a transaction ends after the message that was added last; without one since the last End it is bare
// progress. Reading can start again at r once everything before is settled.
func (t *Tracker) End(r source.Resume) {
	if n := len(t.marks); n > t.head && t.marks[n-1].seq == t.next {
		t.marks[n-1].resume = r
		return
	}
	if t.head > 256 && t.head*2 > len(t.marks) {
		t.marks = append(t.marks[:0], t.marks[t.head:]...)
		t.head = 0
	}
	t.marks = append(t.marks, mark{t.next, r})
}

// Settle closes parts of a message; Reopen takes that back, for a settlement that did not do what was expected.
func (t *Tracker) Settle(seq, parts uint64) { t.at(seq).open &^= parts }

// Reopen opens parts of a message that is not before a checkpoint that was passed with Advance.
func (t *Tracker) Reopen(seq, parts uint64) { s := t.at(seq); s.open |= parts & s.need }

// Len is the number of messages that are tracked.
func (t *Tracker) Len() int { return int(t.next - t.first) }

// Next is the number that the next message will get.
func (t *Tracker) Next() uint64 { return t.next }

// Safe returns the place where reading can start again if what is settled now becomes durable, the highest commit
// before it, and the number of the first message after it.
func (t *Tracker) Safe() (r source.Resume, lastCommit, seq uint64) {
	seq = t.first
	for seq < t.next && t.at(seq).open == 0 {
		seq++
	}
	r, lastCommit = t.resume, t.lastCommit
	safe := t.first
	for i := t.head; i < len(t.marks) && t.marks[i].seq <= seq; i++ {
		r, safe = t.marks[i].resume, t.marks[i].seq
	}
	if safe > t.first {
		lastCommit = max(lastCommit, t.at(safe-1).commit)
	}
	return r, lastCommit, safe
}

// Advance forgets everything before message number seq, which Safe returned: its checkpoint is durable.
func (t *Tracker) Advance(seq uint64) {
	for t.head < len(t.marks) && t.marks[t.head].seq <= seq {
		t.resume = t.marks[t.head].resume
		t.head++
	}
	if seq > t.first {
		t.lastCommit = max(t.lastCommit, t.at(seq-1).commit)
		t.first = seq
	}
}

// Whole is the name under which Above lists messages that are settled with all their parts.
const Whole = "*"

// Above lists what is settled from message number seq on: under Whole the ranges in which every message is settled, and
// under names[i] the ranges in which part i of every message is settled (or the message as a whole). A part that a
// message does not have counts as not settled: after a change of the routes it may have it. It also returns the number
// of ranges, and the number of the first message that is not settled.
func (t *Tracker) Above(seq uint64, names []string) (above map[string][]Range, ranges int) {
	above = map[string][]Range{}
	collect := func(name string, in func(*slot) bool, starts func(*slot) bool) {
		var open *Range
		var rs []Range
		for i := seq; i < t.next; i++ {
			s := t.at(i)
			if !in(s) {
				open = nil
				continue
			}
			p := outbox.Position{Log: t.log, Commit: s.commit, N: s.n}
			switch {
			case open == nil && starts(s):
				rs = append(rs, Range{p, p})
				open = &rs[len(rs)-1]
			case open != nil && starts(s):
				open.Last = p
			}
		}
		if len(rs) > 0 {
			above[name] = rs
			ranges += len(rs)
		}
	}
	whole := func(s *slot) bool { return s.open == 0 }
	collect(Whole, whole, whole)
	partial := uint64(0)
	for i := seq; i < t.next; i++ {
		if s := t.at(i); s.open != 0 {
			partial |= s.need &^ s.open
		}
	}
	for i, name := range names {
		bit := uint64(1) << i
		if partial&bit == 0 {
			continue
		}
		collect(name,
			func(s *slot) bool { return s.open == 0 || s.need&^s.open&bit != 0 },
			func(s *slot) bool { return s.open != 0 })
	}
	return above, ranges
}

// Covers tells whether ranges (ascending) hold a position.
func Covers(ranges []Range, p outbox.Position) bool {
	lo, hi := 0, len(ranges)
	for lo < hi {
		mid := (lo + hi) / 2
		if ranges[mid].Last.Compare(p) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(ranges) && ranges[lo].First.Compare(p) <= 0
}

// Needs tells whether a message has these parts.
func (t *Tracker) Needs(seq, parts uint64) bool { return t.at(seq).need&parts != 0 }
