package lane

import (
	"errors"
	"testing"
	"time"
)

// TestFlow: the deliveries of a sink wait in memory until it has taken none for long, or until others starve.
func TestFlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after []FlowEvent
		want  Flow
		parks bool
	}{
		{"nothing has happened", nil, Flowing, false},
		{"it rests", []FlowEvent{EvStall}, Stalled, false},
		{"it has rested for long", []FlowEvent{EvStall, EvSpill}, Spilling, true},
		{"an answer of before it was paused", []FlowEvent{EvStall, EvSpill, EvDeliver}, Spilling, true},
		{"it takes deliveries again", []FlowEvent{EvStall, EvSpill, EvDeliver, EvFlow}, Flowing, false},
		{"others starve", []FlowEvent{EvStarve}, TooSlow, true},
		{"it takes some", []FlowEvent{EvStarve, EvDeliver}, CatchingUp, true},
		{"others starve, and it fails", []FlowEvent{EvStarve, EvDeliver, EvStall}, Spilling, true},
		{"it rests, and others starve", []FlowEvent{EvStall, EvStarve}, Spilling, true},
	} {
		s := &Sink{Broken: func(err error) { t.Error(c.name, err) }}
		for _, ev := range c.after {
			s.On(ev)
		}
		if s.Flow != c.want || s.Parks() != c.parks {
			t.Errorf("%s: it is %s, want %s", c.name, s.Flow, c.want)
		}
	}
}

// TestIllegalSteps: what the tables do not have changes nothing, and ends the term.
func TestIllegalSteps(t *testing.T) {
	t.Parallel()
	var got error
	s := &Sink{Broken: func(err error) { got = err }}
	if s.On(EvSpill); !errors.Is(got, ErrBug) || s.Flow != Flowing {
		t.Errorf("a sink that takes deliveries is parked: %v, and it is %s", got, s.Flow)
	}
	if SinkPaused.MayBecome(SinkFailing) || !SinkPaused.MayBecome(SinkOpen) || !SinkFailing.MayBecome(SinkThrottled) {
		t.Error("an operator's pause ends in something else than an open sink")
	}
}

// A sink starves that is idle nearly all the time, with a batch now and then; not one that is idle part of the time, or whose
// relay was stopped for a while.
func TestHunger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		idle, took time.Duration // at each check
		checks     int
		starves    bool
	}{
		{time.Second, time.Second, 4, false},
		{time.Second, time.Second, 5, true},
		{950 * time.Millisecond, time.Second, 7, true},
		{800 * time.Millisecond, time.Second, 1000, false},
		{200 * time.Millisecond, time.Second, 1000, false},
		{time.Second, time.Minute, 1000, false},
	} {
		var h idleness
		for range c.checks {
			h.Spell = c.idle
			h.Level = h.Next(c.took)
		}
		if starves := h.Level >= ParkAfter; starves != c.starves {
			t.Errorf("idle for %v of %v, %d times: starves %t, want %t", c.idle, c.took, c.checks, starves, c.starves)
		}
	}
}
