package stdout_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/stdout"
)

// screen is a writer that remembers, can be held up, and can fail after some bytes.
type screen struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
	room   int // bytes until err; ignored while err is nil
	err    error
	hold   chan struct{}
}

func (w *screen) Write(b []byte) (int, error) {
	w.mu.Lock()
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		<-hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.err != nil && len(b) > w.room {
		n := w.room
		w.room = 0
		w.text.Write(b[:n])
		return n, w.err
	}
	w.room -= len(b)
	return w.text.Write(b)
}

func (w *screen) set(room int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room, w.err = room, err
}

func (w *screen) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *screen) hang(testing.TB) (resume func()) {
	hold := make(chan struct{})
	w.mu.Lock()
	w.hold = hold
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.hold = nil
		w.mu.Unlock()
		close(hold)
	}
}

func newSink(t *testing.T, w io.Writer) *stdout.Sink {
	t.Helper()
	s, err := stdout.New(stdout.Config{Name: "out", Writer: w})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKit(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, sinktest.Harness{Want: sinktest.WantLine, New: func(t *testing.T) sinktest.Place {
		w := new(screen)
		return sinktest.Place{Sink: newSink(t, w), Topic: "orders", Hang: w.hang, Arrived: func(t testing.TB) []sinktest.Arrival {
			as, err := sinktest.ReadLines([]byte(w.String()))
			if err != nil {
				t.Fatal(err)
			}
			return as
		}}
	}})
}

func deliveries(n int) []*sink.Delivery {
	ds := make([]*sink.Delivery, n)
	for i := range ds {
		ds[i] = &sink.Delivery{Message: &outbox.Message{ID: fmt.Sprint(i), Group: "g"}, Value: []byte("{}"), Attempt: 1}
	}
	return ds
}

func TestOneWriteACall(t *testing.T) {
	t.Parallel()
	w := new(screen)
	newSink(t, w).Deliver(t.Context(), deliveries(100))
	if w.writes != 1 {
		t.Errorf("%d writes, want 1", w.writes)
	}
	if got := strings.Count(w.String(), "\n"); got != 100 {
		t.Errorf("%d lines, want 100", got)
	}
}

// TestPartialWrite fails each write at each possible byte, and sends again what was not delivered.
func TestPartialWrite(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.ENOSPC, syscall.EPIPE} {
		for room := range 400 {
			w := new(screen)
			s := newSink(t, w)
			ds := deliveries(3)
			w.set(room, cause)
			delivered := 0
			for round := 0; delivered < len(ds); round++ {
				answers := s.Deliver(t.Context(), ds[delivered:])
				for _, err := range answers {
					if err == nil {
						delivered++
					} else if class, _, _ := sink.Classify(err); class != sink.ClassMisconfigured {
						t.Fatalf("class %v of %v", class, err)
					}
				}
				if answers == nil {
					delivered = len(ds)
				}
				if round == 0 {
					// Room for the line break that ends the torn line, and no more.
					w.set(1, cause)
				} else {
					w.set(0, nil)
				}
			}
			for i := range ds {
				if whole := fmt.Sprintf("\n{\"id\":\"%d\",\"type\":\"\"", i); strings.Count("\n"+w.String(), whole) == 0 {
					t.Fatalf("room %d: line %d does not begin a line:\n%s", room, i, w.String())
				}
			}
			good := make(map[string]bool)
			for line := range strings.Lines(w.String()) {
				if sink.IsJSON([]byte(line)) {
					// A line that lacked nothing but its end is good twice.
					good[line] = true
				} else if strings.Count(line, `{"id"`) > 1 {
					t.Fatalf("room %d: a torn line spoils another one: %s", room, line)
				}
			}
			if len(good) != len(ds) {
				t.Fatalf("room %d: %d good lines, want %d:\n%s", room, len(good), len(ds), w.String())
			}
		}
	}
}

func TestCloseWhileHeldUp(t *testing.T) {
	t.Parallel()
	w := new(screen)
	s := newSink(t, w)
	resume := w.hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Deliver(ctx, deliveries(1))[0]; err == nil {
		t.Error("a write that is held up delivered")
	}
	if err := s.Close(ctx); err == nil {
		t.Error("Close ended before the write did")
	}
	resume()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if _, err := stdout.New(stdout.Config{}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("no name: %v", err)
	}
}

func BenchmarkDeliver(b *testing.B) {
	s, err := stdout.New(stdout.Config{Name: "out", Writer: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	ds := deliveries(100)
	b.ReportAllocs()
	for b.Loop() {
		s.Deliver(b.Context(), ds)
	}
}
