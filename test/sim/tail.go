package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// errCut is a connection that went away.
var errCut = errors.New("connection reset by peer")

// tail is a source.Source over the model of a server.
type tail struct {
	inst *instance
	// Guarded by World.mu: what was asked for.
	awaited []string

	// The scheduler's.
	cut     bool
	passed  []string // barriers that were read already
	next    int      // index of the log entry to read next
	within  int      // messages of it that were read
	read    uint64   // the log's place up to which everything was emitted
	reading bool
}

func newTail(inst *instance) *tail { return &tail{inst: inst} }

func (t *tail) server() *server { return &t.inst.w.server }

// ended frees the slot of a process that is gone.
func (t *tail) ended() {
	t.reading = false
	if s := t.server().slot; s != nil && s.reader == t {
		s.reader = nil
	}
}

func (t *tail) name(what string) string { return fmt.Sprintf("relay %d source %s", t.inst.id, what) }

// Run reads the log.
func (t *tail) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	w := t.inst.w
	c := &call{inst: t.inst, label: t.name("run from " + string(start.From))}
	c.effect = func() { c.err = t.connect(start) }
	if err := w.do(ctx, c); err != nil {
		return stopped(ctx, err)
	}
	start.Begun()
	for {
		var b *source.Batch
		c := &call{inst: t.inst, label: t.name("read"), ready: func() bool { return t.cut || t.more(start.SafeMode != nil) }}
		c.effect = func() {
			if t.cut || w.faulty(1) {
				t.ended()
				c.err = errCut
				return
			}
			b = t.batch(start)
		}
		if err := w.do(ctx, c); err != nil {
			return stopped(ctx, err)
		}
		if start.SafeMode != nil && len(b.Messages) > 0 {
			if err := start.SafeMode(ctx, b.Messages[0].Position); err != nil {
				return err
			}
		}
		if err := emit(ctx, b); err != nil {
			return err
		}
	}
}

func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// connect begins to read at a place, as a server would: never below what was confirmed, and with one reader.
func (t *tail) connect(start source.Start) error {
	w, s := t.inst.w, t.server()
	if w.faulty(1) {
		return errCut
	}
	if s.slot == nil {
		return fmt.Errorf("slot does not exist: %w", source.ErrGap)
	}
	if s.slot.reader != nil && s.slot.reader != t {
		return errors.New("slot is active for another connection")
	}
	if start.From == "" || !s.resumes[start.From] {
		w.fail("R9", "reading starts at %q, which no driver made", start.From)
	}
	t.read = max(place(start.From), s.slot.confirmed)
	s.slot.reader, t.reading, t.cut = t, true, false
	t.next, t.within = 0, 0
	for t.next < len(s.log) && s.log[t.next].lsn <= t.read {
		t.next++
	}
	return nil
}

// more reports whether there is something to read.
func (t *tail) more(bool) bool {
	return t.reading && (t.next < len(t.server().log) || t.read < t.server().lsn || t.owed() >= 0)
}

// owed is the index of an awaited barrier that was passed already, or -1.
func (t *tail) owed() int {
	t.inst.w.mu.Lock()
	defer t.inst.w.mu.Unlock()
	return slices.IndexFunc(t.passed, func(b string) bool { return slices.Contains(t.awaited, b) })
}

// wants reports whether a barrier was asked for, and forgets it.
func (t *tail) wants(barrier string) bool {
	t.inst.w.mu.Lock()
	defer t.inst.w.mu.Unlock()
	i := slices.Index(t.awaited, barrier)
	if i >= 0 {
		t.awaited = slices.Delete(t.awaited, i, i+1)
	}
	return i >= 0
}

// batch reads a piece of the log.
func (t *tail) batch(start source.Start) *source.Batch {
	w, s := t.inst.w, t.server()
	if i := t.owed(); i >= 0 {
		b := &source.Batch{Barrier: t.passed[i]}
		t.wants(t.passed[i])
		t.passed = slices.Delete(t.passed, i, i+1)
		return b
	}
	b := &source.Batch{}
	most := 1 + w.rng.IntN(6)
	if start.SafeMode != nil {
		most = 1
	}
	for t.next < len(s.log) && len(b.Messages) < most {
		e := &s.log[t.next]
		if e.barrier != "" {
			if len(b.Messages) > 0 {
				break
			}
			t.next, t.read = t.next+1, e.lsn
			if t.wants(e.barrier) {
				return &source.Batch{Barrier: e.barrier}
			}
			t.passed = append(t.passed, e.barrier)
			continue
		}
		m := e.messages[t.within]
		at := outbox.Position{Log: start.Log, Commit: e.lsn, N: m.n}
		b.Messages = append(b.Messages, s.build(m, at, m.txn.xid))
		if t.within++; t.within < len(e.messages) {
			b.Resume = ""
			continue
		}
		t.next, t.within, t.read = t.next+1, 0, e.lsn
		b.Resume = s.resume(e.lsn)
		b.Marks = append(b.Marks, source.Mark{N: len(b.Messages), Resume: b.Resume})
	}
	if n := len(b.Marks); n > 0 && b.Marks[n-1].N == len(b.Messages) {
		b.Marks = b.Marks[:n-1] // the last one is Resume itself
	}
	if len(b.Messages) == 0 && t.next == len(s.log) {
		t.read = s.lsn
	}
	if len(b.Messages) == 0 {
		b.Resume = s.resume(t.read) // bare progress
	}
	b.CommitLag = int64(s.lsn - t.read)
	w.logf("emits %d messages, resume %q", len(b.Messages), b.Resume)
	return b
}

// Confirm tells the server what it may discard.
func (t *tail) Confirm(r source.Resume) {
	w := t.inst.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.inst.dead {
		return
	}
	durable := w.server.checkpoint // as it is now, not when the scheduler gets to it
	w.confirms = append(w.confirms, func() { w.server.confirm(t, r, durable) })
}

func (s *server) confirm(t *tail, r source.Resume, durable *checkpoint.Checkpoint) {
	s.w.logf("confirm %s", r)
	if r == "" {
		return
	}
	if !s.resumes[r] {
		s.w.fail("I3", "%q was confirmed, which no driver made", r)
	}
	if t.inst.session == nil || t.inst.session.dead {
		return // a zombie: its connection is gone with the slot's reader
	}
	if durable == nil || place(r) > place(durable.Resume) {
		s.w.fail("I3", "%s was confirmed, beyond the durable checkpoint", r)
	}
	if s.slot == nil || s.slot.reader != t {
		return
	}
	s.slot.confirmed = max(s.slot.confirmed, place(r))
	if s.w.rng.IntN(3) == 0 {
		s.slot.flushed = s.slot.confirmed
	}
}

// Await asks for a barrier.
func (t *tail) Await(barrier string) {
	w := t.inst.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t.awaited = append(t.awaited, barrier)
}

// Examine compares a checkpoint with the server.
func (t *tail) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	w, s := t.inst.w, t.server()
	var x *source.Examined
	c := &call{inst: t.inst, label: t.name("examine " + string(from))}
	c.effect = func() {
		if w.faulty(1) {
			c.err = errCut
			return
		}
		x = &source.Examined{SourceID: s.sourceID()}
		switch {
		case from == "":
		case s.slot == nil:
			x.Lost = "the slot does not exist"
		case s.slot.confirmed > place(from):
			x.Lost = "the slot is ahead of the checkpoint"
		case sourceID != x.SourceID:
			x.Moved, x.Shared = true, 1<<63 // what was committed stays
		}
	}
	if err := w.do(ctx, c); err != nil {
		return nil, err
	}
	return x, nil
}

// Establish makes a new slot, and a snapshot at its beginning.
func (t *tail) Establish(ctx context.Context) (source.Snapshot, error) {
	w, s := t.inst.w, t.server()
	var shot *snapshot
	c := &call{inst: t.inst, label: t.name("establish")}
	c.effect = func() {
		if w.faulty(1) {
			c.err = errCut
			return
		}
		s.cut()
		s.grow()
		s.slot = &slot{confirmed: s.lsn, flushed: s.lsn}
		shot = &snapshot{tail: t, at: s.lsn, resume: s.resume(s.lsn), parkedAt: map[*message][]string{}}
		for _, m := range s.w.messages {
			if m.pendingRow() {
				shot.rows = append(shot.rows, m)
				shot.parkedAt[m] = s.parkedAt(m)
			}
		}
		slices.SortFunc(shot.rows, func(a, b *message) int {
			if a.lsn != b.lsn {
				return int(a.lsn) - int(b.lsn)
			}
			return int(a.n) - int(b.n)
		})
		w.logf("established at %d with %d rows", s.lsn, len(shot.rows))
	}
	if err := w.do(ctx, c); err != nil {
		return nil, err
	}
	return shot, nil
}

// A snapshot is the state of the tables at a new position.
type snapshot struct {
	tail   *tail
	at     uint64
	resume source.Resume
	rows   []*message
	// parkedAt is where deliveries of the rows were parked then.
	parkedAt map[*message][]string
}

// Resume is the position.
func (x *snapshot) Resume() source.Resume { return x.resume }

// Judge reports whether there are rows to sweep. The first position is made with source.start: pending.
func (x *snapshot) Judge(ctx context.Context, known source.Known) (bool, error) {
	w := x.tail.inst.w
	var sweep bool
	c := &call{inst: x.tail.inst, label: x.tail.name("judge " + strconv.FormatBool(known.First))}
	c.effect = func() {
		if w.faulty(1) {
			c.err = errCut
			return
		}
		if cp := w.server.checkpoint; known.First && cp != nil && (cp.LastCommit > 0 || !cp.SweepPending) {
			w.fail("R8", "a later position is judged as the first")
		}
		if !known.First {
			x.rows = slices.DeleteFunc(x.rows, func(m *message) bool {
				if m.table.onDelivered == outbox.Keep && !known.AcceptGap && c.err == nil {
					c.err = fmt.Errorf("table %s: %w", m.table.name, source.ErrUnjudged)
				}
				return m.table.onDelivered == outbox.Keep
			})
		}
		sweep = len(x.rows) > 0
		if c.err == nil {
			w.leftBehind(x)
		}
	}
	if err := w.do(ctx, c); err != nil {
		return false, err
	}
	return sweep, nil
}

// Pending emits the rows, oldest commit first.
func (x *snapshot) Pending(ctx context.Context, log uint32, emit source.Emit) error {
	w, s := x.tail.inst.w, x.tail.server()
	for i := 0; i < len(x.rows); {
		b := &source.Batch{}
		c := &call{inst: x.tail.inst, label: x.tail.name("sweep " + strconv.Itoa(i))}
		c.effect = func() {
			if w.faulty(1) {
				c.err = errCut
				return
			}
			for most := 1 + w.rng.IntN(5); i < len(x.rows) && most > 0; i++ {
				m := x.rows[i]
				var xid uint64
				if !m.txn.visible {
					xid = m.txn.xid
				}
				om := s.build(m, outbox.Position{Log: log, N: uint32(i)}, xid)
				om.CommitTime = time.Now()
				b.Messages = append(b.Messages, om)
				b.ParkedAt = append(b.ParkedAt, x.parkedAt[m])
				most--
			}
		}
		if err := w.do(ctx, c); err != nil {
			return err
		}
		if err := emit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the snapshot.
func (x *snapshot) Close(context.Context) error { return nil }
