package relay

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
)

// TestLift: a pause is of a name, and what waits in each partition of it goes on when one of them has answered.
func TestLift(t *testing.T) {
	for name, lift := range map[string]func(*sinkState){
		"one": func(s *sinkState) { s.lift("topic") },
		"all": func(s *sinkState) { s.liftAll() },
	} {
		s := newSinkState("out", 1, &discard.Sink{}, 1<<20)
		s.pauses["topic"] = &pause{since: time.Now()}
		for partition := range int32(3) {
			q := s.destinationOf(sink.Destination{Name: "topic", Partition: partition})
			q.ready = append(q.ready, &lane{sink: s})
		}
		lift(s)
		if len(s.turn) != 3 || len(s.pauses) != 0 {
			t.Errorf("lift %s: %d destinations in turn and %d pauses, want 3 and none", name, len(s.turn), len(s.pauses))
		}
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
		if len(s.all) != len(s.dests) || len(s.all) > 2*used+mostIdleDestinations {
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
	if len(s.all) > mostIdleDestinations {
		t.Errorf("%d destinations though nothing is in flight, want at most %d", len(s.all), mostIdleDestinations)
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

// TestPausesAreForgotten: a pause that nothing waits for, and that was to be probed long ago, is forgotten; that of a sink with one
// destination is the sink's state, and is kept.
func TestPausesAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Now()
	long := now.Add(-pauseKept)
	pauses := func(s *sinkState) {
		s.pauses["gone"] = &pause{probe: long}
		s.pauses["due"] = &pause{probe: now}
		s.pauses["probed"] = &pause{probe: long, probing: true}
		s.pauses["waited for"] = &pause{probe: long}
		q := s.destinationOf(sink.Destination{Name: "waited for"})
		q.ready = append(q.ready, &lane{sink: s})
		s.destinationOf(sink.Destination{Name: "gone"})
		s.forgetPauses(now)
	}
	s := newSinkState("out", 1, &anywhere{}, 1<<20)
	if pauses(s); s.pauses["gone"] != nil || len(s.pauses) != 3 {
		t.Errorf("%d pauses are kept, want due, probed and waited for", len(s.pauses))
	}
	s = newSinkState("out", 1, &discard.Sink{}, 1<<20)
	if pauses(s); len(s.pauses) != 4 {
		t.Errorf("a sink with one destination forgot its pause")
	}
}
