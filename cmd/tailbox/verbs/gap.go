package verbs

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/source/store/operate"
)

// NewAcceptGap is the command accept-gap.
func NewAcceptGap() *cli.Command {
	var file, why string
	var noWait, unreadable bool
	return &cli.Command{
		Name: "accept-gap", About: "gives up the messages in a gap of the log that tailbox cannot deliver",
		Long: "If tailbox can no longer read the log from the checkpoint, and no column shows which rows are still to be delivered, the relay stops.\n" +
			"With this command you give up what was written in the gap, or say that you dealt with it by hand. It counts for the gap that is there now,\n" +
			"and for no later one. If there is no gap, the command fails. If the relay stops because it cannot read one place in the log, use --unreadable.\n" +
			"tailbox then sweeps tables with delete or mark, and tables with keep and a column status or delivered_at. Of other tables, you lose what was\n" +
			"written between the checkpoint and the next start.",
		Example: `tailbox accept-gap --why "restored from backup, rows of the gap were sent by hand"`,
		Flags: func(fs *flag.FlagSet) {
			pipeline.ConfigFlag(fs, &file)
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit; required")
			fs.BoolVar(&unreadable, "unreadable", false, "give up the log from the checkpoint to the next start, because the relay cannot read one place in it")
			noWaitFlag(fs, &noWait)
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			if why == "" {
				return cli.WrongUsage("accept-gap: say why with --why TEXT: it is kept in tailbox_request")
			}
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			db := p.Database(sh.Log(), nil)
			gap, err := db.Gap(ctx)
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
				return errors.New("accept-gap: there is no gap: tailbox can read the log from the checkpoint, so nothing has to be given up. " +
					"If the relay stops because it cannot read one place in the log, add --unreadable")
			}
			fmt.Fprintf(sh.Out, "the gap: %s\n", gap.Why)
			v := &verb{request: checkpoint.Request{Verb: checkpoint.VerbAcceptGap, Reason: why, Selection: checkpoint.Selection{From: gap.From}},
				noWait: noWait, done: func(int) string { return "the gap is accepted" },
				later: "no relay is running, so the next tailbox run does it. Unless the slot holds what follows the gap, it goes on from the log's end as it is then: start it soon"}
			return v.perform(ctx, sh, ofConfig(p, db, sh))
		},
	}
}

// giveUp is the gap that there would be if the log could not be read from the checkpoint.
func giveUp(ctx context.Context, db operate.Database) (*operate.Gap, error) {
	r, err := db.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("accept-gap: %w", err)
	}
	if r.Running {
		return nil, errors.New("accept-gap: a relay is running: stop it first, then run this command again")
	}
	return &operate.Gap{From: r.Resume(), Why: "what follows the checkpoint " + string(r.Resume()) + " is given up, though the log has it"}, nil
}
