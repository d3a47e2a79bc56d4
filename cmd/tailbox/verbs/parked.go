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
	"github.com/tailbox/tailbox/source/store/view"
)

// What a list that is cut ends with; in JSON it is said beside it, on stderr.
const (
	andMore     = "and more: raise --limit\n"
	perhapsMore = "perhaps more: raise --limit\n"
)

// listFormats are what -o takes for a list of deliveries.
func listFormats() []string { return []string{"text", "wide", "json", "csv"} }

// listParked lists deliveries.
func listParked(sh *cli.Shell, o *cli.Output, found []store.Listed, more bool) error {
	switch o.Format {
	case "json", "csv":
		if more {
			fmt.Fprint(sh.Err, andMore)
		}
		if o.JSON {
			return cli.PrintJSON(sh.Out, view.OfDeliveries(found))
		}
		return cli.CSV(sh.Out, csvOf(found))
	case "wide":
		return printRows(sh.Out, wideOf(found), more)
	}
	return printParked(sh.Out, sh.Width, found, more)
}

// printParked lists deliveries on a screen; width 0 is wide enough for all.
func printParked(w io.Writer, width int, found []store.Listed, more bool) error {
	rows := [][]string{{"ID", "SINK", "GROUP", "TYPE", "STATE", "ATTEMPTS", "NEXT", "AGE", "CLASS", "ERROR"}}
	for i := range found {
		p := &found[i]
		rows = append(rows, []string{cli.Cell(p.Message.ID, 0), pipeline.SinkName(p.Sink), cli.Cell(p.Message.Group, 0), cli.Cell(p.Message.Type, cli.MaxCell), string(p.State),
			fmt.Sprint(p.Attempts), next(p), age(p.ParkedAt), cli.Cell(p.ErrorClass, cli.MaxCell), cli.Cell(p.LastError, cli.MaxMessage)})
	}
	const group, kind, attempts, due, class, text = 2, 3, 5, 6, 8, 9
	return printRows(w, cli.Fit(rows, width, map[int]int{kind: 12, class: 12, text: 30}, []int{due, attempts, kind, text, group}), more)
}

// wideOf is a table of everything about deliveries but what they hold.
func wideOf(found []store.Listed) [][]string {
	rows := [][]string{{"ID", "SINK", "TABLE", "GROUP", "TYPE", "TOPIC", "STATE", "ATTEMPTS", "TRIES", "REPLAYS", "NEXT", "AGE", "POSITION", "CLASS", "ERROR"}}
	for i := range found {
		p := &found[i]
		m := p.Message
		rows = append(rows, []string{cli.Cell(m.ID, 0), pipeline.SinkName(p.Sink), cli.Cell(m.Table, 0), cli.Cell(m.Group, 0), cli.Cell(m.Type, 0), cli.Cell(m.Topic, 0),
			string(p.State), fmt.Sprint(p.Attempts), fmt.Sprint(p.Tries), fmt.Sprint(p.Replays), next(p), age(p.ParkedAt), m.Position.String(), cli.Cell(p.ErrorClass, 0),
			cli.Cell(p.LastError, 0)})
	}
	return rows
}

// csvOf is the same for other programs, by the names of -o json.
func csvOf(found []store.Listed) [][]string {
	rows := [][]string{{"id", "sink", "table", "group", "type", "topic", "position", "state", "attempts", "tries", "replays", "next_attempt_at", "parked_at", "error_class", "last_error"}}
	for _, v := range view.OfDeliveries(found) {
		due := ""
		if v.NextAt != nil {
			due = v.NextAt.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{v.ID, v.Sink, v.Table, v.Group, v.Type, v.Topic, v.Position, string(v.State), fmt.Sprint(v.Attempts), fmt.Sprint(v.Tries),
			fmt.Sprint(v.Replays), due, v.ParkedAt.UTC().Format(time.RFC3339), v.ErrorClass, v.LastError})
	}
	return rows
}

// printRows prints a table with its heading.
func printRows(w io.Writer, rows [][]string, more bool) error {
	if len(rows) == 1 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	if err := cli.Table(w, rows); err != nil || !more {
		return err
	}
	_, err := fmt.Fprint(w, andMore)
	return err
}

// age tells how long ago something was.
func age(t time.Time) string {
	switch d := max(time.Since(t), 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
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

// anyState is every state that can be listed.
func anyState() []checkpoint.State {
	return []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying, checkpoint.StateWaiting}
}

// printLanes lists lanes that wait.
func printLanes(w io.Writer, lanes []operate.WaitingLane, more bool) error {
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
	if err := cli.Table(w, rows); err != nil || !more {
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
		return "for an operator (dead)"
	case l.First.State == checkpoint.StateRetrying:
		return "for a retry"
	}
	return "for its turn"
}
