package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// output is the flag -o.
type output struct{ json bool }

func (o *output) flag(fs *flag.FlagSet) {
	fs.Func("o", "`FORMAT`: text or json", func(v string) error {
		if v != "json" && v != "text" {
			return fmt.Errorf("must be text or json")
		}
		o.json = v == "json"
		return nil
	})
}

// What a list that is cut ends with; in JSON it is said beside it, on stderr.
const (
	andMore     = "and more: raise --limit\n"
	perhapsMore = "perhaps more: raise --limit\n"
)

// parked lists deliveries.
func (o *output) parked(sh *shell, found []store.Listed, more bool) error {
	if !o.json {
		return printParked(sh.out, found, more)
	}
	if more {
		fmt.Fprint(sh.err, andMore)
	}
	return printJSON(sh.out, parkedViews(found))
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table prints rows in columns; the first row is the heading. What is wider than wideCell does not widen its column: it pushes
// the rest of its own line aside, so that ids are whole, to be copied, and the other lines stay in order.
func table(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := utf8.RuneCountInString(text); n <= wideCell {
				widths[i] = max(widths[i], n)
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		start, at := 0, 0 // where the column starts, and where the line has come to
		var line strings.Builder
		for i, text := range row {
			if i > 0 {
				gap := max(start-at, 2)
				line.WriteString(strings.Repeat(" ", gap))
				at += gap
			}
			line.WriteString(text)
			at += utf8.RuneCountInString(text)
			start += widths[i] + 2
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	// maxCell bounds words, maxMessage sentences. Names that commands take are not cut.
	maxCell    = 40
	wideCell   = 40
	maxMessage = 90
)

// cell makes text fit into a table: characters that are not printed become spaces, and text that is longer than most is cut; 0 = never.
func cell(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	runes := []rune(s)
	if most == 0 || len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// sinkName shows the empty name, which stands for messages that could not be routed.
func sinkName(name string) string {
	if name == "" {
		return "''"
	}
	return name
}

// printParked lists deliveries.
func printParked(w io.Writer, found []store.Listed, more bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	rows := [][]string{{"ID", "SINK", "GROUP", "TYPE", "STATE", "ATTEMPTS", "NEXT", "CLASS", "ERROR"}}
	for i := range found {
		p := &found[i]
		rows = append(rows, []string{cell(p.Message.ID, 0), sinkName(p.Sink), cell(p.Message.Group, 0), cell(p.Message.Type, maxCell), string(p.State),
			fmt.Sprint(p.Attempts), next(p), cell(p.ErrorClass, maxCell), cell(p.LastError, maxMessage)})
	}
	if err := table(w, rows); err != nil || !more {
		return err
	}
	_, err := fmt.Fprint(w, andMore)
	return err
}

// next tells when a delivery is due.
func next(p *store.Listed) string {
	switch {
	case p.NextAttemptAt.IsZero():
		return "-"
	case time.Until(p.NextAttemptAt) <= 0:
		return "now"
	}
	return "in " + time.Until(p.NextAttemptAt).Round(time.Second).String()
}

// A parkedView is a delivery in -o json.
type parkedView struct {
	ID         string           `json:"id"`
	Sink       string           `json:"sink"`
	Table      string           `json:"table,omitempty"`
	Group      string           `json:"group,omitempty"`
	Type       string           `json:"type"`
	Topic      string           `json:"topic,omitempty"`
	Position   string           `json:"position"`
	State      checkpoint.State `json:"state"`
	Blocks     bool             `json:"blocks"`
	Attempts   int              `json:"attempts"`
	Tries      int              `json:"tries"`
	NextAt     *time.Time       `json:"next_attempt_at,omitempty"`
	ParkedAt   time.Time        `json:"parked_at"`
	ErrorClass string           `json:"error_class,omitempty"`
	LastError  string           `json:"last_error,omitempty"`
	Replays    int              `json:"replays"`
	Replaces   string           `json:"replaces,omitempty"`
}

func viewOf(p *store.Listed) parkedView {
	m := p.Message
	v := parkedView{ID: m.ID, Sink: p.Sink, Table: m.Table, Group: m.Group, Type: m.Type, Topic: m.Topic, Position: m.Position.String(),
		State: p.State, Blocks: p.Blocks, Attempts: p.Attempts, Tries: p.Tries, ErrorClass: p.ErrorClass, LastError: p.LastError, Replays: p.Replays,
		Replaces: p.Original, ParkedAt: p.ParkedAt}
	if !p.NextAttemptAt.IsZero() {
		v.NextAt = &p.NextAttemptAt
	}
	return v
}

func parkedViews(found []store.Listed) []parkedView {
	views := make([]parkedView, len(found))
	for i := range found {
		views[i] = viewOf(&found[i])
	}
	return views
}

// anyState is every state that can be listed.
func anyState() []checkpoint.State {
	return []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying, checkpoint.StateWaiting}
}

// printLanes lists lanes that wait.
func printLanes(w io.Writer, lanes []store.WaitingLane, limit int) error {
	if len(lanes) == 0 {
		_, err := fmt.Fprintln(w, "no group waits")
		return err
	}
	rows := [][]string{{"SINK", "GROUP", "PARKED", "WAITS", "FIRST", "TYPE", "ATTEMPTS", "NEXT", "ERROR"}}
	for i := range lanes {
		l := &lanes[i]
		name := sinkName(l.Sink)
		if l.Held && l.First == nil && l.Sink == "" {
			name = "all"
		}
		row := []string{name, cell(l.Group, 0), fmt.Sprint(l.Deliveries), waits(l)}
		if l.First == nil {
			row = append(row, "-", "-", "-", "-", "-")
		} else {
			row = append(row, cell(l.First.Message.ID, 0), cell(l.First.Message.Type, maxCell), fmt.Sprint(l.First.Attempts), next(l.First),
				cell(l.First.LastError, maxMessage))
		}
		rows = append(rows, row)
	}
	if err := table(w, rows); err != nil || limit == 0 || len(lanes) < limit {
		return err
	}
	_, err := fmt.Fprint(w, perhapsMore)
	return err
}

// waits tells what a lane waits for.
func waits(l *store.WaitingLane) string {
	switch {
	case l.Held:
		return "held by an operator"
	case l.First == nil:
		return "-"
	case l.First.State == checkpoint.StateDead:
		return "for an operator"
	case l.First.State == checkpoint.StateRetrying:
		return "for a retry"
	}
	return "for its turn"
}

// A laneView is a lane in -o json.
type laneView struct {
	Sink       string      `json:"sink"`
	Group      string      `json:"group"`
	Held       bool        `json:"held"`
	Deliveries int         `json:"deliveries"`
	First      *parkedView `json:"first,omitempty"`
}

func laneViews(lanes []store.WaitingLane) []laneView {
	views := make([]laneView, len(lanes))
	for i, l := range lanes {
		views[i] = laneView{Sink: l.Sink, Group: l.Group, Held: l.Held, Deliveries: l.Deliveries}
		if l.First != nil {
			first := viewOf(l.First)
			views[i].First = &first
		}
	}
	return views
}
