// Package report holds what `tailbox status` reports, whatever the database is: the checkpoint, what is parked at each sink, and how
// far the log is read.
package report

import (
	"maps"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/feedback"
)

// A Report is what `tailbox status` reports, whatever the database is. It is read from the database alone; no relay needs to run.
type Report struct {
	Pipeline string `json:"pipeline"`
	// SourceID and Version of the server now; End is where its log ends.
	SourceID string `json:"source_id"`
	Version  string `json:"server_version"`
	End      string `json:"log_end"`
	// Checkpoint is nil if none was saved.
	Checkpoint *Checkpoint `json:"checkpoint"`
	Sinks      []SinkCount `json:"sinks"`
	// OpenRequests counts what operators asked for and is not done; Held are lanes under a hold.
	OpenRequests int               `json:"open_requests"`
	Held         []checkpoint.Lane `json:"held"`
	// Feedback are the failures of feedback within a day.
	Feedback []feedback.Failure `json:"feedback_failures,omitempty"`
}

// A Checkpoint is the saved checkpoint.
type Checkpoint struct {
	SourceID string    `json:"source_id"`
	Resume   string    `json:"resume"`
	Log      uint32    `json:"log"`
	SavedAt  time.Time `json:"saved_at"`
	// AgeSeconds by the database's clock.
	AgeSeconds float64 `json:"age_seconds"`
	// LagSeconds is how much older the checkpoint is than the log's end, if the log's positions are times.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// SettledAbove counts the ranges of deliveries beyond it that are settled.
	SettledAbove  int  `json:"settled_above"`
	SweepPending  bool `json:"sweep_pending"`
	UncleanStarts int  `json:"unclean_starts"`
}

// OfCheckpoint is the report of a checkpoint that was saved some time ago; nil if none was.
func OfCheckpoint(c *checkpoint.Checkpoint, unclean int, savedAt time.Time, ageSeconds float64) *Checkpoint {
	if c == nil {
		return nil
	}
	r := &Checkpoint{SourceID: c.SourceID, Resume: string(c.Resume), Log: c.Log, SavedAt: savedAt, AgeSeconds: ageSeconds,
		SweepPending: c.SweepPending, UncleanStarts: unclean}
	for _, ranges := range c.SettledAbove {
		r.SettledAbove += len(ranges)
	}
	return r
}

// SinkCounts gathers what is parked, by sink.
type SinkCounts struct {
	bySink map[string]*SinkCount
	held   store.HeldLanes
}

// CountSinks begins with what operators have in force.
func CountSinks(fs store.Forces) *SinkCounts {
	c := &SinkCounts{bySink: make(map[string]*SinkCount), held: fs.Held()}
	for _, name := range fs.Sinks() {
		c.sink(name).Paused = true
	}
	return c
}

func (c *SinkCounts) sink(name string) *SinkCount {
	r := c.bySink[name]
	if r == nil {
		r = &SinkCount{Sink: name}
		c.bySink[name] = r
	}
	return r
}

// Add adds the deliveries at a sink of messages of a table.
func (c *SinkCounts) Add(sink, table string, of *SinkCount) { c.sink(sink).Add(table, of) }

// AddLane adds a lane that is blocked. Dead: its first delivery is.
func (c *SinkCounts) AddLane(lane checkpoint.Lane, dead bool) {
	r := c.sink(lane.Sink)
	r.Lanes++
	if dead || c.held.Has(lane) {
		r.HeldLanes++
	}
}

// Report puts the counts into a report.
func (c *SinkCounts) Report(r *Report) {
	r.Held = store.SortedLanes(c.held)
	for _, name := range slices.Sorted(maps.Keys(c.bySink)) {
		r.Sinks = append(r.Sinks, *c.bySink[name])
	}
}

// A SinkCount counts what is parked for a sink.
type SinkCount struct {
	Sink string `json:"sink"`
	// Kind is "" if the configuration does not have the sink any more.
	Kind   string `json:"kind,omitempty"`
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
	// DueSeconds is the longest that a delivery has been due, HeldSeconds the longest that a dead delivery has held its lane; 0 if there is none.
	DueSeconds  float64 `json:"oldest_due_seconds"`
	HeldSeconds float64 `json:"oldest_held_seconds"`
	// UndeliveredSeconds is the age of the oldest message that is retried or waits, since its commit or the time it is scheduled for.
	UndeliveredSeconds float64 `json:"oldest_undelivered_seconds"`
	// Tables counts deliveries by the table that their messages come from.
	Tables map[string]int `json:"-"`
}

// Add adds what is parked of one table.
func (r *SinkCount) Add(table string, of *SinkCount) {
	if r.Tables == nil {
		r.Tables = make(map[string]int)
	}
	r.Tables[table] += of.Retrying + of.Waiting + of.Dead
	r.Retrying, r.Waiting, r.Dead = r.Retrying+of.Retrying, r.Waiting+of.Waiting, r.Dead+of.Dead
	r.DueSeconds, r.HeldSeconds = max(r.DueSeconds, of.DueSeconds), max(r.HeldSeconds, of.HeldSeconds)
	r.UndeliveredSeconds = max(r.UndeliveredSeconds, of.UndeliveredSeconds)
}
