package lane

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
)

// A destination works if it answered its last call. If the sink remembers no call to it, an answer of another destination of its name counts.
func TestWhichDestinationsWork(t *testing.T) {
	t.Parallel()
	of := func(name string, partition int32) sink.Destination {
		return sink.Destination{Name: name, Partition: partition}
	}
	for _, c := range []struct {
		name   string
		before func(s *Sink)
		works  bool // the destination of topic T and partition 1
	}{
		{"nothing is known", func(*Sink) {}, false},
		{"it answered", func(s *Sink) { s.Answered(s.DestinationOf(of("T", 1))) }, true},
		{"it failed", func(s *Sink) { s.DestinationOf(of("T", 1)).Failed() }, false},
		{"it answered, and failed", func(s *Sink) {
			q := s.DestinationOf(of("T", 1))
			s.Answered(q)
			q.Failed()
		}, false},
		{"another one answered", func(s *Sink) { s.Answered(s.DestinationOf(of("T", 0))) }, true},
		{"another one answered since it is in memory", func(s *Sink) {
			s.DestinationOf(of("T", 1))
			s.Answered(s.DestinationOf(of("T", 0)))
		}, true},
		{"another one answered, but it failed", func(s *Sink) {
			s.DestinationOf(of("T", 1)).Failed()
			s.Answered(s.DestinationOf(of("T", 0)))
		}, false},
		{"it answered and was forgotten, and another one failed", func(s *Sink) {
			s.Answered(s.DestinationOf(of("T", 1)))
			forget(s)
			s.DestinationOf(of("T", 0)).Failed()
		}, true},
		{"it answered, failed and was forgotten", func(s *Sink) {
			q := s.DestinationOf(of("T", 1))
			s.Answered(q)
			q.Failed()
			forget(s)
		}, false},
		{"it failed and was forgotten, and another one answered", func(s *Sink) {
			s.DestinationOf(of("T", 1)).Failed()
			forget(s)
			s.Answered(s.DestinationOf(of("T", 0)))
		}, false},
		{"another topic answered", func(s *Sink) { s.Answered(s.DestinationOf(of("U", 1))) }, false},
		{"another one answers among more topics than are remembered", func(s *Sink) {
			q := s.DestinationOf(of("T", 0))
			q.Inflight = 1 // so it stays in memory
			for i := range 3 * mostRecent {
				if i%1000 == 0 {
					s.Answered(q)
				}
				s.Answered(s.DestinationOf(of(fmt.Sprint(i), 0)))
			}
			q.Inflight = 0
			forget(s)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := NewSink("out", 1, &discard.Sink{}, 1<<20)
			s.To = func(*Delivery) sink.Destination { return sink.Destination{} }
			c.before(s)
			if works := s.works(s.DestinationOf(of("T", 1))); works != c.works {
				t.Errorf("it works: %v, want %v", works, c.works)
			}
		})
	}
}

// forget has the sink forget all destinations that it has in memory.
func forget(s *Sink) {
	for i := range 3 * mostDestinations {
		s.DestinationOf(sink.Destination{Name: fmt.Sprint("missing ", i)}).Failed()
	}
}
