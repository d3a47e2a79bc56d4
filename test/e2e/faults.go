package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"
)

// Faults are random misbehaviour, each at its own rate in times a second.
type Faults struct {
	Rand *rand.Rand // used under the endpoint's lock
	// Error: 500, nothing is kept. Lie: 503 or 500, and everything is kept.
	Error, Lie float64
	// Hang and Reset: no answer; kept or not, at random.
	Hang, Reset float64
	// Throttle: 429 with a Retry-After of a second.
	Throttle float64
	// Part: some of the messages are not kept, where each is answered.
	Part float64
	// Sick: a group gets nothing but errors for up to SickFor.
	Sick    float64
	SickFor time.Duration

	next map[string]time.Time
	sick map[string]time.Time
}

// due draws when a fault comes next, and tells whether it is its time.
func (f *Faults) due(name string, rate float64, now time.Time) bool {
	if f.next == nil {
		f.next, f.sick = map[string]time.Time{}, map[string]time.Time{}
	}
	if rate == 0 || now.Before(f.next[name]) {
		return false
	}
	_, drawn := f.next[name]
	f.next[name] = now.Add(time.Duration(f.Rand.ExpFloat64() / rate * float64(time.Second)))
	return drawn
}

// choose decides about a request.
func (f *Faults) choose(q Request) Answer {
	coin := f.Rand.IntN(2) == 0
	if f.touchesSick(q) {
		return Answer{Status: 500, Drop: true}
	}
	head := groupOf(q.Deliveries[0])
	switch {
	case f.due("sick", f.Sick, q.At) && head != "":
		f.sick[head] = q.At.Add(time.Duration(f.Rand.Int64N(int64(f.SickFor))))
		return Answer{Status: 500, Drop: true}
	case f.due("error", f.Error, q.At):
		return Answer{Status: 500, Drop: true}
	case f.due("lie", f.Lie, q.At):
		return Answer{Status: 500 + 3*f.Rand.IntN(2)}
	case f.due("hang", f.Hang, q.At):
		return Answer{Hang: true, Drop: coin}
	case f.due("reset", f.Reset, q.At):
		return Answer{Reset: true, Drop: coin}
	case f.due("throttle", f.Throttle, q.At):
		return Answer{Status: 429, RetryAfter: "1", Drop: true}
	case q.Each && f.due("part", f.Part, q.At):
		var retry []int
		for i := range q.Deliveries {
			if f.Rand.IntN(3) == 0 {
				retry = append(retry, i)
			}
		}
		return Answer{Retry: retry}
	}
	return Answer{}
}

// touchesSick reports whether a message of a sick group is in a request.
func (f *Faults) touchesSick(q Request) bool {
	for group, until := range f.sick {
		if !q.At.Before(until) {
			delete(f.sick, group)
		}
	}
	if len(f.sick) == 0 {
		return false
	}
	return slices.ContainsFunc(q.Deliveries, func(d Delivery) bool {
		_, sick := f.sick[groupOf(d)]
		return sick
	})
}

// groupOf is a message's group, from its payload: not every format carries it.
func groupOf(d Delivery) string {
	var body Body
	if err := json.Unmarshal(d.Payload, &body); err != nil {
		return d.Group
	}
	return body.G
}
