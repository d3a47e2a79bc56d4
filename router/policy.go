package router

import "time"

// A Route is one entry of the configuration's routes: the first that matches a message decides its sinks and its
// failure policy.
type Route struct {
	// Name labels metrics; by default the names of its sinks joined by "+".
	Name string
	// To are the names of the sinks, without repetition.
	To []string
	// Retry and OnExhausted are the failure policy.
	Retry       Retry
	OnExhausted OnExhausted

	match matcher
}

// Retry says how often and when a rejected delivery is tried again.
type Retry struct {
	// Attempts is the most attempts in all, the first one included. A message's own MaxAttempts overrides it.
	Attempts int
	// Initial is the first delay; each further one is Factor times the one before, up to Max. Jitter "full" draws each
	// delay between 0 and that value, "none" takes it as it is.
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	Jitter  string
	// Schedule, if not empty, gives the delays one by one instead (the last one repeats), without jitter.
	Schedule []time.Duration
}

// DefaultRetry is the retry of a route that sets nothing.
func DefaultRetry() Retry {
	return Retry{Attempts: 15, Initial: time.Second, Factor: 2, Max: 5 * time.Minute, Jitter: "full"}
}

// OnExhausted says what becomes of a lane whose delivery has failed for good.
type OnExhausted string

// Policies for exhausted deliveries. The zero value is Hold for messages with a group and Skip for those without.
const (
	Hold   OnExhausted = "hold"   // the group waits for the operator, in order
	KeepOn OnExhausted = "retry"  // keep trying at the longest delay
	Skip   OnExhausted = "skip"   // dead letter, the group goes on
	Latest OnExhausted = "latest" // all but the newest parked of the lane become dead, superseded
)
