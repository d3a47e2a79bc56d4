package main

import (
	"context"
	"flag"

	"github.com/tailbox/tailbox/checkpoint"
)

func newAcceptGap() *command {
	var file, why string
	var noWait bool
	return &command{
		name: "accept-gap", about: "goes on from the log's present end after a gap that no sweep can heal",
		long: "Where the log can no longer be read from the checkpoint, and no status column tells which rows are still to be delivered,\n" +
			"the relay stops. With this the operator says that what was written in the gap is given up, or was dealt with by hand.",
		example: `tailbox accept-gap --why "restored from backup, rows of the gap were sent by hand"`,
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit; required")
			noWaitFlag(fs, &noWait)
		},
		run: func(ctx context.Context, sh *shell, _ []string) error {
			if why == "" {
				return wrongUsage("accept-gap: say why with --why TEXT: it is kept in tailbox_request")
			}
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: checkpoint.VerbAcceptGap, Reason: why}, noWait: noWait,
				done: func(int) string { return "the gap is accepted" }}
			return v.perform(ctx, sh, p.postgres(sh.log(), nil))
		},
	}
}
