package lane

import "time"

// A Throttle decides how long a sink rests after it has asked to slow down. It is pure: the time is an argument. The zero value is ready.
//
// If the sink names a time, it rests for that long. If it names none, it rests longer each time, until it takes a delivery.
type Throttle struct {
	asked time.Time     // when the last rest began
	wait  time.Duration // the last rest that was not the sink's own choice; 0 after a success
}

const (
	throttleMinWait = 100 * time.Millisecond
	throttleMaxWait = 30 * time.Second
)

// Rest returns how long the sink rests from now on. started is when the refused call began; after is the rest that the sink asked for, 0 if it did
// not say. If after is 0 and the call began before the last rest, it is part of the same refusal: Rest returns 0.
func (t *Throttle) Rest(started, now time.Time, after time.Duration) time.Duration {
	if after > 0 {
		t.asked = now
		return max(after, throttleMinWait)
	}
	if !started.After(t.asked) {
		return 0
	}
	t.asked = now
	t.wait = min(max(2*t.wait, throttleMinWait), throttleMaxWait)
	return t.wait
}

// Succeeded notes that the sink took a delivery: the next rest is short again.
func (t *Throttle) Succeeded() { t.wait = 0 }
