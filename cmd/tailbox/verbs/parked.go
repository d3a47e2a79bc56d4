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

// listParked lists deliveries.
func listParked(sh *cli.Shell, o *cli.Output, found []store.Listed, more bool) error {
	if !o.JSON {
		return printParked(sh.Out, found, more)
	}
	if more {
		fmt.Fprint(sh.Err, andMore)
	}
	return cli.PrintJSON(sh.Out, view.OfDeliveries(found))
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
