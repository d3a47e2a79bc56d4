package lane

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
)

var now0 = time.Unix(1000, 0)

// TestRecoverAll: what waits in each destination that fails goes on when an operator resumes the sink; or, if the sink could not be
// reached, in each that could not be reached either.
func TestRecoverAll(t *testing.T) {
	t.Parallel()
	s := NewSink("out", 1, &anywhere{}, 1<<20)
	fail := func(partition int32, class sink.Class) {
		q := s.DestinationOf(sink.Destination{Name: "topic", Partition: partition})
		q.Ready = append(q.Ready, NewLane(s, ""))
		for range breakerCalls {
			if q.Breaker.Failed(now0, &Lane{}, true, true, class, "no") {
				s.Failing++
			}
		}
	}
	fail(0, sink.ClassUnreachable)
	fail(1, sink.ClassMisconfigured)
	fail(2, sink.ClassUnreachable)
	s.RecoverAll(func(b *Breaker) bool { return b.Class == sink.ClassUnreachable })
	if s.Failing != 1 || !s.Fails() || s.Condition(now0) != SinkFailing {
		t.Errorf("%d destinations fail, want the one that is misconfigured", s.Failing)
	}
	s.RecoverAll(func(*Breaker) bool { return true })
	if s.Failing != 0 || s.Fails() || s.Condition(now0) != SinkOpen || s.RunQueue.Len() != 3 {
		t.Errorf("%d destinations fail and %d are in turn, want none and 3", s.Failing, s.RunQueue.Len())
	}
}

// TestDestinationsAreForgotten: messages that choose any number of destinations leave nothing behind once nothing is in flight.
func TestDestinationsAreForgotten(t *testing.T) {
	t.Parallel()
	const used = 3000 // more than may be idle
	s := NewSink("out", 1, &discard.Sink{}, 1<<20)
	at := func(i int) sink.Destination { return sink.Destination{Name: fmt.Sprint("topic ", i)} }
	var flying, waiting, listed []*Destination
	for i := range used / 3 {
		q := s.DestinationOf(at(3 * i))
		q.Inflight++
		flying = append(flying, q)
		q = s.DestinationOf(at(3*i + 1))
		q.Ready = append(q.Ready, NewLane(s, ""))
		waiting = append(waiting, q)
		q = s.DestinationOf(at(3*i + 2))
		q.Listed = true
		listed = append(listed, q)
	}
	for i := range 100_000 {
		s.DestinationOf(at(used + i))
		if len(s.All) != len(s.dests) || len(s.All) > 2*used+mostDestinations {
			t.Fatalf("%d destinations, and %d in order, after %d that were used for a moment", len(s.dests), len(s.All), i)
		}
	}
	for kind, qs := range [][]*Destination{flying, waiting, listed} {
		for i, q := range qs {
			if s.DestinationOf(at(3*i+kind)) != q {
				t.Fatalf("destination %d was forgotten though it is in use", 3*i+kind)
			}
			q.Inflight, q.Ready, q.Listed = 0, nil, false
		}
	}
	for i := range 10 * used {
		s.DestinationOf(at(-i))
	}
	if len(s.All) > mostDestinations {
		t.Errorf("%d destinations though nothing is in flight, want at most %d", len(s.All), mostDestinations)
	}
}

// The destination's name does not keep the memory of the batch that brought it.
func TestDestinationNameIsItsOwn(t *testing.T) {
	t.Parallel()
	s := NewSink("out", 1, &discard.Sink{}, 1<<20)
	arena := []byte("topic")
	q := s.DestinationOf(sink.Destination{Name: unsafe.String(&arena[0], len(arena))})
	if unsafe.StringData(q.Name) == &arena[0] {
		t.Error("the name points into the batch")
	}
}

// anywhere is a sink with destinations of messages' own choice.
type anywhere struct{ discard.Sink }

func (*anywhere) Destination(d *sink.Delivery) sink.Destination {
	return sink.Destination{Name: d.Topic}
}

// TestOutagesAreForgotten: a destination that nothing waits for, and that nothing was sent to for long, does not fail for ever.
func TestOutagesAreForgotten(t *testing.T) {
	t.Parallel()
	s := NewSink("out", 1, &anywhere{}, 1<<20)
	fail := func(name string, at time.Time) *Destination {
		q := s.DestinationOf(sink.Destination{Name: name})
		for range breakerCalls {
			q.Breaker.Failed(at, &Lane{}, true, true, sink.ClassMisconfigured, "no")
		}
		s.Failing++
		return q
	}
	long := now0.Add(-outageKept - 1)
	gone, waited, recent := fail("gone", long), fail("waited for", long), fail("recent", now0)
	waited.Ready = append(waited.Ready, NewLane(s, ""))
	s.ForgetOutages(now0)
	if gone.Breaker.Fails() || !waited.Breaker.Fails() || !recent.Breaker.Fails() || s.Failing != 2 {
		t.Errorf("%d destinations fail, want the one that is waited for and the recent one", s.Failing)
	}
}
