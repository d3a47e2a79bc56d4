package batches

import (
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/arena"
)

func filled(f *Filler, n, bytes int) {
	for range n {
		f.Add(&outbox.Message{}, bytes)
	}
}

// A large message is freed with its values, though a message beside it is kept.
func TestLargeMessageGoesAlone(t *testing.T) {
	t.Parallel()
	a, f := &arena.Arena{}, &Filler{}
	small, large := a.NewMessage(), a.NewMessage()
	large.Headers, large.Fields = a.HeaderList([]outbox.Header{{Name: "large", Value: make([]byte, 1<<20)}}), a.FieldList(1)
	large.Payload = make([]byte, 1<<20)
	payload := weak.Make(&large.Payload[0])
	f.Add(small, 1)
	f.Add(large, 2<<20)
	b := f.Take(a, 2)
	if got := b.Messages[1]; len(got.Payload) != 1<<20 || len(got.Headers) != 1 || len(got.Headers[0].Value) != 1<<20 || len(got.Fields) != 1 {
		t.Errorf("the large message lost a part: %d bytes, %d headers, %d fields", len(got.Payload), len(got.Headers), len(got.Fields))
	}
	b = nil
	runtime.GC()
	if payload.Value() != nil {
		t.Error("the large payload is kept")
	}
	runtime.KeepAlive(small)
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

func TestFillerLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, bytes     int
		enough, full bool
	}{{0, 0, false, false}, {895, 1, false, false}, {896, 1, true, false}, {1023, 1, true, false}, {1024, 1, true, true}, {1, 224 << 10, true, false},
		{1, 256 << 10, true, true}, {1, 256<<10 - 1, true, false}} {
		f := &Filler{}
		filled(f, c.n, c.bytes)
		if f.Enough() != c.enough || f.Full() != c.full {
			t.Errorf("%d messages of %d bytes: enough %v, full %v", c.n, c.bytes, f.Enough(), f.Full())
		}
	}
	f := &Filler{}
	filled(f, 2, 100<<10)
	if !f.Fits(56<<10) || f.Fits(56<<10+1) {
		t.Error("what fits is not what there is room for")
	}
	if !new(Filler).Fits(1 << 30) {
		t.Error("the first message does not fit")
	}
}

// A batch has what comes before a place and all marks; what is behind it stays for the next one.
func TestFillerTake(t *testing.T) {
	t.Parallel()
	var a arena.Arena
	f := &Filler{}
	filled(f, 2, 10)
	f.Mark("old")
	f.Mark("a") // in its place
	filled(f, 3, 10)
	if f.Unmarked() != 3 {
		t.Errorf("%d messages behind the mark", f.Unmarked())
	}
	last := f.messages[4]
	b := f.Take(&a, 4)
	if len(b.Messages) != 4 || len(b.Marks) != 1 || b.Marks[0] != (source.Mark{N: 2, Resume: "a"}) || b.Resume != "" {
		t.Errorf("took %d messages, marks %v, resume %q", len(b.Messages), b.Marks, b.Resume)
	}
	if f.Len() != 1 || f.messages[0] != last || f.Unmarked() != 1 {
		t.Errorf("%d messages are left", f.Len())
	}
	for _, m := range f.messages[:cap(f.messages)][1:5] {
		if m != nil {
			t.Error("a message that was emitted is kept alive")
		}
	}
	filled(f, 2, 10)
	f.Cut(1)
	f.Cut(7) // beyond the end
	if f.Len() != 1 || f.messages[0] != last {
		t.Errorf("%d messages are left behind a rollback", f.Len())
	}
	if b := f.Take(&a, 0); b.Messages != nil || f.Len() != 1 {
		t.Error("something was taken for nothing")
	}
}

func TestBarriers(t *testing.T) {
	t.Parallel()
	var b Barriers
	if b.Waiting() {
		t.Error("somebody waits")
	}
	b.Add("ten", 10, nil)
	b.Add("five", 5, nil)
	for _, want := range []struct {
		at   uint64
		text string
	}{{4, ""}, {5, "five"}, {9, ""}, {10, "ten"}, {99, ""}} {
		if text, ok, err := b.passed(want.at); text != want.text || ok != (text != "") || err != nil {
			t.Errorf("at %d: %q %v %v", want.at, text, ok, err)
		}
	}
	bad := errors.New("no position")
	b.Add("what", 0, bad)
	if _, ok, err := b.passed(0); ok || !errors.Is(err, bad) || !b.Waiting() {
		t.Errorf("a barrier that cannot be read: %v, %v", ok, err)
	}
	b.Forget()
	if _, ok, err := b.passed(99); ok || err != nil || b.Waiting() {
		t.Errorf("after all were forgotten: %v, %v", ok, err)
	}
}
