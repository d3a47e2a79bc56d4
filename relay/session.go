package relay

import "time"

// trusted tells whether the session answered lately enough for a delivery to start (R12).
func (e *engine) trusted(now time.Time) bool { return elapsed(e.answered, now) < sessionTrust }

// elapsed is how long ago then was, at most. The monotonic clock may stand still while a virtual machine is suspended, and the wall
// clock may be set back: the one that has moved further counts. Where the wall clock was set forward, that costs one ping.
func elapsed(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
