package relay

import (
	"testing"
	"time"

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
