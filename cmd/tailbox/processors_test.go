package main

import (
	"slices"
	"testing"
)

// One processor has to do after a while with little load, until the load is high. A load between both changes nothing.
func TestProcessorsFollowLoad(t *testing.T) {
	t.Parallel()
	const low, middle, high = 0.1, 0.27, 0.9
	calm := slices.Repeat([]float64{low}, calmLooks)
	for _, c := range []struct {
		name  string
		loads []float64
		one   bool
	}{
		{"at the start", nil, false},
		{"before it is calm for long", calm[1:], false},
		{"calm", calm, true},
		{"calm with a pause", append(append(slices.Clone(calm[1:]), middle), calm[1:]...), false},
		{"calm, then more", append(slices.Clone(calm), middle, middle), true},
		{"calm, then busy", append(slices.Clone(calm), high), false},
		{"busy, then calm again", append(append(slices.Clone(calm), high), calm...), true},
	} {
		var p processors
		for _, load := range c.loads {
			before := p.one
			if change := p.follow(load); change != (p.one != before) {
				t.Errorf("%s: from %v to %v: change is %v", c.name, before, p.one, change)
			}
		}
		if p.one != c.one {
			t.Errorf("%s: one is %v, want %v", c.name, p.one, c.one)
		}
	}
}
