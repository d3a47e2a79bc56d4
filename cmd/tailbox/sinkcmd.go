package main

import (
	"context"
	"flag"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
)

func newSink() *command {
	return &command{
		name: "sink", about: "lists, pauses and resumes sinks", example: "tailbox sink pause mail\ntailbox sink resume mail",
		sub: []*command{newSinkList(), newSinkVerb(checkpoint.VerbPause), newSinkVerb(checkpoint.VerbResume)},
	}
}

func newSinkVerb(verbName checkpoint.Verb) *command {
	var file, why string
	var noWait bool
	about, past := "stops deliveries to sinks until resume; what comes for them is parked", "paused"
	if verbName == checkpoint.VerbResume {
		about, past = "lets deliveries to paused sinks go on; what is parked for them is due at once", "resumed"
	}
	return &command{
		name: string(verbName), args: "NAME…", about: about, example: "tailbox sink " + string(verbName) + " mail",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit")
			noWaitFlag(fs, &noWait)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return wrongUsage("sink %s: name the sinks: %s", verbName, strings.Join(p.config.Router.Sinks(), ", "))
			}
			if err := p.knowSinks("sink "+string(verbName), names); err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: verbName, Reason: why, Selection: checkpoint.Selection{Sinks: names}}, noWait: noWait,
				done: func(n int) string { return past + " " + count(n, "sink", "sinks") }}
			return v.perform(ctx, sh, p.database(sh.log(), nil))
		},
	}
}

// knowSinks refuses names that no sink of the configuration has.
func (p *parts) knowSinks(command string, names []string) error {
	known := p.config.Router.Sinks()
	for _, name := range names {
		if !slices.Contains(known, name) {
			return wrongUsage("%s: there is no sink %q: the configuration has %s", command, name, strings.Join(known, ", "))
		}
	}
	return nil
}
