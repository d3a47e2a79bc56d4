package sourcetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// testAddColumn: a migration that adds a column disturbs neither the reader nor the store.
func testAddColumn(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	x := r.read(source.Start{From: r.establish()})
	var ms []*outbox.Message
	for i := range 3 {
		r.insert(row(2*i, "g"))
		if i == 1 { // unread rows of the old form are in the log, too
			r.insert(row(100, "g"))
		}
		r.must(k.AddColumn(r.ctx, r.db, r.tables[0], fmt.Sprintf("extra%d", i)), "add column")
		r.insert(row(2*i+1, "g"))
		got, _ := x.messages(2 + i%2)
		ms = append(ms, got...)
		for _, m := range got {
			r.untilVisible(m)
		}
	}
	equal(t, "messages", ids(ms), "0 1 2 100 3 4 5")
	r.compare("the log", []*outbox.Message{row(0, "g"), row(1, "g"), row(2, "g"), row(100, "g"), row(3, "g"), row(4, "g"), row(5, "g")}, ms)
	x.stop()
}

// testExamine: a source knows its own server and its own positions, and says no word of others.
func testExamine(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	examine := func(src source.Source, id string, from source.Resume) *source.Examined {
		t.Helper()
		e, err := src.Examine(r.ctx, id, from)
		r.must(err, "examine")
		return e
	}
	own := examine(r.src, "", "")
	if own.SourceID == "" || own.Lost != "" || own.Moved {
		t.Errorf("examined without a position: %+v", *own)
	}
	from := r.establish()
	for range 2 {
		if e := examine(r.db.Source(), own.SourceID, from); e.SourceID != own.SourceID || e.Lost != "" || e.Moved {
			t.Errorf("examined %s: %+v, want the same server and nothing lost", from, *e)
		}
		r.insert(row(1, "g"))
		x := r.read(source.Start{From: from})
		_, from = x.messages(1)
		r.src.Confirm(from)
		x.stop()
		r.must(r.app.Delete(r.ctx, r.tables[0], EventID(1)), "delete")
	}
	if e := examine(r.src, "another server", from); e.Lost == "" || e.SourceID != own.SourceID {
		t.Errorf("examined a position of another server: %+v, want it lost", *e)
	}
	if e, err := r.src.Examine(r.ctx, own.SourceID, "no place in any log"); err == nil && e.Lost == "" {
		t.Errorf("examined a position that is none: %+v", *e)
	}
	x := r.read(source.Start{From: "no place in any log"})
	if err := x.wait(); err == nil || len(x.seen) > 0 {
		t.Errorf("Run from a position that is none: %v after %d messages, want an error", err, len(x.seen))
	}
}

// testGap: a position that cannot be read any more is told as such, by Examine and by Run, and never passed over in
// silence; a new position and its sweep heal it.
func testGap(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}, Own: true})
	own, err := r.src.Examine(r.ctx, "", "")
	r.must(err, "examine")
	from := r.establish()
	r.insert(row(1, "g"))
	x := r.read(source.Start{From: from})
	ms, resume := x.messages(1)
	x.stop()
	r.untilVisible(ms[0])
	r.insert(row(2, "g")) // never read
	r.must(k.Gap(r.ctx, r.db), "make a gap")
	for _, at := range []source.Resume{from, resume} {
		e, err := r.src.Examine(r.ctx, own.SourceID, at)
		r.must(err, "examine")
		if e.Lost == "" {
			t.Errorf("examined a position that is lost: %+v", *e)
		}
		x := r.read(source.Start{From: at})
		x.fails(source.ErrGap)
		if len(x.seen) > 0 {
			t.Errorf("a lost position emitted %d messages", len(x.seen))
		}
	}
	r.insert(row(3, "g"))
	snap, sweep := r.judge(false)
	if !sweep {
		t.Fatal("Judge finds nothing to sweep")
	}
	swept, _ := r.pending(snap, 2)
	r.must(snap.Close(r.ctx), "close snapshot")
	equal(t, "swept", len(swept), 2)
	r.insert(row(4, "g"))
	ms, _ = r.read(source.Start{From: snap.Resume(), Log: 2}).messages(1)
	equal(t, "after the new position", ids(ms), "4")
}

// testCut: a connection that ends while messages flow ends Run with an error that another Run heals. Nothing is
// missing, and what comes twice has the same positions.
func testCut(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}, Cut: true})
	from := r.establish()
	const total, chunk = 6000, 500
	r.must(r.app.Begin(r.ctx), "begin")
	for i := range total / chunk {
		if i%4 == 3 {
			r.must(r.app.Commit(r.ctx), "commit")
			r.must(r.app.Begin(r.ctx), "begin")
		}
		ms := rows(i*chunk, chunk, "g")
		for _, m := range ms {
			m.Payload = make([]byte, 1000)
		}
		r.insert(ms...)
	}
	r.must(r.app.Commit(r.ctx), "commit")
	r.throughFaults(from, total, 3, func() error { return k.Cut(r.ctx, r.db) })
}

// testRestart: the same, with the server.
func testRestart(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}, Own: true})
	from := r.establish()
	r.must(r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: from, Log: 1}), "save")
	const total, chunk = 3000, 500
	for i := range total / chunk {
		r.insert(rows(i*chunk, chunk, "g")...)
	}
	r.throughFaults(from, total, 1, func() error { return k.Restart(r.ctx, r.db) })
	// The lock may outlive the restart. Then it is still a lock.
	if _, err := r.st.Ping(r.ctx); errors.Is(err, source.ErrStop) {
		t.Errorf("ping of a session of before the restart: %v, want none or an error that is none of the operator's", err)
	} else if err == nil {
		if _, err := r.db.Store(r.ctx); !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("a second store beside one that outlived the restart: %v, want ErrLocked", err)
		}
	}
	_ = r.st.Close(r.ctx)
	equal(t, "checkpoint", r.takeOver().Checkpoint.Resume, from)
}

// throughFaults reads total messages with faults in between, each time from the last place to resume, as the relay does.
func (r *rig) throughFaults(from source.Resume, total, faults int, fault func() error) {
	r.t.Helper()
	p := &progress{r: r, resume: from, at: map[string]outbox.Position{}}
	made := 0
	for p.safe < total {
		x := r.read(source.Start{From: p.resume, Log: 1, LastCommit: p.last})
		p.next = p.safe
		for p.safe < total && !x.ended {
			b := r.nextThrough(x, made > 0)
			if b == nil {
				break
			}
			p.take(b)
			if made < faults && p.next >= (made+1)*total/(faults+2) {
				made++
				r.duringFault(x, p, fault)
			}
		}
		if !x.ended {
			x.stop()
		}
	}
	equal(r.t, "faults", made, faults)
}

// nextThrough waits for a batch. If a driver reads on by itself, it may take until after a fault to find that it cannot: nil then.
func (r *rig) nextThrough(x *reader, faulty bool) *source.Batch {
	r.t.Helper()
	if !faulty || !r.k.ReadsOn {
		return x.next("messages between faults")
	}
	select {
	case b := <-x.batches:
		x.check(b)
		return b
	case err := <-x.done:
		x.ended, x.err = true, err
		r.heals(err)
	case <-time.After(patience):
		r.t.Fatalf("waited %v for: messages after a fault", patience)
	}
	return nil
}

// heals wants an error of Run that another Run heals.
func (r *rig) heals(err error) {
	r.t.Helper()
	if err == nil || errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
		r.t.Fatalf("a connection that ended made Run return %v, want an error that is neither ErrGap nor ErrStop", err)
	}
}

// duringFault makes a fault while batches are taken, for a server that stops may wait for its reader. Run ends with
// an error that another Run heals, unless the kind's driver reads on.
func (r *rig) duringFault(x *reader, p *progress, fault func() error) {
	r.t.Helper()
	made := make(chan error, 1)
	go func() { made <- fault() }()
	limit := time.After(patience)
	for over := false; !over || !x.ended && !r.k.ReadsOn; {
		select {
		case err := <-made:
			r.must(err, "make a fault")
			over, made = true, nil
		case b := <-x.batches:
			x.check(b)
			p.take(b)
		case err := <-x.done:
			x.ended, x.err = true, err
			r.heals(err)
		case <-limit:
			r.t.Fatalf("waited %v for: the fault (made: %v), and the end of Run after it (ended: %v)", patience, over, x.ended)
		}
	}
}

// A progress is how far messages 0, 1, … were read.
type progress struct {
	r      *rig
	at     map[string]outbox.Position // of all that was read so far
	next   int
	safe   int // the messages at or before resume
	resume source.Resume
	last   uint64
}

// take takes a batch, which goes on with the next message.
func (p *progress) take(b *source.Batch) {
	p.r.t.Helper()
	for _, m := range b.Messages {
		if m.ID != EventID(p.next) {
			p.r.t.Fatalf("message %d is %s", p.next, Short(m.ID))
		}
		if at, ok := p.at[m.ID]; ok && at != m.Position {
			p.r.t.Fatalf("message %s has position %s, and had %s", Short(m.ID), m.Position, at)
		}
		p.at[m.ID] = m.Position
		p.next++
	}
	if b.Resume != "" {
		p.resume, p.safe = b.Resume, p.next
		if p.next > 0 {
			p.last = p.at[EventID(p.next-1)].Commit
		}
	}
}

// testTakeOver: a second reader of the pipeline gets everything from its position on, whatever the first one is doing;
// and that one does not take it for a gap.
func testTakeOver(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	r.insert(rows(0, 10, "g")...)
	old := r.read(source.Start{From: from})
	was, _ := old.messages(10)
	is, _ := r.readWith(r.db.Source(), source.Start{From: from}).messages(10)
	same(t, was, is)
	old.cancel()
	if err := old.wait(); errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
		t.Errorf("the old reader ended with %v", err)
	}
}

// testDropTable: a table that is gone stops the next start with a word for the operator, instead of waiting for its rows
// for ever; so does a store.
func testDropTable(t *testing.T, k Kind) {
	tables := []Table{table("tailbox", "outbox"), table("debezium", "second")}
	if k.Polls {
		tables = tables[1:]
	}
	r := newRig(t, k, Setup{Tables: tables})
	from := r.establish()
	r.insert(row(1, "g"))
	x := r.read(source.Start{From: from})
	_, resume := x.messages(1)
	x.stop()
	r.must(k.DropTable(r.ctx, r.db, r.tables[len(tables)-1]), "drop table")
	x = r.read(source.Start{From: resume})
	if err := x.wait(); !errors.Is(err, source.ErrNoTable) || !strings.Contains(err.Error(), "second") {
		t.Errorf("Run without a table returned %v, want ErrNoTable and the table's name", err)
	}
	if st, err := r.db.Store(r.ctx); !errors.Is(err, source.ErrNoTable) || st != nil || !strings.Contains(err.Error(), "second") {
		t.Errorf("a store without a table: %v, want ErrNoTable and the table's name", err)
	}
}

// testRecreatedTable: the table is dropped and made anew while the relay is down, with a row in the old one that was never read.
// What was in it may be read from the log; else reading stops with a word for the operator, or the position is lost and a sweep heals it. It
// is never passed over in silence, and neither is a row of the new table.
func testRecreatedTable(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	own, err := r.src.Examine(r.ctx, "", "")
	r.must(err, "examine")
	from := r.establish()
	r.insert(row(1, "g"))
	x := r.read(source.Start{From: from, Log: 1})
	ms, resume := x.messages(1)
	x.stop()
	r.insert(row(2, "g"))
	r.must(k.DropTable(r.ctx, r.db, r.tables[0]), "drop table")
	r.must(k.CreateTable(r.ctx, r.db, r.tables[0]), "create table")
	r.insert(row(3, "g"))
	r.src = r.db.Source()
	x = r.read(source.Start{From: resume, Log: 1, LastCommit: ms[0].Position.Commit})
	for len(x.seen) < 2 && !x.ended {
		select {
		case b := <-x.batches:
			x.check(b)
			if b.Resume != "" {
				resume = b.Resume
				r.src.Confirm(resume)
			}
		case x.err = <-x.done:
			x.ended = true
		case <-time.After(patience):
			t.Fatalf("neither the rows nor an error came, but %d messages: they are passed over in silence", len(x.seen))
		}
	}
	var seen []*outbox.Message
	for _, s := range x.seen {
		seen = append(seen, s.m)
	}
	switch {
	case !x.ended:
		equal(t, "messages", ids(seen), "2 3")
	case errors.Is(x.err, source.ErrGap):
		found, err := r.src.Examine(r.ctx, own.SourceID, resume)
		r.must(err, "examine")
		if found.Lost == "" {
			t.Errorf("Run returned %v, and Examine does not tell", x.err)
		}
		snap, sweep := r.judge(false)
		swept, _ := r.pending(snap, 2)
		if !sweep || ids(swept) != "3" {
			t.Errorf("swept %s, want 3", ids(swept))
		}
	case errors.Is(x.err, source.ErrStop) && strings.Contains(x.err.Error(), r.tables[0].Name):
	default:
		t.Errorf("Run returned %v after %s, want ErrStop with the table's name, or ErrGap", x.err, ids(seen))
	}
	if ids(seen) == "3" {
		t.Error("row 2 was passed over")
	}
}

// testEndedContext: no method hangs where its context has ended.
func testEndedContext(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	ctx, cancel := r.endedContext()
	defer cancel()
	if _, err := r.src.Establish(ctx); err == nil {
		t.Error("Establish succeeded with a context that had ended")
	}
	if _, err := r.src.Examine(ctx, "", from); err == nil {
		t.Error("Examine succeeded with a context that had ended")
	}
	if err := r.src.Run(ctx, source.Start{From: from}, nil); err != nil {
		t.Errorf("Run returned %v with a context that had ended, want nil", err)
	}
	if st, err := r.db.Store(ctx); err == nil || st != nil {
		t.Error("a store opened with a context that had ended")
	}
}
