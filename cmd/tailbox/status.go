package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/cmd/tailbox/verbs"
	"github.com/tailbox/tailbox/source/store/report"
)

func newStatus() *cli.Command {
	var where verbs.Where
	var output cli.Output
	return &cli.Command{
		Name: "status", About: "shows positions, lag, sinks, and what is parked, held and dead",
		Long: "It reads the database. The states of sinks (open, failing, paused or throttled) are asked from the relay that\n" +
			"serves admin.listen. If none answers, only paused is known.",
		Example: "tailbox status -c tailbox.yaml\ntailbox status -o json",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			output.Flag(fs)
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			r, err := t.Status(ctx)
			if err != nil {
				return err
			}
			if output.JSON {
				return cli.PrintJSON(sh.Out, r.Whole)
			}
			return printReport(sh.Out, r)
		},
	}
}

func printReport(w io.Writer, r *report.Status) error {
	rows := [][]string{{"pipeline", r.Pipeline}, {"relay", r.Relay}, {"source", r.Source}}
	rows = append(rows, r.Log...)
	rows = append(rows, []string{"checkpoint", r.Checkpoint.String()})
	if r.OpenRequests > 0 {
		rows = append(rows, []string{"requests", cli.Count(r.OpenRequests, "is", "are") + " not carried out yet"})
	}
	for _, lane := range r.Held {
		at := "at sink " + lane.Sink
		if lane.Sink == "" {
			at = "at every sink"
		}
		rows = append(rows, []string{"held", cli.Cell(lane.Group, 0) + " " + at})
	}
	for _, f := range r.Feedback {
		rows = append(rows, []string{"feedback", fmt.Sprintf("%s of table %s failed %s, last %s ago: %s", f.Outcome, f.Table, cli.Count(f.Failed, "time", "times"),
			report.Seconds(f.AgeSeconds), cli.Cell(f.Error, 0))})
	}
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading := [][]string{{"SINK", "STATE", "RETRYING", "WAITING", "DEAD", "GROUPS WAITING", "FOR AN OPERATOR", "OVERDUE", "OLDEST"}}
	for _, s := range r.Sinks {
		heading = append(heading, []string{pipeline.SinkName(s.Sink), s.State, fmt.Sprint(s.Retrying), fmt.Sprint(s.Waiting), fmt.Sprint(s.Dead),
			fmt.Sprint(s.Lanes), fmt.Sprint(s.HeldLanes), report.Seconds(s.DueSeconds), report.Seconds(s.UndeliveredSeconds)})
	}
	return cli.Table(w, heading)
}
