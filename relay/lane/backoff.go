package lane

import (
	"math/rand/v2"
	"time"

	"github.com/tailbox/tailbox/router"
)

// Delay returns how long to wait; spent is how often the delivery has failed (at least 1). Only r makes it random. If the policy has no schedule, the
// delay is p.Max at most, so it never overflows.
func Delay(p router.Retry, spent int, r *rand.Rand) time.Duration {
	if len(p.Schedule) > 0 {
		return p.Schedule[min(max(spent, 1), len(p.Schedule))-1]
	}
	d := float64(p.Initial)
	for i := 1; i < spent && d < float64(p.Max); i++ {
		d *= p.Factor
	}
	most := p.Max
	if d < float64(p.Max) {
		most = time.Duration(d)
	}
	if p.Jitter == "none" {
		return most
	}
	// Full jitter spreads the retries of many lanes best; the floor keeps a retry from being no wait at all.
	return max(time.Duration(float64(most)*r.Float64()), min(p.Initial, p.Max)/10)
}

// Limit is the number of attempts that a delivery may spend.
func Limit(p router.Retry, perMessage int32) int {
	if perMessage > 0 {
		return int(perMessage)
	}
	return p.Attempts
}
