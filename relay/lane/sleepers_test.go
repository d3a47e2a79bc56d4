package lane

import (
	"fmt"
	"testing"
)

// What is known of a million blocked groups must not grow with what a lane costs, and must not be lost.
func TestBlockedLanesSleep(t *testing.T) {
	t.Parallel()
	s := NewSink("kafka", 2, nil, 1<<20)
	group := func(i int) string { return fmt.Sprintf("group-%d", i) }
	const n = 10_000
	for i := range n {
		l := s.Lane(group(i))
		if i%2 == 0 {
			l.On(EvBlock)
		}
		if i%1000 == 1 {
			l.On(EvHold)
		}
		s.Forget(l)
	}
	if most := s.most + n/1000; len(s.Lanes) > most {
		t.Errorf("%d lanes in memory, want at most %d", len(s.Lanes), most)
	}
	for i := range n {
		switch l := s.Find(group(i)); {
		case i%2 == 0:
			if l == nil || !l.Blocked() || l.Group != group(i) {
				t.Fatalf("group %d: its lane is %v, want a blocked one", i, l)
			}
		case i%1000 == 1:
			if l == nil || !l.IsHeld() {
				t.Fatalf("group %d: its lane is %v, want a held one", i, l)
			}
		case l != nil && l.Blocked():
			t.Fatalf("group %d is blocked", i)
		}
	}
	if len(s.Asleep.Set) != 0 {
		t.Errorf("%d lanes asleep after all were woken", len(s.Asleep.Set))
	}
}
