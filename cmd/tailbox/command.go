package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A command is one word of the command line, with further words below it or with something to do.
type command struct {
	name string
	// args names the arguments in the usage line, such as "ID…".
	args string
	// about is one line, long more of it, example a command line or several.
	about, long, example string
	flags                func(*flag.FlagSet)
	run                  func(ctx context.Context, sh *shell, args []string) error
	sub                  []*command
}

// root is the whole command line.
func root() *command {
	return &command{
		name:  "tailbox",
		about: "relays the messages of outbox tables to sinks by tailing the database's log",
		sub: []*command{newDemo(), newInit(), newCheck(), newRun(), newStatus(), newDead(), newGroup(), newSink(),
			newAcceptGap(), newSend(), newImport(), newUninstall(), newVersion()},
		example: "tailbox demo\ntailbox init -c tailbox.yaml && tailbox run -c tailbox.yaml",
	}
}

// execute finds the command that args name and runs it. path is how the command was reached.
func (c *command) execute(ctx context.Context, sh *shell, path string, args []string) error {
	if c.run == nil {
		return c.descend(ctx, sh, path, args)
	}
	fs := flag.NewFlagSet(path, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	if c.flags != nil {
		c.flags(fs)
	}
	rest, err := parseFlags(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return c.help(sh.out, path, fs)
	}
	if err != nil {
		return wrongUsage("%s: %w: see %s -h", strings.TrimPrefix(path, "tailbox "), err, path)
	}
	if c.args == "" && len(rest) > 0 {
		return wrongUsage("%s: unexpected argument %q: see %s -h", c.name, rest[0], path)
	}
	return c.run(ctx, sh, rest)
}

func (c *command) descend(ctx context.Context, sh *shell, path string, args []string) error {
	if len(args) == 0 {
		if err := c.help(sh.err, path, nil); err != nil {
			return err
		}
		return wrongUsage("name a command, such as %s %s", path, c.sub[0].name)
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		if len(args) > 1 && args[0] == "help" {
			return c.descend(ctx, sh, path, append(slices.Clone(args[1:]), "-h"))
		}
		return c.help(sh.out, path, nil)
	}
	var names []string
	for _, sub := range c.sub {
		if sub.name == args[0] {
			return sub.execute(ctx, sh, path+" "+sub.name, args[1:])
		}
		names = append(names, sub.name)
	}
	return wrongUsage("unknown command %q: choose one of %s; see %s -h", strings.TrimSpace(path[len("tailbox"):]+" "+args[0]), strings.Join(names, ", "), path)
}

// parseFlags lets flags stand after arguments, up to an argument "--".
func parseFlags(fs *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		taken := len(args) - fs.NArg()
		if fs.NArg() == 0 || taken > 0 && args[taken-1] == "--" {
			return append(rest, fs.Args()...), nil
		}
		rest = append(rest, fs.Arg(0))
		args = fs.Args()[1:]
	}
}

func (c *command) help(w io.Writer, path string, fs *flag.FlagSet) error {
	var b strings.Builder
	usage := path
	if c.sub != nil {
		usage += " COMMAND"
	}
	if c.args != "" {
		usage += " " + c.args
	}
	if fs != nil && c.flags != nil {
		usage += " [flags]"
	}
	fmt.Fprintf(&b, "usage: %s\n\n%s %s.\n", usage, path, c.about)
	if c.long != "" {
		fmt.Fprintf(&b, "\n%s\n", c.long)
	}
	table := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	if c.sub != nil {
		fmt.Fprint(&b, "\ncommands:\n")
		for _, sub := range c.sub {
			fmt.Fprintf(table, "  %s\t%s\n", sub.name, sub.about)
		}
	}
	if fs != nil && c.flags != nil {
		fmt.Fprint(&b, "\nflags:\n")
		fs.VisitAll(func(f *flag.Flag) {
			value, text := flag.UnquoteUsage(f)
			dashes := "--"
			if len(f.Name) == 1 {
				dashes = "-"
			}
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
				text += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(table, "  %s%s %s\t%s\n", dashes, f.Name, value, text)
		})
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if c.example != "" {
		fmt.Fprint(&b, "\nexample:\n")
		for line := range strings.Lines(c.example) {
			fmt.Fprintf(&b, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// configFlag adds -c and --debezium.
func configFlag(fs *flag.FlagSet, file *string) {
	fs.StringVar(file, "c", "", "configuration `FILE` (default $TAILBOX_CONFIG, ./tailbox.yaml, /etc/tailbox/tailbox.yaml)")
	fs.Func("debezium", "Debezium's configuration `FILE` in place of -c; may be given more than once", func(name string) error {
		if !strings.HasPrefix(*file, debeziumFiles) {
			*file = debeziumFiles
		}
		*file += fileSeparator + name
		return nil
	})
}
