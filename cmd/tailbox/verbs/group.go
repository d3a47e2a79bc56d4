package verbs

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source/store/view"
)

// NewGroup is the command group.
func NewGroup() *cli.Command {
	return &cli.Command{
		Name: "group", About: "lists message groups that wait, and lets them go on",
		Long: "A group waits at a sink when a delivery of it is retried, when one is dead and its route holds the group, or when an\n" +
			"operator holds it. What follows in the group is parked behind it, in order.",
		Example: "tailbox group list\ntailbox group skip order:42 --why 'cancelled'",
		Sub: []*cli.Command{
			newGroupList(), newGroupShow(),
			newGroupVerb(checkpoint.VerbReplay, "makes the dead deliveries of groups due again, in order", "replaying", "delivery", "deliveries"),
			newGroupVerb(checkpoint.VerbSkip, "lets groups go on past their dead deliveries, which stay dead, or else past a first one that is retried, which becomes dead",
				"passed", "dead delivery", "dead deliveries"),
			newGroupVerb(checkpoint.VerbHold, "makes groups wait until resume", "holding", "group", "groups"),
			newGroupVerb(checkpoint.VerbResume, "ends hold", "resumed", "group", "groups"),
		},
	}
}

// groupLister holds the flags of a command that lists something of groups.
type groupLister struct {
	where  Where
	at     sinkFlag
	limit  int
	output cli.Output
}

// flags adds the flags. Many is what the limit bounds.
func (g *groupLister) flags(fs *flag.FlagSet, many string) {
	g.where.Flags(fs)
	g.at.flag(fs, "only at this sink, `NAME`")
	fs.IntVar(&g.limit, "limit", listLimit, "at most `N` "+many+"; 0 = no limit")
	g.output.Flag(fs)
}

// open loads the configuration and checks the flags of a command.
func (g *groupLister) open(ctx context.Context, sh *cli.Shell, command string) (*Target, error) {
	t, err := g.where.Open(ctx, sh)
	if err != nil {
		return nil, err
	}
	if g.limit < 0 {
		return nil, cli.WrongUsage("--limit %d: must not be negative", g.limit)
	}
	return t, g.at.known(ctx, t, command)
}

func newGroupList() *cli.Command {
	var g groupLister
	return &cli.Command{
		Name: "list", Args: "[NAME…]", About: "lists lanes that wait, and what for", Example: "tailbox group list --sink mail",
		Flags: func(fs *flag.FlagSet) { g.flags(fs, "lanes") },
		Run: func(ctx context.Context, sh *cli.Shell, names []string) error {
			t, err := g.open(ctx, sh, "group list")
			if err != nil {
				return err
			}
			lanes, next, err := t.Lanes(ctx, g.at.in(checkpoint.Selection{Groups: names}), checkpoint.Lane{}, g.limit)
			if err != nil {
				return err
			}
			if g.output.JSON {
				if next != nil {
					fmt.Fprint(sh.Err, perhapsMore)
				}
				return cli.PrintJSON(sh.Out, view.OfLanes(lanes))
			}
			return printLanes(sh.Out, lanes, next != nil)
		},
	}
}

func newGroupShow() *cli.Command {
	var g groupLister
	return &cli.Command{
		Name: "show", Args: "NAME", About: "lists everything that is parked in a group, in order", Example: "tailbox group show order:42",
		Flags: func(fs *flag.FlagSet) { g.flags(fs, "deliveries") },
		Run: func(ctx context.Context, sh *cli.Shell, names []string) error {
			if len(names) != 1 {
				return cli.WrongUsage("group show: name one group")
			}
			t, err := g.open(ctx, sh, "group show")
			if err != nil {
				return err
			}
			found, more, err := t.Parked(ctx, g.at.in(checkpoint.Selection{Groups: names, States: anyState()}), g.limit)
			if err != nil {
				return err
			}
			return listParked(sh, &g.output, found, more)
		},
	}
}

func newGroupVerb(name checkpoint.Verb, about, past, one, many string) *cli.Command {
	var where Where
	var why string
	var at sinkFlag
	var noWait bool
	return &cli.Command{
		Name: string(name), Args: "NAME…", About: about, Example: fmt.Sprintf("tailbox group %s order:42 --sink mail", name),
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			at.flag(fs, "only at this sink, `NAME`")
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit")
			noWaitFlag(fs, &noWait)
		},
		Run: func(ctx context.Context, sh *cli.Shell, names []string) error {
			if len(names) == 0 {
				return cli.WrongUsage("group %s: name the groups, as tailbox group list tells them", name)
			}
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			if err := at.fits(ctx, t, name); err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: name, Reason: why, Selection: at.in(checkpoint.Selection{Groups: names})}, noWait: noWait,
				groups: name == checkpoint.VerbResume, done: func(n int) string { return past + " " + cli.Count(n, one, many) }}
			if name == checkpoint.VerbSkip {
				return v.skip(ctx, sh, t)
			}
			return v.perform(ctx, sh, t)
		},
	}
}

// skip passes the dead deliveries of groups. A group in which nothing is dead and whose first delivery at one sink is retried goes on past
// that: it becomes dead.
func (v *verb) skip(ctx context.Context, sh *cli.Shell, t *Target) error {
	sel := v.request.Selection
	lanes, _, err := t.Lanes(ctx, sel, checkpoint.Lane{}, 0)
	if err != nil {
		return err
	}
	dead, retried := map[string]bool{}, map[string][]string{}
	for i := range lanes {
		switch l := &lanes[i]; {
		case l.First == nil:
		case l.First.State == checkpoint.StateDead:
			dead[l.Group] = true
		case l.First.State == checkpoint.StateRetrying:
			retried[l.Group] = append(retried[l.Group], l.Sink)
		}
	}
	var rest []string
	at := map[string][]string{} // groups by the sink at which they are retried
	for _, group := range sel.Groups {
		sinks := retried[group]
		switch {
		case dead[group] || len(sinks) == 0:
			rest = append(rest, group)
		case len(sinks) > 1:
			return cli.WrongUsage("group skip: the first delivery of group %s is retried at several sinks, %s: choose one with --sink", group, strings.Join(sinks, ", "))
		default:
			at[sinks[0]] = append(at[sinks[0]], group)
		}
	}
	for _, sink := range slices.Sorted(maps.Keys(at)) {
		w := *v
		w.request.Selection = checkpoint.Selection{Groups: at[sink], Sink: sink, States: []checkpoint.State{checkpoint.StateRetrying}}
		w.done = func(n int) string {
			return "passed " + cli.Count(n, "delivery that was retried, and is a dead letter now", "deliveries that were retried, and are dead letters now")
		}
		if err := w.perform(ctx, sh, t); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	v.request.Selection.Groups = rest
	return v.perform(ctx, sh, t)
}

// fits refuses a sink at which a verb for groups can do nothing: one that is not there can only be resumed where it is held
// still, and only have deliveries replayed or skipped that are parked for it.
func (f *sinkFlag) fits(ctx context.Context, t *Target, v checkpoint.Verb) error {
	command := "group " + string(v)
	if v != checkpoint.VerbHold && v != checkpoint.VerbResume || !f.set {
		return f.known(ctx, t, command)
	}
	if f.name == "" {
		return cli.WrongUsage("%s: at the sink '' nothing can be held: leave --sink out to %s the group at every sink", command, v)
	}
	unknown := knowSinks(ctx, t, command, []string{f.name})
	if unknown == nil || v == checkpoint.VerbHold {
		return unknown
	}
	st, err := t.Status(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(st.Held, func(lane checkpoint.Lane) bool { return lane.Sink == f.name }) {
		return nil
	}
	return unknown
}
