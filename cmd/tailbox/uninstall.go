package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
)

func newUninstall() *cli.Command {
	var file string
	var print, force bool
	return &cli.Command{
		Name: "uninstall", About: "drops slot, publication and the tables tailbox_*; the outbox tables stay",
		Long: "A slot or a publication that the pipeline has not made is left, and named.\n" +
			"It refuses while a relay runs, and while deliveries are parked, for they would be lost. A slot that nobody reads keeps the\n" +
			"server's log for ever, so do not just remove the binary.",
		Example: "tailbox uninstall --print\ntailbox uninstall",
		Flags: func(fs *flag.FlagSet) {
			pipeline.ConfigFlag(fs, &file)
			fs.BoolVar(&print, "print", false, "print the SQL and do nothing")
			fs.BoolVar(&force, "force", false, "even if deliveries are parked: they are lost")
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			db := p.Database(sh.Log(), nil)
			if print {
				script, err := db.UninstallScript()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(sh.Out, script)
				return err
			}
			dropped, left, err := db.Uninstall(ctx, force)
			if err != nil {
				return err
			}
			for _, what := range dropped {
				fmt.Fprintf(sh.Out, "dropped %s\n", what)
			}
			for _, what := range left {
				fmt.Fprintf(sh.Out, "left %s\n", what)
			}
			if len(dropped)+len(left) == 0 {
				fmt.Fprintln(sh.Out, "nothing is there")
			}
			return nil
		},
	}
}
