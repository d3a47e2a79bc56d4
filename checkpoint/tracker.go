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
	chunks []chunk // of chunkSize numbers each; the first one holds number first
	base   uint64  // number of the first chunk
	first  uint64  // number of the oldest message that is tracked
	next   uint64  // number that the next message gets
	marks  []mark  // ends of transactions at or after first, ascending
	head   int     // first live entry of marks
	spare  []*[chunkSize]slot

	log        uint32
	resume     source.Resume // of the last mark that was passed for good
	lastCommit uint64
	added      uint64 // commit of the message that was added last
}

// chunkSize messages are forgotten together: what is left of them once they are settled for good is a range. A transaction
// has no place inside to resume at, so all of it is tracked until its end, however long it is.
const chunkSize = 1024

type chunk struct {
	slots       *[chunkSize]slot // nil: all settled for good
	open        int              // messages that are not settled
	first, last place
}

// place is a position but for its Log.
type place struct {
	commit uint64
	n      uint32
}

type slot struct {
	place
	need uint64 // parts the message has
	open uint64 // parts that are not settled
}

// mark says that a transaction ends before message number seq, and the commit of what is before.
type mark struct {
	seq    uint64
	resume source.Resume
	commit uint64
}

// NewTracker begins at a checkpoint.
func NewTracker(log uint32, from source.Resume, lastCommit uint64) *Tracker {
	return &Tracker{first: 1, next: 1, log: log, resume: from, lastCommit: lastCommit}
}

// Add takes the next message of the log and returns its number. Of its parts, those that are not open are settled already,
// as a checkpoint said. A message without open parts is settled at once.
func (t *Tracker) Add(p outbox.Position, parts, open uint64) uint64 {
	seq := t.next
	t.next++
	at := place{p.Commit, p.N}
	if seq/chunkSize == t.base+uint64(len(t.chunks)) {
		t.chunks = append(t.chunks, chunk{slots: t.slots(), first: at})
	}
	c := t.chunk(seq)
	c.last = at
	c.slots[seq%chunkSize] = slot{place: at, need: parts, open: open & parts}
	if open&parts != 0 {
		c.open++
	}
	t.added = p.Commit
	return seq
}

func (t *Tracker) slots() *[chunkSize]slot {
	if n := len(t.spare); n > 0 {
		s := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return s
	}
	return new([chunkSize]slot)
}

// maxSpare chunks are kept to be used again.
const maxSpare = 64

func (t *Tracker) free(c *chunk) {
	if c.slots != nil && len(t.spare) < maxSpare {
		t.spare = append(t.spare, c.slots)
	}
	c.slots = nil
}

func (t *Tracker) chunk(seq uint64) *chunk { return &t.chunks[seq/chunkSize-t.base] }

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
	t.marks = append(t.marks, mark{t.next, r, t.added})
}

// Settle closes parts of a message; Reopen takes that back, for a settlement that did not do what was expected.
func (t *Tracker) Settle(seq, parts uint64) {
	c := t.chunk(seq)
	if c.slots == nil {
		return
	}
	s := &c.slots[seq%chunkSize]
	if s.open != 0 && s.open&^parts == 0 {
		c.open--
	}
	s.open &^= parts
}

// Reopen opens parts of a message that was not settled yet when Durable or Advance was called last.
func (t *Tracker) Reopen(seq, parts uint64) {
	c := t.chunk(seq)
	s := &c.slots[seq%chunkSize]
	if parts &= s.need; s.open == 0 && parts != 0 {
		c.open++
	}
	s.open |= parts
}

// Len is the number of messages that are tracked.
func (t *Tracker) Len() int { return int(t.next - t.first) }

// firstOpen is the number of the first message that is not settled.
func (t *Tracker) firstOpen() uint64 {
	for seq := t.first; seq < t.next; {
		c := t.chunk(seq)
		if c.open == 0 {
			seq = (seq/chunkSize + 1) * chunkSize
			continue
		}
		if c.slots[seq%chunkSize].open != 0 {
			return seq
		}
		seq++
	}
	return t.next
}

// Safe returns the place where reading can start again if what is settled now becomes durable, the highest commit
// before it, and the number of the first message after it.
func (t *Tracker) Safe() (r source.Resume, lastCommit, seq uint64) {
	open := t.firstOpen()
	r, lastCommit, seq = t.resume, t.lastCommit, t.first
	for i := t.head; i < len(t.marks) && t.marks[i].seq <= open; i++ {
		r, seq = t.marks[i].resume, t.marks[i].seq
		lastCommit = max(lastCommit, t.marks[i].commit)
	}
	return r, lastCommit, seq
}

// Advance forgets everything before message number seq, which Safe returned: its checkpoint is durable.
func (t *Tracker) Advance(seq uint64) {
	for t.head < len(t.marks) && t.marks[t.head].seq <= seq {
		m := &t.marks[t.head]
		t.resume, t.lastCommit = m.resume, max(t.lastCommit, m.commit)
		t.head++
	}
	t.first = max(t.first, seq)
	gone := 0
	for gone < len(t.chunks) && (t.base+uint64(gone)+1)*chunkSize <= t.first {
		t.free(&t.chunks[gone])
		gone++
	}
	t.base += uint64(gone)
	t.chunks = t.chunks[:copy(t.chunks, t.chunks[gone:])]
}

// Durable says that whatever is settled now will stay so. Only now can long runs of it be forgotten.
func (t *Tracker) Durable() {
	full := int(t.next/chunkSize - t.base)
	for i := range t.chunks[:min(full, len(t.chunks))] {
		if c := &t.chunks[i]; c.open == 0 {
			t.free(c)
		}
	}
}

// Whole is the name under which Above lists messages that are settled with all their parts.
const Whole = "*"

// Above lists what is settled from message number seq on: under Whole the ranges in which every message is settled, and
// under names[i] the ranges in which part i of every message is settled (or the message as a whole). A part that a
// message does not have counts as not settled: after a change of the routes it may have it. It also returns the number
// of ranges, and the number of the first message that is not settled.
func (t *Tracker) Above(seq uint64, names []string) (above map[string][]Range, ranges int, open uint64) {
	above = map[string][]Range{}
	if rs := t.whole(seq); len(rs) > 0 {
		above[Whole] = rs
		ranges = len(rs)
	}
	partial := t.partial(seq)
	for i, name := range names {
		bit := uint64(1) << i
		if partial&bit == 0 {
			continue
		}
		rs := t.settledPart(seq, bit)
		above[name] = rs
		ranges += len(rs)
	}
	return above, ranges, t.firstOpen()
}

// whole are the ranges of messages that are settled, from number seq on.
func (t *Tracker) whole(seq uint64) []Range {
	var rs []Range
	run := false
	add := func(first, last place) {
		if !run {
			rs = append(rs, Range{First: t.position(first)})
		}
		rs[len(rs)-1].Last = t.position(last)
		run = true
	}
	for seq < t.next {
		c := t.chunk(seq)
		if c.open == 0 {
			first := c.first
			if c.slots != nil {
				first = c.slots[seq%chunkSize].place
			}
			add(first, c.last)
			seq = (seq/chunkSize + 1) * chunkSize
			continue
		}
		if s := &c.slots[seq%chunkSize]; s.open == 0 {
			add(s.place, s.place)
		} else {
			run = false
		}
		seq++
	}
	return rs
}

// unsettled calls f for the messages that are not settled, from number seq on, in order.
func (t *Tracker) unsettled(seq uint64, f func(*slot)) {
	for seq < t.next {
		c := t.chunk(seq)
		if c.open == 0 {
			seq = (seq/chunkSize + 1) * chunkSize
			continue
		}
		if s := &c.slots[seq%chunkSize]; s.open != 0 {
			f(s)
		}
		seq++
	}
}

// partial are the parts that are settled of messages that are not.
func (t *Tracker) partial(seq uint64) uint64 {
	parts := uint64(0)
	t.unsettled(seq, func(s *slot) { parts |= s.need &^ s.open })
	return parts
}

// settledPart are the ranges in which a part of every message is settled, or the message; each begins and ends with a message
// that is not settled.
func (t *Tracker) settledPart(seq, bit uint64) []Range {
	var rs []Range
	run := false
	t.unsettled(seq, func(s *slot) {
		if s.need&^s.open&bit == 0 {
			run = false
			return
		}
		p := t.position(s.place)
		if !run {
			rs = append(rs, Range{First: p})
		}
		rs[len(rs)-1].Last = p
		run = true
	})
	return rs
}

func (t *Tracker) position(p place) outbox.Position {
	return outbox.Position{Log: t.log, Commit: p.commit, N: p.n}
}

// Covers reports whether ranges (ascending) hold a position.
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
