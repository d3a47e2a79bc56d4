package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A reader is a Run in the background. It looks at every batch for what the contract promises of all of them.
type reader struct {
	r       *rig
	start   source.Start
	cancel  context.CancelFunc
	batches chan *source.Batch
	done    chan error
	err     error // what Run returned, once ended
	ended   bool

	// last is the last message's position, and ended whether a transaction's end was announced after it.
	last    outbox.Position
	any     bool
	resumed bool
	// seen are the messages, with what they were when they came: a message never changes.
	seen []kept
}

type kept struct {
	m    *outbox.Message
	text string
}

// batchBytes and batchMessages are generous bounds of a batch: the contract says about 256 KiB.
const batchBytes = 512 << 10

// read starts a Run of the rig's source. Nobody else may be reading.
func (r *rig) read(start source.Start) *reader { return r.readWith(r.src, start) }

func (r *rig) readWith(src source.Source, start source.Start) *reader {
	ctx, cancel := context.WithCancel(r.ctx)
	x := &reader{r: r, start: start, cancel: cancel, batches: make(chan *source.Batch), done: make(chan error, 1)}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		begun := 0
		start.Reading = func() { begun++ }
		x.done <- src.Run(ctx, start, func(ctx context.Context, b *source.Batch) error {
			if begun != 1 {
				return fmt.Errorf("that reading has begun was told %d times before the first batch", begun)
			}
			select {
			case x.batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	r.t.Cleanup(func() {
		cancel()
		select {
		case <-finished:
		case <-time.After(patience):
			r.t.Errorf("Run did not return in %v after its context had ended", patience)
		}
		x.unchanged()
	})
	return x
}

// next waits for a batch.
func (x *reader) next(what string) *source.Batch {
	x.r.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case b := <-x.batches:
			x.check(b)
			return b
		case err := <-x.done:
			x.ended, x.err = true, err
			x.r.t.Fatalf("waited for: %s; Run ended: %v", what, err)
		case <-limit:
			x.r.t.Fatalf("waited %v for: %s", patience, what)
		case <-time.After(time.Until(x.r.pinged.Add(pingEvery))):
			x.r.ping()
		}
	}
}

// check holds what is promised of every batch.
func (x *reader) check(b *source.Batch) {
	x.r.t.Helper()
	fail := x.r.t.Errorf
	marks := map[int]bool{0: x.resumed}
	last := 0
	for _, m := range b.Marks {
		if m.N <= last || m.N > len(b.Messages) || m.Resume == "" {
			fail("mark %+v after %d in a batch of %d messages", m, last, len(b.Messages))
		}
		last = m.N
		marks[m.N] = true
	}
	bytes := 0
	for i, m := range b.Messages {
		bytes += len(m.Payload)
		if m.Position.Log != x.start.Log {
			fail("message %s has position %s, want log %d", m.ID, m.Position, x.start.Log)
		}
		if m.Position.Commit == 0 {
			fail("message %s has position %s: commit 0 is a sweep's", m.ID, m.Position)
		}
		if before := x.start.LastCommit; m.Position.Commit < before || m.Position.Commit == before && !x.r.k.ResumeInside {
			fail("message %s has position %s, and the checkpoint covers commit %x", m.ID, m.Position, before)
		}
		if x.any && x.last.Compare(m.Position) >= 0 {
			fail("position %s comes after %s", m.Position, x.last)
		}
		if x.any && marks[i] && x.last.Commit == m.Position.Commit && !x.r.k.ResumeInside {
			fail("position %s comes after a place to resume in the same transaction", m.Position)
		}
		if ago := time.Since(m.CommitTime).Abs(); ago > time.Hour {
			fail("message %s has commit time %s, want about now", m.ID, m.CommitTime)
		}
		x.last, x.any = m.Position, true
		x.seen = append(x.seen, kept{m, describe(m)})
	}
	if len(b.Messages) > 1 && bytes > batchBytes {
		fail("a batch of %d messages and %d bytes of payload", len(b.Messages), bytes)
	}
	if len(b.Messages) > 0 {
		x.resumed = false
	}
	if b.Resume != "" {
		x.resumed = true
	}
	if b.Barrier != "" && len(b.Messages) > 0 {
		fail("a barrier with %d messages", len(b.Messages))
	}
	if len(b.Messages) == 0 && b.Barrier == "" && b.Resume == "" {
		fail("a batch of nothing")
	}
	if b.ParkedAt != nil {
		fail("a batch of the log with ParkedAt")
	}
}

// describe shows all of a message.
func describe(m *outbox.Message) string {
	text := fmt.Sprintf("%+v", *m)
	for _, h := range m.Headers {
		if h.Value == nil {
			text += " no value: " + h.Name
		}
	}
	if m.Fault != nil {
		text += fmt.Sprintf(" %+v", *m.Fault)
	}
	return text
}

// unchanged holds that no message that was emitted changed since.
func (x *reader) unchanged() {
	x.r.t.Helper()
	for _, k := range x.seen {
		if now := describe(k.m); now != k.text {
			x.r.t.Errorf("a message changed after it was emitted:\nwas %.1000s\nis  %.1000s", k.text, now)
			return
		}
	}
}

// messages waits for n messages, and for a place to resume after them.
func (x *reader) messages(n int) (ms []*outbox.Message, resume source.Resume) {
	x.r.t.Helper()
	for {
		b := x.next(fmt.Sprintf("%d messages and the end of their transaction; %d came: %.500s", n, len(ms), ids(ms)))
		ms = append(ms, b.Messages...)
		if len(ms) > n {
			x.r.t.Fatalf("got %d messages, want %d: %.2000s", len(ms), n, ids(ms))
		}
		if len(ms) == n && b.Resume != "" {
			return ms, b.Resume
		}
	}
}

// stop ends Run as the relay does.
func (x *reader) stop() {
	x.r.t.Helper()
	x.cancel()
	if err := x.wait(); err != nil {
		x.r.t.Fatalf("Run returned %v after its context had ended, want nil", err)
	}
}

// wait returns what Run returned. Batches that come until then are dropped.
func (x *reader) wait() error {
	x.r.t.Helper()
	if x.ended {
		return x.err
	}
	limit := time.After(patience)
	for {
		select {
		case x.err = <-x.done:
			x.ended = true
			return x.err
		case b := <-x.batches:
			x.check(b)
		case <-limit:
			x.r.t.Fatalf("waited %v for: the end of Run", patience)
		}
	}
}

// fails waits for the end of Run and looks at its error.
func (x *reader) fails(target error) {
	x.r.t.Helper()
	if err := x.wait(); !errors.Is(err, target) {
		x.r.t.Fatalf("Run ended with %v, want %v", err, target)
	}
}
