package verbs

import (
	"fmt"
	"io"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// What a list that is cut ends with; in JSON it is said beside it, on stderr.
const (
	andMore     = "and more: raise --limit\n"
	perhapsMore = "perhaps more: raise --limit\n"
)

// listParked lists deliveries.
func listParked(sh *cli.Shell, o *cli.Output, found []store.Listed, more bool) error {
	if !o.JSON {
		return printParked(sh.Out, found, more)
	}
	if more {
		fmt.Fprint(sh.Err, andMore)
	}
	return cli.PrintJSON(sh.Out, parkedViews(found))
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
		rows = append(rows, []string{cli.Cell(p.Message.ID, 0), pipeline.SinkName(p.Sink), cli.Cell(p.Message.Group, 0), cli.Cell(p.Message.Type, cli.MaxCell), string(p.State),
			fmt.Sprint(p.Attempts), next(p), cli.Cell(p.ErrorClass, cli.MaxCell), cli.Cell(p.LastError, cli.MaxMessage)})
	}
	if err := cli.Table(w, rows); err != nil || !more {
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
func printLanes(w io.Writer, lanes []operate.WaitingLane, limit int) error {
	if len(lanes) == 0 {
		_, err := fmt.Fprintln(w, "no group waits")
		return err
	}
	rows := [][]string{{"SINK", "GROUP", "PARKED", "WAITS", "FIRST", "TYPE", "ATTEMPTS", "NEXT", "ERROR"}}
	for i := range lanes {
		l := &lanes[i]
		name := pipeline.SinkName(l.Sink)
		if l.Held && l.First == nil && l.Sink == "" {
			name = "all"
		}
		row := []string{name, cli.Cell(l.Group, 0), fmt.Sprint(l.Deliveries), waits(l)}
		if l.First == nil {
			row = append(row, "-", "-", "-", "-", "-")
		} else {
			row = append(row, cli.Cell(l.First.Message.ID, 0), cli.Cell(l.First.Message.Type, cli.MaxCell), fmt.Sprint(l.First.Attempts), next(l.First),
				cli.Cell(l.First.LastError, cli.MaxMessage))
		}
		rows = append(rows, row)
	}
	if err := cli.Table(w, rows); err != nil || limit == 0 || len(lanes) < limit {
		return err
	}
	_, err := fmt.Fprint(w, perhapsMore)
	return err
}

// waits tells what a lane waits for.
func waits(l *operate.WaitingLane) string {
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

func laneViews(lanes []operate.WaitingLane) []laneView {
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
