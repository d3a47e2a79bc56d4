// Package cli is a command line: commands with their flags and help, and what they print. It knows nothing of tailbox.
package cli

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

// A Command is one word of the command line, with further words below it or with something to do.
type Command struct {
	Name string
	// Args names the arguments in the usage line, such as "ID…".
	Args string
	// About is one line, long more of it, example a command line or several.
	About, Long, Example string
	Flags                func(*flag.FlagSet)
	Run                  func(ctx context.Context, sh *Shell, args []string) error
	Sub                  []*Command
}

// Execute finds the command that args name and runs it. path is how the command was reached.
func (c *Command) Execute(ctx context.Context, sh *Shell, path string, args []string) error {
	if c.Run == nil {
		return c.descend(ctx, sh, path, args)
	}
	fs := flag.NewFlagSet(path, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	if c.Flags != nil {
		c.Flags(fs)
	}
	rest, err := parseFlags(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return c.help(sh.Out, path, fs)
	}
	if err != nil {
		return WrongUsage("%s: %w: see %s -h", strings.TrimPrefix(path, "tailbox "), err, path)
	}
	if c.Args == "" && len(rest) > 0 {
		return WrongUsage("%s: unexpected argument %q: see %s -h", c.Name, rest[0], path)
	}
	return c.Run(ctx, sh, rest)
}

func (c *Command) descend(ctx context.Context, sh *Shell, path string, args []string) error {
	if len(args) == 0 {
		if err := c.help(sh.Err, path, nil); err != nil {
			return err
		}
		return WrongUsage("name a command, such as %s %s", path, c.Sub[0].Name)
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		if len(args) > 1 && args[0] == "help" {
			return c.descend(ctx, sh, path, append(slices.Clone(args[1:]), "-h"))
		}
		return c.help(sh.Out, path, nil)
	}
	var names []string
	for _, sub := range c.Sub {
		if sub.Name == args[0] {
			return sub.Execute(ctx, sh, path+" "+sub.Name, args[1:])
		}
		names = append(names, sub.Name)
	}
	return WrongUsage("unknown command %q: choose one of %s; see %s -h", strings.TrimSpace(path[len("tailbox"):]+" "+args[0]), strings.Join(names, ", "), path)
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

func (c *Command) help(w io.Writer, path string, fs *flag.FlagSet) error {
	var b strings.Builder
	usage := path
	if c.Sub != nil {
		usage += " COMMAND"
	}
	if c.Args != "" {
		usage += " " + c.Args
	}
	if fs != nil && c.Flags != nil {
		usage += " [flags]"
	}
	fmt.Fprintf(&b, "usage: %s\n\n%s %s.\n", usage, path, c.About)
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Long)
	}
	table := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	if c.Sub != nil {
		fmt.Fprint(&b, "\ncommands:\n")
		for _, sub := range c.Sub {
			fmt.Fprintf(table, "  %s\t%s\n", sub.Name, sub.About)
		}
	}
	if fs != nil && c.Flags != nil {
		fmt.Fprint(&b, "\nflags:\n")
		fs.VisitAll(func(f *flag.Flag) {
			value, text := flag.UnquoteUsage(f)
			dashes := "--"
			if len(f.Name) == 1 {
				dashes = "-"
			}
			fmt.Fprintf(table, "  %s%s %s\t%s\n", dashes, f.Name, value, text+byDefault(f))
		})
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if c.Example != "" {
		fmt.Fprint(&b, "\nexample:\n")
		for line := range strings.Lines(c.Example) {
			fmt.Fprintf(&b, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// byDefault is what a flag's usage adds about its default; "" if there is none.
func byDefault(f *flag.Flag) string {
	if f.DefValue == "" || f.DefValue == "false" || f.DefValue == "0" {
		return ""
	}
	return " (default " + f.DefValue + ")"
}
