package sinktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// testEndedContext delivers with a context that has ended: whatever is answered with nil must have arrived.
func testEndedContext(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ds := lane(p, "ended", 3)
	returns(t, func() {
		failed := Send(ctx, t, p.Sink, ds)
		for _, err := range failed {
			if class, _, _ := sink.Classify(err); class == sink.ClassPermanent || class == sink.ClassMisconfigured {
				t.Errorf("an ended context was answered as %v: %v", class, err)
			}
		}
		if len(failed) == 0 {
			inOrder(t, h, p, ds, false)
		}
	})
	deliverAll(t, p, ds)
	inOrder(t, h, p, ds, true)
}

// testHang ends the context while the server does not answer.
func testHang(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	if p.Hang == nil {
		t.Skip("this kind cannot hang")
	}
	deliverAll(t, p, lane(p, "before", 1))
	resume := p.Hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	ds := lane(p, "hang", 2)
	returns(t, func() {
		for _, err := range Call(ctx, t, p.Sink, ds[:1]) {
			if err == nil {
				t.Error("a server that does not answer delivered")
			}
			if class, _, _ := sink.Classify(err); class != sink.ClassUnavailable && class != sink.ClassUnreachable && class != sink.ClassNotAttempted {
				t.Errorf("a server that does not answer was answered as %v: %v", class, err)
			}
		}
	})
	resume()
	Eventually(t, "deliveries after the server answers again", func() bool {
		return len(Send(t.Context(), t, p.Sink, ds)) == 0
	})
	inOrder(t, h, p, ds, true)
}

// testRestart stops the server: that is unreachable, for whoever was connected before and whoever was not.
func testRestart(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	if p.Stop == nil {
		t.Skip("this kind has no server")
	}
	ds := lane(p, "restart", 20)
	deliverAll(t, p, ds[:5])
	p.Stop(t)
	for range 3 {
		Eventually(t, "the sink to find its server unreachable", func() bool {
			for _, err := range Call(t.Context(), t, p.Sink, ds[5:6]) {
				switch class, _, _ := sink.Classify(err); {
				case err == nil:
					t.Fatal("a server that is down delivered")
				case class == sink.ClassUnreachable:
					return true
				case class == sink.ClassPermanent || class == sink.ClassMisconfigured:
					t.Fatalf("a server that is down was answered as %v: %v", class, err)
				}
			}
			return false
		})
	}
	p.Start(t)
	Eventually(t, "deliveries after the server is back", func() bool {
		return len(Send(t.Context(), t, p.Sink, ds[5:6])) == 0
	})
	deliverAll(t, p, ds[6:])
	inOrder(t, h, p, ds, true)
}

// testStopInTheMiddle stops the server while deliveries flow, and sends again what was not delivered, as the relay does:
// nothing is lost, and no message overtakes another one of its group.
func testStopInTheMiddle(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	if p.Stop == nil {
		t.Skip("this kind has no server")
	}
	const length = 2000
	ds := lane(p, "middle", length)
	stopped := make(chan struct{})
	halfway := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(stopped)
		<-halfway
		p.Stop(t)
		p.Start(t)
	}()
	defer func() { // also when the test has failed: the place's own failures belong to it
		once.Do(func() { close(halfway) })
		<-stopped
	}()
	run := max(1, min(p.Sink.Limits().Run, 50))
	deadline := time.Now().Add(patience)
	for done := 0; done < length; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d deliveries in %v", done, length, patience)
		}
		next := ds[done:min(done+run, length)]
		failed := Send(t.Context(), t, p.Sink, next)
		for _, d := range next {
			if failed[d] == nil {
				done++
			}
		}
		if done >= length/4 {
			once.Do(func() { close(halfway) })
		}
	}
	<-stopped
	inOrder(t, h, p, ds, true)
}

func testClose(t *testing.T, h Harness) {
	p := h.New(t)
	deliverAll(t, p, lane(p, "close", 1))
	closeSink(t, p.Sink)
	closeSink(t, p.Sink)
}

// returns fails the test when f does not return within a time that is far above what an ended context may take, and
// far below any timeout of the sinks.
func returns(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Deliver did not return after its context had ended")
	}
}
