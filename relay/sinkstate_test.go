package relay

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
	s := newSinkState("out", 1, &anywhere{}, 1<<20)
	fail := func(partition int32, class sink.Class) {
		q := s.destinationOf(sink.Destination{Name: "topic", Partition: partition})
		q.ready = append(q.ready, &lane{sink: s})
		for range breakerCalls {
			if q.breaker.failed(now0, &lane{}, true, true, class, "no") {
				s.failing++
			}
		}
	}
	fail(0, sink.ClassUnreachable)
	fail(1, sink.ClassMisconfigured)
	fail(2, sink.ClassUnreachable)
	s.recoverAll(func(b *breaker) bool { return b.class == sink.ClassUnreachable })
	if s.failing != 1 || !s.fails() || s.state(now0) != "failing" {
		t.Errorf("%d destinations fail, want the one that is misconfigured", s.failing)
	}
	s.recoverAll(func(*breaker) bool { return true })
	if s.failing != 0 || s.fails() || s.state(now0) != "open" || len(s.turn) != 3 {
		t.Errorf("%d destinations fail and %d are in turn, want none and 3", s.failing, len(s.turn))
	}
}

// TestDestinationsAreForgotten: messages that choose any number of destinations leave nothing behind once nothing is in flight.
func TestDestinationsAreForgotten(t *testing.T) {
	t.Parallel()
	const used = 3000 // more than may be idle
	s := newSinkState("out", 1, &discard.Sink{}, 1<<20)
	at := func(i int) sink.Destination { return sink.Destination{Name: fmt.Sprint("topic ", i)} }
	var flying, waiting, listed []*destination
	for i := range used / 3 {
		q := s.destinationOf(at(3 * i))
		q.inflight++
		flying = append(flying, q)
		q = s.destinationOf(at(3*i + 1))
		q.ready = append(q.ready, &lane{sink: s})
		waiting = append(waiting, q)
		q = s.destinationOf(at(3*i + 2))
		q.listed = true
		listed = append(listed, q)
	}
	for i := range 100_000 {
		s.destinationOf(at(used + i))
		if len(s.all) != len(s.dests) || len(s.all) > 2*used+mostDestinations {
			t.Fatalf("%d destinations, and %d in order, after %d that were used for a moment", len(s.dests), len(s.all), i)
		}
	}
	for kind, qs := range [][]*destination{flying, waiting, listed} {
		for i, q := range qs {
			if s.destinationOf(at(3*i+kind)) != q {
				t.Fatalf("destination %d was forgotten though it is in use", 3*i+kind)
			}
			q.inflight, q.ready, q.listed = 0, nil, false
		}
	}
	for i := range 10 * used {
		s.destinationOf(at(-i))
	}
	if len(s.all) > mostDestinations {
		t.Errorf("%d destinations though nothing is in flight, want at most %d", len(s.all), mostDestinations)
	}
}

// The destination's name does not keep the memory of the batch that brought it.
func TestDestinationNameIsItsOwn(t *testing.T) {
	t.Parallel()
	s := newSinkState("out", 1, &discard.Sink{}, 1<<20)
	arena := []byte("topic")
	q := s.destinationOf(sink.Destination{Name: unsafe.String(&arena[0], len(arena))})
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
	s := newSinkState("out", 1, &anywhere{}, 1<<20)
	fail := func(name string, at time.Time) *destination {
		q := s.destinationOf(sink.Destination{Name: name})
		for range breakerCalls {
			q.breaker.failed(at, &lane{}, true, true, sink.ClassMisconfigured, "no")
		}
		s.failing++
		return q
	}
	long := now0.Add(-outageKept - 1)
	gone, waited, recent := fail("gone", long), fail("waited for", long), fail("recent", now0)
	waited.ready = append(waited.ready, &lane{sink: s})
	s.forgetOutages(now0)
	if gone.breaker.fails() || !waited.breaker.fails() || !recent.breaker.fails() || s.failing != 2 {
		t.Errorf("%d destinations fail, want the one that is waited for and the recent one", s.failing)
	}
}
