package router

import (
	"math"
	"strconv"
	"time"
)

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
	// DuringOutage says what a failure costs while the destination takes nothing from anybody: "" or Wait, nothing; Count, an attempt.
	DuringOutage string
}

// Values of Retry.DuringOutage.
const (
	Wait  = "wait"
	Count = "count"
)

// DefaultRetry is the retry of a route that sets nothing.
func DefaultRetry() Retry {
	return Retry{Attempts: 15, Initial: time.Second, Factor: 2, Max: 5 * time.Minute, Jitter: "full", DuringOutage: Wait}
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

func (r *Retry) zero() bool {
	return r.Attempts == 0 && r.Initial == 0 && r.Factor == 0 && r.Max == 0 && r.Jitter == "" && r.DuringOutage == "" && len(r.Schedule) == 0
}

// validate checks the limits that the engine's arithmetic relies on.
func (r *Retry) validate(path []string) []*Problem {
	var problems []*Problem
	bad := func(key, value, reason string) {
		problems = append(problems, &Problem{Path: at(path, key), Value: value, Reason: reason})
	}
	if r.Attempts < 1 {
		bad("attempts", strconv.Itoa(r.Attempts), "must be at least 1")
	}
	for i, delay := range r.Schedule {
		if delay < 0 {
			problems = append(problems, &Problem{Path: at(path, "schedule", strconv.Itoa(i)), Value: delay.String(),
				Reason: "must not be negative"})
		}
	}
	if r.DuringOutage != "" && r.DuringOutage != Wait && r.DuringOutage != Count {
		problems = append(problems, &Problem{Path: at(path, "during_outage"), Value: r.DuringOutage, Reason: "is unknown",
			Allowed: []string{Wait, Count}})
	}
	if len(r.Schedule) > 0 {
		return problems
	}
	if r.Initial <= 0 {
		bad("initial", r.Initial.String(), "must be above 0s")
	}
	if math.IsNaN(r.Factor) || r.Factor < 1 || r.Factor > 1000 {
		bad("factor", strconv.FormatFloat(r.Factor, 'g', -1, 64), "must be between 1 and 1000")
	}
	if r.Max < r.Initial {
		bad("max", r.Max.String(), "must not be below initial, "+r.Initial.String())
	}
	if r.Jitter != "full" && r.Jitter != "none" {
		problems = append(problems, &Problem{Path: at(path, "jitter"), Value: r.Jitter, Reason: "is unknown",
			Allowed: []string{"full", "none"}})
	}
	return problems
}

func (o OnExhausted) validate(path []string) []*Problem {
	switch o {
	case "", Hold, KeepOn, Skip, Latest:
		return nil
	}
	return []*Problem{{Path: path, Value: string(o), Reason: "is unknown",
		Allowed: []string{string(Hold), string(KeepOn), string(Skip), string(Latest)}}}
}
