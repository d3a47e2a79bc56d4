package main

import (
	"context"
	"flag"
	"fmt"
)

func newUninstall() *command {
	var file string
	var print, force bool
	return &command{
		name: "uninstall", about: "drops slot, publication and the tables tailbox_*; the outbox tables stay",
		long: "A slot or a publication that the pipeline has not made is left, and named.\n" +
			"It refuses while a relay runs, and while deliveries are parked, for they would be lost. A slot that nobody reads keeps the\n" +
			"server's log for ever, so do not just remove the binary.",
		example: "tailbox uninstall --print\ntailbox uninstall",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.BoolVar(&print, "print", false, "print the SQL and do nothing")
			fs.BoolVar(&force, "force", false, "even if deliveries are parked: they are lost")
		},
		run: func(ctx context.Context, sh *shell, _ []string) error {
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			db := p.database(sh.log(), nil)
			if print {
				script, err := db.uninstallScript()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(sh.out, script)
				return err
			}
			dropped, left, err := db.uninstall(ctx, force)
			if err != nil {
				return err
			}
			for _, what := range dropped {
				fmt.Fprintf(sh.out, "dropped %s\n", what)
			}
			for _, what := range left {
				fmt.Fprintf(sh.out, "left %s\n", what)
			}
			if len(dropped)+len(left) == 0 {
				fmt.Fprintln(sh.out, "nothing is there")
			}
			return nil
		},
	}
}
