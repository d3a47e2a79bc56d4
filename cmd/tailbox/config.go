package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/cmd/tailbox/verbs"
)

func newConfig() *cli.Command {
	return &cli.Command{
		Name: "config", About: "shows the configuration as tailbox reads it, or writes a first one",
		Example: "tailbox config init --source postgres --sink kafka\ntailbox config show -c tailbox.yaml",
		Sub:     []*cli.Command{newConfigInit(), newConfigShow()},
	}
}

func newConfigShow() *cli.Command {
	var where verbs.Where
	return &cli.Command{
		Name: "show", About: "prints the effective configuration: with defaults and the environment filled in, and secrets masked",
		Long: "It prints YAML. *** stands for a password, a token, a header's value, the user of a URL, and what else may be secret.\n" +
			"It asks neither the database nor a sink.",
		Example: "tailbox config show -c tailbox.yaml",
		Flags:   where.Flags,
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			text, err := t.Configuration(ctx)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(sh.Out, text)
			return err
		},
	}
}

func newConfigInit() *cli.Command {
	sources, sinks := pipeline.StarterKinds()
	var file, source, sink string
	var print bool
	return &cli.Command{
		Name: "init", About: "writes a first configuration with comments, for a database and a sink",
		Long: "It writes tailbox.yaml, or the file that -c names, and never overwrites one. The file shows what can be set, with defaults.\n" +
			"tailbox init then creates tables, slot and checkpoint in the database.",
		Example: "tailbox config init --source postgres --sink kafka\ntailbox config init --source mysql --sink http --print",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&file, "c", "", "configuration to write, a new `FILE` (default tailbox.yaml)")
			fs.StringVar(&source, "source", "", "`KIND`: "+cli.Choice(sources))
			fs.StringVar(&sink, "sink", "", "`KIND`: "+cli.Choice(sinks))
			fs.BoolVar(&print, "print", false, "print the configuration and write no file")
		},
		Run: func(_ context.Context, sh *cli.Shell, _ []string) error {
			for _, f := range []struct {
				name, value string
				kinds       []string
			}{{"source", source, sources}, {"sink", sink, sinks}} {
				switch {
				case f.value == "":
					return cli.WrongUsage("config init: --%s is missing: say which kind it is: %s", f.name, cli.Choice(f.kinds))
				case !slices.Contains(f.kinds, f.value):
					return cli.WrongUsage("config init: --%s %q: must be %s", f.name, f.value, cli.Choice(f.kinds))
				}
			}
			text, err := pipeline.Starter(source, sink)
			if err != nil {
				return err
			}
			if print {
				_, err := fmt.Fprint(sh.Out, text)
				return err
			}
			name := cmp.Or(file, "tailbox.yaml")
			if err := writeNew(name, text); err != nil {
				return err
			}
			next := "run tailbox check -c " + name
			if needs := pipeline.StarterNeeds(text); len(needs) > 0 {
				next = "set " + strings.Join(needs, " and ") + " in the environment, and " + next
			}
			_, err = fmt.Fprintf(sh.Out, "wrote %s: %s\n", name, next)
			return err
		},
	}
}

// writeNew writes a file that is not there yet.
func writeNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return cli.WrongUsage("config init: %s is there already: name another file with -c, or use --print", name)
	}
	if err != nil {
		return fmt.Errorf("config init: write the configuration: %w: name another file with -c, or use --print", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("config init: write %s: %w", name, errors.Join(err, os.Remove(name)))
	}
	return nil
}
