package lane

import (
	"errors"
	"strings"
	"testing"
)

// TestTransitions walks from an open lane, idle, to every state that events lead to. From each there is a way back, nothing is ever sent
// while something forbids it, and every state and every event has a name.
func TestTransitions(t *testing.T) {
	t.Parallel()
	type state struct {
		Mode  Mode
		doing Operation
	}
	next := func(from state) (to []state) {
		for ev := range events {
			illegal := false
			l := NewLane(&Sink{Broken: func(error) { illegal = true }}, "g")
			l.Mode, l.doing = from.Mode, from.doing
			l.On(ev)
			now := state{l.Mode, l.doing}
			if begins := ev == EvOffer || ev == EvSend; begins && !illegal && from.Mode != Open && !l.Polling() {
				t.Errorf("%v (%v): something is sent that must wait (I5)", from.Mode, from.doing)
			}
			if illegal && now != from {
				t.Errorf("%v (%v): %v is not allowed, and leads to %v (%v)", from.Mode, from.doing, ev, now.Mode, now.doing)
			}
			to = append(to, now)
		}
		return to
	}
	start := state{Mode: Open}
	seen, todo, back := map[state]bool{start: true}, []state{start}, map[state][]state{}
	for len(todo) > 0 {
		from := todo[0]
		todo = todo[1:]
		for _, to := range next(from) {
			back[to] = append(back[to], from)
			if !seen[to] {
				seen[to], todo = true, append(todo, to)
			}
		}
	}
	returns, todo := map[state]bool{start: true}, []state{start}
	for len(todo) > 0 {
		to := todo[0]
		todo = todo[1:]
		for _, from := range back[to] {
			if !returns[from] {
				returns[from], todo = true, append(todo, from)
			}
		}
	}
	for s := range seen {
		switch sending := s.doing&InFlight != 0; {
		case s.Mode == noMode || s.Mode >= modes:
			t.Errorf("%v (%v): it is no mode", s.Mode, s.doing)
		case !returns[s]:
			t.Errorf("%v (%v): no way leads back", s.Mode, s.doing)
		case sending && s.doing&Parking != 0:
			t.Errorf("%v (%v): what is sent is parked, too", s.Mode, s.doing)
		case s.Mode != Polled && s.Mode != LastPage && s.doing&(Changing|InFlight) == Changing|InFlight:
			t.Errorf("%v (%v): a delivery of the tail is sent beside one of the poller", s.Mode, s.doing)
		}
	}
	t.Logf("%d states", len(seen))
	for ev := range events {
		if ev.String() == "" {
			t.Errorf("event %d has no name", ev)
		}
	}
}

// An event that the state does not allow changes nothing, and is reported with the state.
func TestIllegalTransition(t *testing.T) {
	t.Parallel()
	var got error
	l := NewLane(&Sink{Name: "kafka", Broken: func(err error) { got = err }}, "g")
	l.On(EvFreeze)
	l.On(EvBlock)
	l.On(EvSend)
	if !errors.Is(got, ErrBug) || !strings.HasSuffix(got.Error(), `sink "kafka": event "send" in a lane that is behind (frozen)`) {
		t.Errorf("it was reported as %v", got)
	}
	if l.Mode != Behind || l.doing != Frozen {
		t.Errorf("the lane is %v (%v) now", l.Mode, l.doing)
	}
}
