package verbs

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/source/store/report"
)

// NewSink is the command sink.
func NewSink() *cli.Command {
	return &cli.Command{
		Name: "sink", About: "lists, pauses and resumes sinks", Example: "tailbox sink pause mail\ntailbox sink resume mail",
		Sub: []*cli.Command{newSinkList(), newSinkVerb(checkpoint.VerbPause), newSinkVerb(checkpoint.VerbResume)},
	}
}

func newSinkVerb(verbName checkpoint.Verb) *cli.Command {
	var where Where
	var why string
	var noWait bool
	about, past := "stops deliveries to sinks until resume; what comes for them is parked", "paused"
	if verbName == checkpoint.VerbResume {
		about, past = "lets deliveries to paused sinks go on; what is parked for them is due at once", "resumed"
	}
	return &cli.Command{
		Name: string(verbName), Args: "NAME…", About: about, Example: "tailbox sink " + string(verbName) + " mail",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit")
			noWaitFlag(fs, &noWait)
		},
		Run: func(ctx context.Context, sh *cli.Shell, names []string) error {
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				known, err := t.Sinks(ctx)
				if err != nil {
					return err
				}
				return cli.WrongUsage("sink %s: name the sinks: %s", verbName, strings.Join(known, ", "))
			}
			if err := knowSinks(ctx, t, "sink "+string(verbName), names); err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: verbName, Reason: why, Selection: checkpoint.Selection{Sinks: names}}, noWait: noWait,
				done: func(n int) string { return past + " " + cli.Count(n, "sink", "sinks") }}
			return v.perform(ctx, sh, t)
		},
	}
}

func newSinkList() *cli.Command {
	var where Where
	var output cli.Output
	return &cli.Command{
		Name: "list", Args: "[NAME…]", About: "lists sinks, their states, and what is parked for them",
		Long: "The state is asked from the relay that serves admin.listen: open, failing, paused or throttled. If it\n" +
			"cannot be asked, only paused is known.",
		Example: "tailbox sink list",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			output.Flag(fs)
		},
		Run: func(ctx context.Context, sh *cli.Shell, names []string) error {
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			if err := knowSinks(ctx, t, "sink list", names); err != nil {
				return err
			}
			r, err := t.Status(ctx)
			if err != nil {
				return err
			}
			var views []report.SinkCount
			for _, s := range r.Sinks {
				if len(names) > 0 && !slices.Contains(names, s.Sink) {
					continue
				}
				views = append(views, s)
			}
			if output.JSON {
				return cli.PrintJSON(sh.Out, views)
			}
			rows := [][]string{{"SINK", "KIND", "STATE", "RETRYING", "WAITING", "DEAD", "OVERDUE"}}
			for _, v := range views {
				rows = append(rows, []string{pipeline.SinkName(v.Sink), cli.Cell(v.Kind, cli.MaxCell), v.State, fmt.Sprint(v.Retrying), fmt.Sprint(v.Waiting),
					fmt.Sprint(v.Dead), report.Seconds(v.DueSeconds)})
			}
			return cli.Table(sh.Out, rows)
		},
	}
}

// knowSinks refuses names that no sink of the configuration has.
func knowSinks(ctx context.Context, t *Target, command string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	known, err := t.Sinks(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return cli.WrongUsage("%s: there is no sink %q: the configuration has %s", command, name, strings.Join(known, ", "))
		}
	}
	return nil
}
