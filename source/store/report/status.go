package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
)

// A Status is a report with what people and the metrics are to know of it.
type Status struct {
	*Report
	// Whole is the report of the kind of database, of which Report is a part; it is printed as JSON.
	Whole any
	// Relay says who relays, Source what is read, and Log how far: each line is a name and a text.
	Relay, Source string
	Log           [][]string
	// Running: a relay holds the lock.
	Running bool
	// RetainedBytes is how much log the server keeps for the pipeline, LagBytes how much of the log follows the checkpoint; -1 = unknown.
	RetainedBytes, LagBytes int64
	// RetainedLimit is how much log the server keeps for the pipeline at most, before it drops what was not read; 0 if it has no limit.
	RetainedLimit int64
	// Lost is why the log cannot be read on from the checkpoint; "" if it can, as far as this status tells.
	Lost string
	// Waiting is why the server sends nothing to a relay that reads, WaitSeconds since when; "" if it sends.
	Waiting     string
	WaitSeconds float64
}

// A Setting is one of a database server.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NewStatus returns the status of a report. whole is the full report of the kind of database.
func NewStatus(r *Report, whole any) *Status {
	return &Status{Report: r, Whole: whole, RetainedBytes: -1, LagBytes: -1}
}

// NameSinks adds the sinks of the configuration that nothing is parked for, and sets the kind and the state of each sink. state returns what a relay says of
// a sink; "" if no relay can be asked.
func (s *Status) NameSinks(names []string, kind, state func(sink string) string) {
	for _, name := range names {
		if !slices.ContainsFunc(s.Sinks, func(c SinkCount) bool { return c.Sink == name }) {
			s.Sinks = append(s.Sinks, SinkCount{Sink: name})
		}
	}
	for i := range s.Sinks {
		c := &s.Sinks[i]
		c.Kind = kind(c.Sink)
		if c.Paused {
			c.State = "paused"
		} else {
			c.State = cmp.Or(state(c.Sink), "-")
		}
	}
}

// Resume is the position of the checkpoint; "" if there is none.
func (r *Report) Resume() source.Resume {
	if r.Checkpoint == nil {
		return ""
	}
	return source.Resume(r.Checkpoint.Resume)
}

// String describes the checkpoint.
func (c *Checkpoint) String() string {
	if c == nil {
		return "there is none: tailbox init makes it"
	}
	text := fmt.Sprintf("%s, log %d, saved %s ago", c.Resume, c.Log, Seconds(c.AgeSeconds))
	if c.SweepPending {
		text += "; a sweep of pending rows has not ended: tailbox delivers new messages after it"
	}
	switch n := c.UncleanStarts - 1; {
	case n == 1:
		text += "; 1 start ended before anything was settled"
	case n > 1:
		text += fmt.Sprintf("; %d starts in a row ended before anything was settled", n)
	}
	return text
}

// Lines describe how far polling is. at is the number of the checkpoint, if one is known.
func (p *Poll) Lines(at uint64, known bool) [][]string {
	if p == nil {
		return [][]string{{"polling", "its sequence cannot be read: tailbox check says why"}}
	}
	text := fmt.Sprintf("%s is at %d", p.Sequence, p.Last)
	if known && at < p.Last {
		text += fmt.Sprintf(", %d numbers after the checkpoint", p.Last-at)
	}
	lines := [][]string{{"polling", text}}
	if len(p.Open) > 0 {
		const most = 5
		more := ""
		if n := len(p.Open) - most; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		lines = append(lines, []string{"open", "what comes after their numbers waits for " + strings.Join(p.Open[:min(most, len(p.Open))], ", ") + more})
	}
	return lines
}

// Seconds writes a duration for people.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

// Bytes writes a size for people.
func Bytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}
