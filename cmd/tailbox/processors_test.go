package main

import (
	"testing"
	"time"
)

// One processor has to do if there was little load for a while, until the load is high. A load between both changes nothing.
func TestProcessorsFollowLoad(t *testing.T) {
	t.Parallel()
	const rest, low, middle, high = 0.01, 0.1, 0.27, 0.9
	for _, c := range []struct {
		name   string
		loads  []float64
		one    bool
		lookIn time.Duration
	}{
		{"at the start", nil, false, calmEvery},
		{"calm", []float64{low}, true, loadEvery},
		{"at rest", []float64{rest}, true, loadAtRest},
		{"neither calm nor busy", []float64{middle}, false, calmEvery},
		{"calm, then more", []float64{low, middle}, true, loadEvery},
		{"at rest, then more", []float64{rest, middle}, true, loadEvery},
		{"calm, then busy", []float64{low, high}, false, calmEvery},
		{"busy, then more than calm", []float64{low, high, middle}, false, calmEvery},
		{"busy, then calm", []float64{high, low}, true, loadEvery},
	} {
		var p processors
		for _, load := range c.loads {
			before := p.one
			if change := p.follow(load); change != (p.one != before) {
				t.Errorf("%s: from %v to %v: change is %v", c.name, before, p.one, change)
			}
		}
		if p.one != c.one || p.lookIn() != c.lookIn {
			t.Errorf("%s: one is %v, and the next look is in %v; want %v, %v", c.name, p.one, p.lookIn(), c.one, c.lookIn)
		}
	}
}
