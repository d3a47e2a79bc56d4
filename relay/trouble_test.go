package relay

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
)

// Troubles are forgotten that nothing is sent to any more, and with the first answer; a sink with one destination has none.
func TestTroublesAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := newSinkState("out", 1, &discard.Sink{}, 1<<20)
	to := sink.Destination{Name: "topic", Partition: 1}
	s.unanswered(to, now)
	if len(s.troubles) != 0 {
		t.Errorf("a sink with one destination has %d troubles", len(s.troubles))
	}
	s.to = func(*delivery) sink.Destination { return to }
	s.unanswered(to, now)
	s.unanswered(to, now.Add(troubleKept))
	s.forgetTroubles(now.Add(2 * troubleKept))
	if trouble := s.troubles[to]; trouble == nil || !trouble.since.Equal(now) {
		t.Errorf("trouble %v, want one since %v", trouble, now)
	}
	s.forgetTroubles(now.Add(2*troubleKept + 1))
	if len(s.troubles) != 0 {
		t.Error("a trouble is kept for ever")
	}
	s.unanswered(to, now)
	s.answered(s.destinationOf(to))
	if len(s.troubles) != 0 {
		t.Error("a destination that has answered is in trouble")
	}
}

// That a destination was forgotten meanwhile is no evidence against a message, nor does it hide a later answer for long.
func TestPoisonOutlivesItsDestination(t *testing.T) {
	t.Parallel()
	s := newSinkState("out", 1, &discard.Sink{}, 1<<20)
	to := sink.Destination{Name: "topic"}
	for range 100 {
		s.answered(s.destinationOf(to))
	}
	l, head := &lane{sink: s}, &delivery{}
	head.Destination = to
	for range unreachedLimit + 1 {
		if l.poisonous(head) {
			t.Fatal("poisonous though nothing was answered meanwhile")
		}
		delete(s.dests, to)
	}
	s.answered(s.destinationOf(to))
	if !l.poisonous(head) {
		t.Error("not poisonous though its destination has answered meanwhile")
	}
}
