package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
)

func newGroup() *command {
	return &command{
		name: "group", about: "lists message groups that wait, and lets them go on",
		long: "A group waits at a sink when a delivery of it is retried, when one is dead and its route holds the group, or when an\n" +
			"operator holds it. What follows in the group is parked behind it, in order.",
		example: "tailbox group list\ntailbox group skip order:42 --why 'cancelled'",
		sub: []*command{
			newGroupList(), newGroupShow(),
			newGroupVerb(checkpoint.VerbReplay, "makes the dead deliveries of groups due again, in order", "replaying", "delivery", "deliveries"),
			newGroupVerb(checkpoint.VerbSkip, "lets groups go on past their dead deliveries, which stay dead, or else past a first one that is retried, which becomes dead",
				"passed", "dead delivery", "dead deliveries"),
			newGroupVerb(checkpoint.VerbHold, "makes groups wait until resume", "holding", "group", "groups"),
			newGroupVerb(checkpoint.VerbResume, "ends hold", "resumed", "group", "groups"),
		},
	}
}

func newGroupList() *command {
	var file string
	var at sinkFlag
	var output output
	limit := listLimit
	return &command{
		name: "list", args: "[NAME…]", about: "lists lanes that wait, and what for", example: "tailbox group list --sink mail",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			at.flag(fs, "only at this sink, `NAME`")
			fs.IntVar(&limit, "limit", limit, "at most `N` lanes; 0 = no limit")
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			if limit < 0 {
				return wrongUsage("--limit %d: must not be negative", limit)
			}
			db := p.database(sh.log(), nil)
			if err := at.known(ctx, p, db, "group list"); err != nil {
				return err
			}
			lanes, err := db.lanes(ctx, at.in(checkpoint.Selection{Groups: names}), limit)
			if err != nil {
				return err
			}
			if output.json {
				if limit > 0 && len(lanes) >= limit {
					fmt.Fprint(sh.err, perhapsMore)
				}
				return printJSON(sh.out, laneViews(lanes))
			}
			return printLanes(sh.out, lanes, limit)
		},
	}
}

func newGroupShow() *command {
	var file string
	var at sinkFlag
	var output output
	limit := listLimit
	return &command{
		name: "show", args: "NAME", about: "lists everything that is parked in a group, in order", example: "tailbox group show order:42",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			at.flag(fs, "only at this sink, `NAME`")
			fs.IntVar(&limit, "limit", limit, "at most `N` deliveries; 0 = no limit")
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			if len(names) != 1 {
				return wrongUsage("group show: name one group")
			}
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			if limit < 0 {
				return wrongUsage("--limit %d: must not be negative", limit)
			}
			db := p.database(sh.log(), nil)
			if err := at.known(ctx, p, db, "group show"); err != nil {
				return err
			}
			found, more, err := db.parked(ctx, at.in(checkpoint.Selection{Groups: names, States: anyState()}), limit)
			if err != nil {
				return err
			}
			return output.parked(sh, found, more)
		},
	}
}

func newGroupVerb(name checkpoint.Verb, about, past, one, many string) *command {
	var file, why string
	var at sinkFlag
	var noWait bool
	return &command{
		name: string(name), args: "NAME…", about: about, example: fmt.Sprintf("tailbox group %s order:42 --sink mail", name),
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			at.flag(fs, "only at this sink, `NAME`")
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit")
			noWaitFlag(fs, &noWait)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			if len(names) == 0 {
				return wrongUsage("group %s: name the groups, as tailbox group list tells them", name)
			}
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			db := p.database(sh.log(), nil)
			if err := at.fits(ctx, p, db, name); err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: name, Reason: why, Selection: at.in(checkpoint.Selection{Groups: names})}, noWait: noWait,
				groups: name == checkpoint.VerbResume, done: func(n int) string { return past + " " + count(n, one, many) }}
			if name == checkpoint.VerbSkip {
				return v.skip(ctx, sh, db)
			}
			return v.perform(ctx, sh, db)
		},
	}
}

// skip passes the dead deliveries of groups. A group in which nothing is dead and whose first delivery at one sink is retried goes on past
// that: it becomes dead.
func (v *verb) skip(ctx context.Context, sh *shell, db database) error {
	sel := v.request.Selection
	lanes, err := db.lanes(ctx, sel, 0)
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
			return wrongUsage("group skip: the first delivery of group %s is retried at several sinks, %s: choose one with --sink", group, strings.Join(sinks, ", "))
		default:
			at[sinks[0]] = append(at[sinks[0]], group)
		}
	}
	for _, sink := range slices.Sorted(maps.Keys(at)) {
		w := *v
		w.request.Selection = checkpoint.Selection{Groups: at[sink], Sink: sink, States: []checkpoint.State{checkpoint.StateRetrying}}
		w.done = func(n int) string {
			return "passed " + count(n, "delivery that was retried, and is a dead letter now", "deliveries that were retried, and are dead letters now")
		}
		if err := w.perform(ctx, sh, db); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	v.request.Selection.Groups = rest
	return v.perform(ctx, sh, db)
}

// fits refuses a sink at which a verb for groups can do nothing: one that is not there can only be resumed where it is held
// still, and only have deliveries replayed or skipped that are parked for it.
func (f *sinkFlag) fits(ctx context.Context, p *parts, db database, v checkpoint.Verb) error {
	command := "group " + string(v)
	if v != checkpoint.VerbHold && v != checkpoint.VerbResume || !f.set {
		return f.known(ctx, p, db, command)
	}
	if f.name == "" {
		return wrongUsage("%s: at the sink '' nothing can be held: leave --sink out to %s the group at every sink", command, v)
	}
	unknown := p.knowSinks(command, []string{f.name})
	if unknown == nil || v == checkpoint.VerbHold {
		return unknown
	}
	r, err := db.status(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.held, func(lane checkpoint.Lane) bool { return lane.Sink == f.name }) {
		return nil
	}
	return unknown
}
