package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
)

func newAcceptGap() *command {
	var file, why string
	var noWait bool
	return &command{
		name: "accept-gap", about: "goes on from the log's present end after a gap that no sweep can heal",
		long: "Where the log can no longer be read from the checkpoint, and no status column tells which rows are still to be delivered,\n" +
			"the relay stops. With this the operator says that what was written in the gap is given up, or was dealt with by hand.\n" +
			"It counts for the gap that is there now, and for no later one; where there is none, it is refused.",
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
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			db := p.database(sh.log(), nil)
			gap, err := db.gap(ctx)
			if err != nil {
				return fmt.Errorf("accept-gap: %w", err)
			}
			if gap == nil {
				return errors.New("accept-gap: there is no gap: the log can be read from the checkpoint, and nothing has to be given up")
			}
			fmt.Fprintf(sh.out, "the gap: %s\n", gap.Why)
			v := &verb{request: checkpoint.Request{Verb: checkpoint.VerbAcceptGap, Reason: why, Selection: checkpoint.Selection{From: gap.From}},
				noWait: noWait, done: func(int) string { return "the gap is accepted" },
				later: "no relay is running, so the next tailbox run does it. It goes on from the log's end as it is then: start it soon"}
			return v.perform(ctx, sh, db)
		},
	}
}
