package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres"
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
			newGroupVerb(checkpoint.VerbSkip, "lets groups go on past their dead deliveries, which stay dead", "passed", "dead delivery", "dead deliveries"),
			newGroupVerb(checkpoint.VerbHold, "makes groups wait until resume", "holding", "group", "groups"),
			newGroupVerb(checkpoint.VerbResume, "ends hold", "resumed", "group", "groups"),
		},
	}
}

func newGroupList() *command {
	var file, sinkName string
	var output output
	limit := listLimit
	return &command{
		name: "list", args: "[NAME…]", about: "lists lanes that wait, and what for", example: "tailbox group list --sink mail",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.StringVar(&sinkName, "sink", "", "only at this sink, `NAME`")
			fs.IntVar(&limit, "limit", limit, "at most `N` lanes; 0 = no limit")
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			lanes, err := postgres.ListLanes(ctx, p.postgres(sh.log(), nil), checkpoint.Selection{Sink: sinkName, Groups: names}, limit)
			if err != nil {
				return err
			}
			if output.json {
				return printJSON(sh.out, laneViews(lanes))
			}
			return printLanes(sh.out, lanes, limit)
		},
	}
}

func newGroupShow() *command {
	var file, sinkName string
	var output output
	limit := listLimit
	return &command{
		name: "show", args: "NAME", about: "lists everything that is parked in a group, in order", example: "tailbox group show order:42",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.StringVar(&sinkName, "sink", "", "only at this sink, `NAME`")
			fs.IntVar(&limit, "limit", limit, "at most `N` deliveries; 0 = no limit")
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			if len(names) != 1 {
				return wrongUsage("group show: name one group")
			}
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			found, more, err := postgres.ListParked(ctx, p.postgres(sh.log(), nil),
				checkpoint.Selection{Groups: names, Sink: sinkName, States: anyState()}, limit)
			if err != nil {
				return err
			}
			if output.json {
				return printJSON(sh.out, parkedViews(found))
			}
			return printParked(sh.out, found, more)
		},
	}
}

func newGroupVerb(name checkpoint.Verb, about, past, one, many string) *command {
	var file, sinkName, why string
	var noWait bool
	return &command{
		name: string(name), args: "NAME…", about: about, example: fmt.Sprintf("tailbox group %s order:42 --sink mail", name),
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.StringVar(&sinkName, "sink", "", "only at this sink, `NAME`")
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit")
			noWaitFlag(fs, &noWait)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			if len(names) == 0 {
				return wrongUsage("group %s: name the groups, as tailbox group list tells them", name)
			}
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: name, Reason: why, Selection: checkpoint.Selection{Groups: names, Sink: sinkName}},
				noWait: noWait, done: func(n int) string { return past + " " + count(n, one, many) }}
			return v.perform(ctx, sh, p.postgres(sh.log(), nil))
		},
	}
}
