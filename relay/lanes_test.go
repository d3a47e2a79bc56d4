package relay

import (
	"fmt"
	"testing"
)

// What is known of a million blocked groups must not grow with what a lane costs, and must not be lost.
func TestBlockedLanesSleep(t *testing.T) {
	t.Parallel()
	s := newSinkState("kafka", 2, nil, 1<<20)
	group := func(i int) string { return fmt.Sprintf("group-%d", i) }
	const n = 10_000
	for i := range n {
		l := s.lane(group(i))
		l.blocked = i%2 == 0
		l.held = i%1000 == 1
		s.forget(l)
	}
	if most := s.most + n/1000; len(s.lanes) > most {
		t.Errorf("%d lanes in memory, want at most %d", len(s.lanes), most)
	}
	for i := range n {
		switch l := s.find(group(i)); {
		case i%2 == 0:
			if l == nil || !l.blocked || l.group != group(i) {
				t.Fatalf("group %d: its lane is %v, want a blocked one", i, l)
			}
		case i%1000 == 1:
			if l == nil || !l.held {
				t.Fatalf("group %d: its lane is %v, want a held one", i, l)
			}
		case l != nil && l.blocked:
			t.Fatalf("group %d is blocked", i)
		}
	}
	if len(s.asleep.set) != 0 {
		t.Errorf("%d lanes asleep after all were woken", len(s.asleep.set))
	}
}
