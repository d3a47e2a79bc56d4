package lane

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailbox/tailbox/router"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	exp := router.Retry{Attempts: 15, Initial: time.Second, Factor: 2, Max: 5 * time.Minute, Jitter: "none"}
	huge := router.Retry{Initial: time.Hour, Factor: 1e9, Max: math.MaxInt64, Jitter: "none"}
	steps := router.Retry{Schedule: []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute}}
	for _, c := range []struct {
		name  string
		retry router.Retry
		spent int
		want  time.Duration
	}{
		{"first", exp, 1, time.Second},
		{"second", exp, 2, 2 * time.Second},
		{"eighth", exp, 8, 128 * time.Second},
		{"capped", exp, 12, 5 * time.Minute},
		{"far beyond", exp, 1 << 30, 5 * time.Minute},
		{"none spent", exp, 0, time.Second},
		{"schedule first", steps, 1, 2 * time.Minute},
		{"schedule last repeats", steps, 9, 8 * time.Minute},
	} {
		if got := Delay(c.retry, c.spent, nil); got != c.want {
			t.Errorf("%s: delay = %v, want %v", c.name, got, c.want)
		}
	}
	if got := Delay(huge, 50, nil); got <= 0 {
		t.Errorf("huge policy overflows: %v", got)
	}
}

func TestDelayJitterStaysInBounds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	p := router.DefaultRetry()
	for spent := 1; spent < 20; spent++ {
		whole := p
		whole.Jitter = "none"
		most := Delay(whole, spent, nil)
		for range 200 {
			if d := Delay(p, spent, r); d <= 0 || d > most {
				t.Fatalf("after %d attempts: delay %v outside (0, %v]", spent, d, most)
			}
		}
	}
}
