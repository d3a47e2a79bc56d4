package relay

import (
	"slices"
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	t.Parallel()
	short, long := time.Second, time.Hour
	repeats := func(took time.Duration) ending { return ending{took: took, sent: true} }
	for name, c := range map[string]struct {
		terms []ending
		want  []time.Duration // in ms
	}{
		"no connection":     {slices.Repeat([]ending{{took: short}}, 7), []time.Duration{200, 400, 800, 1600, 3200, 5000, 5000}},
		"an idle log":       {[]ending{{took: short}, {took: short}, {took: long}, {took: short}}, []time.Duration{200, 400, 200, 400}},
		"settled":           {[]ending{{took: short}, {took: short}, {took: short, sent: true, durable: true}, {took: short}}, []time.Duration{200, 400, 200, 400}},
		"cannot be settled": {slices.Repeat([]ending{repeats(short), repeats(long)}, 5), []time.Duration{200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}},
		"then settled":      {append(slices.Repeat([]ending{repeats(short)}, 7), ending{took: short, sent: true, durable: true}), []time.Duration{200, 400, 800, 1600, 3200, 6400, 12800, 200}},
		"no connection meanwhile": {append(slices.Repeat([]ending{repeats(short)}, 7), ending{took: short}, repeats(short)),
			[]time.Duration{200, 400, 800, 1600, 3200, 6400, 12800, 5000, 25600}},
	} {
		var p pacing
		var got []time.Duration
		for _, term := range c.terms {
			got = append(got, p.after(term)/time.Millisecond)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
