package main

import "testing"

func TestTell(t *testing.T) {
	above, below := 1.0, 0.9
	for _, c := range []struct {
		above, below int
		told         bool
	}{
		{0, 0, false}, {4, 0, false}, {5, 0, true}, {0, 5, true}, {7, 1, true}, {6, 2, false}, {4, 4, false}, {14, 4, true}, {12, 6, false},
	} {
		var ratios []float64
		for range c.above {
			ratios = append(ratios, above)
		}
		for range c.below {
			ratios = append(ratios, below)
		}
		if told := tell(ratios); told != c.told {
			t.Errorf("%d pairs above the limit and %d below it: told %v, want %v", c.above, c.below, told, c.told)
		}
	}
}
