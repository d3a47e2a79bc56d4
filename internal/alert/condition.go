package alert

import "time"

// A Condition is one thing that can be wrong with a pipeline.
type Condition uint8

// The conditions.
const (
	SinkFailing   Condition = iota // a sink, or a destination of it, takes nothing
	DeadLetters                    // a sink has dead letters
	ManyDead                       // the pipeline has many
	VeryManyDead                   // and very many
	Undelivered                    // the oldest undelivered message of a sink is old
	Held                           // a group waits for an operator
	Backlog                        // many deliveries are parked and not dead
	Lagging                        // reading is behind
	Lag                            // and far behind
	RetainedLog                    // the server keeps much log for the pipeline
	RetainedShare                  // and the pipeline will lose it, if it becomes more
	Restarts                       // the relay begins again and again
	NoLeader                       // this process does not relay, and knows of no other that does
	conditions
)

// Conditions lists all.
func Conditions() []Condition {
	var all []Condition
	for c := range conditions {
		all = append(all, c)
	}
	return all
}

// A Unit is what the limit of a condition is measured in.
type Unit uint8

// The units.
const (
	Time    Unit = iota // nanoseconds
	Count               // things
	Bytes               // bytes
	Percent             // hundredths of another value
)

// A rule is what is fixed about a condition.
type rule struct {
	// name is its key in the configuration.
	name     string
	critical bool
	unit     Unit
	limit    int64 // by default
	// lasting: the limit is how long the condition has to hold. Else a value has to be above the limit.
	lasting bool
	// least: a value that is the limit is above it.
	least bool
	// steady: a value has to be above the limit for Config.Steady.
	steady bool
	// always: it is also reported by a relay that has just begun.
	always bool
	// whole: it is about the pipeline and not about one sink.
	whole bool
}

//nolint:gochecknoglobals // a table that nobody changes
var rules = [conditions]rule{
	SinkFailing:   {name: "sink_failing", critical: true, unit: Time, limit: int64(time.Minute), lasting: true},
	DeadLetters:   {name: "dead_letters", unit: Count, limit: 0},
	ManyDead:      {name: "many_dead", unit: Count, limit: 10, whole: true},
	VeryManyDead:  {name: "very_many_dead", critical: true, unit: Count, limit: 100, whole: true},
	Undelivered:   {name: "undelivered", critical: true, unit: Time, limit: int64(5 * time.Minute)},
	Held:          {name: "held", unit: Time, limit: int64(time.Hour)},
	Backlog:       {name: "backlog", unit: Count, limit: 1000, steady: true, whole: true},
	Lagging:       {name: "lagging", unit: Time, limit: int64(10 * time.Second), whole: true},
	Lag:           {name: "lag", critical: true, unit: Time, limit: int64(time.Minute), whole: true},
	RetainedLog:   {name: "retained_log", critical: true, unit: Bytes, limit: 1 << 30, whole: true},
	RetainedShare: {name: "retained_share", critical: true, unit: Percent, limit: 50, whole: true},
	Restarts:      {name: "restarts", critical: true, unit: Count, limit: 3, least: true, always: true, whole: true},
	NoLeader:      {name: "no_leader", critical: true, unit: Time, limit: int64(time.Minute), lasting: true, always: true, whole: true},
}

// String returns the name of the condition, which is its key in the configuration.
func (c Condition) String() string { return rules[c].name }

// Unit returns what the limit is measured in.
func (c Condition) Unit() Unit { return rules[c].unit }

// Least reports whether a value that is the limit is above it.
func (c Condition) Least() bool { return rules[c].least }

// Severity is "warning" or "critical".
func (c Condition) Severity() string {
	if rules[c].critical {
		return "critical"
	}
	return "warning"
}

// exceeds reports whether a value is above a limit.
func (r *rule) exceeds(value, limit int64) bool { return value > limit || r.least && value == limit }

// A Limit is the threshold of a condition, in its unit.
type Limit struct {
	Off   bool
	Value int64
}

// Limits are those of all conditions.
type Limits [conditions]Limit

// DefaultLimits returns the limits of a configuration that sets none.
func DefaultLimits() (l Limits) {
	for c := range conditions {
		l[c].Value = rules[c].limit
	}
	return l
}
