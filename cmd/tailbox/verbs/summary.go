package verbs

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/view"
)

func newDeadSummary() *cli.Command {
	var where Where
	var output cli.Output
	var state stateFlag
	by := causes()
	return &cli.Command{
		Name: "summary", About: "counts dead deliveries by what they have in common, the most frequent first",
		Long: "FIRST is the time since the first of them died, LAST since the last. EXAMPLE is the ID of one of them, for dead show.\n" +
			"It counts the newest 250,000 dead deliveries, or 30,000 of other states, and prints the 500 most frequent groups.",
		Example: "tailbox dead summary\ntailbox dead summary --by sink -o json",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			fs.Func("by", "what a group has in common, a `LIST` of class, type, sink (default all of them)", func(list string) error {
				by = nil
				for word := range strings.SplitSeq(list, ",") {
					cause := operate.Cause(strings.TrimSpace(word))
					if !slices.Contains(causes(), cause) {
						return fmt.Errorf("must be a list of class, type, sink")
					}
					by = append(by, cause)
				}
				return nil
			})
			state.flag(fs)
			output.Flag(fs)
		},
		Run: func(ctx context.Context, sh *cli.Shell, args []string) error {
			if len(args) > 0 {
				return cli.WrongUsage("dead summary: takes no argument, and has %q: to see deliveries, use tailbox dead list", args[0])
			}
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			found, err := t.Summarize(ctx, state.states(), by)
			if err != nil {
				return err
			}
			if output.JSON {
				if found.Partial {
					fmt.Fprint(sh.Err, uncounted)
				}
				return cli.PrintJSON(sh.Out, view.OfFailures(found.Failures, by))
			}
			if err := printRows(sh.Out, summaryOf(found.Failures, by, sh.Width), false); err != nil || !found.Partial {
				return err
			}
			_, err = fmt.Fprint(sh.Out, uncounted)
			return err
		},
	}
}

// uncounted is what a summary ends with that is cut; in JSON it is said beside it, on stderr.
const uncounted = "and more: not all deliveries are counted, or not all groups shown\n"

// summaryOf is a table of failures; width 0 is wide enough for all.
func summaryOf(failures []operate.Failure, by []operate.Cause, width int) [][]string {
	heading := []string{"COUNT"}
	for _, cause := range by {
		heading = append(heading, strings.ToUpper(string(cause)))
	}
	rows := [][]string{append(heading, "FIRST", "LAST", "EXAMPLE", "ERROR")}
	for i := range failures {
		f := &failures[i]
		row := []string{fmt.Sprint(f.Count)}
		for _, cause := range by {
			row = append(row, map[operate.Cause]string{operate.ByClass: cli.Cell(f.Class, cli.MaxCell), operate.ByType: cli.Cell(f.Type, cli.MaxCell),
				operate.BySink: pipeline.SinkName(f.Sink)}[cause])
		}
		id, text := "-", "-"
		if f.Example != nil {
			id, text = cli.Cell(f.Example.Message.ID, 0), cli.Cell(f.Example.LastError, cli.MaxMessage)
		}
		rows = append(rows, append(row, age(f.First), age(f.Last), id, text))
	}
	last := len(rows[0]) - 1
	return cli.Fit(rows, width, map[int]int{last: 30}, []int{last})
}

func causes() []operate.Cause {
	return []operate.Cause{operate.ByClass, operate.ByType, operate.BySink}
}
