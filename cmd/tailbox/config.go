package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
)

func newConfig() *cli.Command {
	return &cli.Command{
		Name: "config", About: "shows the configuration as tailbox reads it, or writes a first one",
		Example: "tailbox config init --source postgres --sink kafka\ntailbox config show -c tailbox.yaml",
		Sub:     []*cli.Command{newConfigShow()},
	}
}

func newConfigShow() *cli.Command {
	var file string
	return &cli.Command{
		Name: "show", About: "prints the effective configuration: with defaults and the environment filled in, and secrets masked",
		Long: "It prints YAML. *** stands for a password, a token, a header's value, the user of a URL, and what else may be secret.\n" +
			"It asks neither the database nor a sink.",
		Example: "tailbox config show -c tailbox.yaml",
		Flags:   func(fs *flag.FlagSet) { pipeline.ConfigFlag(fs, &file) },
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(sh.Out, p.Effective)
			return err
		},
	}
}
