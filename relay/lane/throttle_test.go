package lane

import (
	"testing"
	"time"
)

// A sink that does not say how long it wants to rest rests longer each time, until it takes something.
func TestThrottleGrows(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var th Throttle
	grown := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}
	for round := range 2 {
		for i, want := range grown {
			started := now
			for call := range 64 { // all that were in flight when it asked ask for the same rest
				now = now.Add(time.Millisecond)
				if wait := th.Rest(started, now, 0); call == 0 && wait != want*time.Millisecond || call > 0 && wait != 0 {
					t.Fatalf("rest %d of round %d, call %d: %v, want %v", i, round, call, wait, want*time.Millisecond)
				}
			}
			now = now.Add(time.Minute)
		}
		th.Succeeded()
	}
}

// A time that the sink names is what it gets, whatever it asked for before, and changes nothing about the other rests.
func TestThrottleAsAsked(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var th Throttle
	for i, c := range []struct{ after, want time.Duration }{
		{0, 100 * time.Millisecond}, {time.Second, time.Second}, {time.Hour, time.Hour}, {0, 200 * time.Millisecond},
		{time.Millisecond, 100 * time.Millisecond}, {0, 400 * time.Millisecond},
	} {
		now = now.Add(2 * time.Hour)
		if wait := th.Rest(now, now.Add(time.Millisecond), c.after); wait != c.want {
			t.Errorf("%d: asked for %v: %v, want %v", i, c.after, wait, c.want)
		}
	}
	// Both answers to calls that were in flight together: the longer one counts, which the caller sees to.
	if wait := th.Rest(now, now.Add(time.Millisecond), time.Minute); wait != time.Minute {
		t.Errorf("a call in flight that asked for a minute rests %v", wait)
	}
}
