package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

func newAcceptGap() *command {
	var file, why string
	var noWait, unreadable bool
	return &command{
		name: "accept-gap", about: "goes on behind a gap of the log that no sweep can heal",
		long: "Where the log can no longer be read from the checkpoint, and no status column tells which rows are still to be delivered,\n" +
			"the relay stops. With this the operator says that what was written in the gap is given up, or was dealt with by hand.\n" +
			"It counts for the gap that is there now, and for no later one; where there is none, it is refused. A place at which the relay stops, though\n" +
			"the log goes on there, is given up with --unreadable: tables with delete or mark are swept, of others what follows up to the next start is lost.",
		example: `tailbox accept-gap --why "restored from backup, rows of the gap were sent by hand"`,
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit; required")
			fs.BoolVar(&unreadable, "unreadable", false, "give up a log that is all there, and that the relay cannot read on in")
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
			if gap == nil && unreadable {
				gap, err = giveUp(ctx, db)
			}
			if err != nil {
				return err
			}
			if gap == nil {
				return errors.New("accept-gap: there is no gap: the log can be read from the checkpoint, and nothing has to be given up (where the relay stops at a place in " +
					"it all the same: --unreadable)")
			}
			fmt.Fprintf(sh.out, "the gap: %s\n", gap.Why)
			v := &verb{request: checkpoint.Request{Verb: checkpoint.VerbAcceptGap, Reason: why, Selection: checkpoint.Selection{From: gap.From}},
				noWait: noWait, done: func(int) string { return "the gap is accepted" },
				later: "no relay is running, so the next tailbox run does it. Unless the slot holds what follows the gap, it goes on from the log's end as it is then: start it soon"}
			return v.perform(ctx, sh, db)
		},
	}
}

// giveUp is the gap that there would be if the log could not be read from the checkpoint.
func giveUp(ctx context.Context, db database) (*store.Gap, error) {
	r, err := db.status(ctx)
	if err != nil {
		return nil, fmt.Errorf("accept-gap: %w", err)
	}
	if r.running {
		return nil, errors.New("accept-gap: a relay is running: what it reads is not unreadable")
	}
	return &store.Gap{From: r.resume, Why: "what follows the checkpoint " + string(r.resume) + " is given up, though the log has it"}, nil
}
