package store

import "github.com/tailbox/tailbox/source"

// A SinkReport counts what is parked for a sink.
type SinkReport struct {
	Sink   string `json:"sink"`
	Paused bool   `json:"paused"`
	// State is what the relay says of the sink, if it can be asked: open, failing, paused or throttled. Else it is paused, or "-".
	State string `json:"state"`
	// Deliveries by state.
	Retrying int `json:"retrying"`
	Waiting  int `json:"waiting"`
	Dead     int `json:"dead"`
	// Lanes that wait; HeldLanes of them for an operator, be it because of a dead delivery or of a hold.
	Lanes     int `json:"lanes"`
	HeldLanes int `json:"held_lanes"`
	// DueSeconds is how long the longest waiting due delivery is due, HeldSeconds how long the oldest held lane is held by a
	// dead delivery; 0 where there is none.
	DueSeconds  float64 `json:"oldest_due_seconds"`
	HeldSeconds float64 `json:"oldest_held_seconds"`
	// UndeliveredSeconds is the age of the oldest message that is retried or waits, since its commit or the time it is scheduled for.
	UndeliveredSeconds float64 `json:"oldest_undelivered_seconds"`
	// Tables counts deliveries by the table that their messages come from.
	Tables map[string]int `json:"-"`
}

// Add adds what is parked of one table.
func (r *SinkReport) Add(table string, of *SinkReport) {
	if r.Tables == nil {
		r.Tables = make(map[string]int)
	}
	r.Tables[table] += of.Retrying + of.Waiting + of.Dead
	r.Retrying, r.Waiting, r.Dead = r.Retrying+of.Retrying, r.Waiting+of.Waiting, r.Dead+of.Dead
	r.DueSeconds, r.HeldSeconds = max(r.DueSeconds, of.DueSeconds), max(r.HeldSeconds, of.HeldSeconds)
	r.UndeliveredSeconds = max(r.UndeliveredSeconds, of.UndeliveredSeconds)
}

// A Level says how bad a Finding is.
type Level string

// Levels of findings.
const (
	Problem Level = "problem" // the relay cannot run, or would lose or hold up something
	Warning Level = "warning" // it runs, but not as well as it could
	Info    Level = "info"    // good to know
)

// A Finding is something that `tailbox check` found.
type Finding struct {
	Level Level `json:"level"`
	// What is a sentence, Cure the statement, setting or command that mends it; "" where nothing is to be done.
	What string `json:"what"`
	Cure string `json:"cure,omitempty"`
}

// A Gap is a checkpoint behind which the log cannot be read on, as it is seen now.
type Gap struct {
	// From is the checkpoint. A request to accept the gap names it, so that it counts for no other.
	From source.Resume
	// Why is the reason, for the operator.
	Why string
	// Unswept: the log can be read on; only the sweep that comes before has not ended.
	Unswept bool
	// Unjudged names what the next start cannot sweep: nothing tells what of it was delivered.
	Unjudged []string
}
