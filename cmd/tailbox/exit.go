package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/source"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // the same command may succeed later
	exitUsage  = 2
	exitAct    = 3 // the same command fails until an operator acts: service managers do not restart it
)

// run carries out a command line and returns the exit code.
func run(ctx context.Context, sh *cli.Shell, args []string) int {
	out := &cli.Checked{To: sh.Out}
	checked := *sh
	checked.Out = out
	sh = &checked
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-version") {
		args = []string{"version"}
	}
	err := root().Execute(ctx, sh, "tailbox", args)
	if out.Err != nil && (err == nil || errors.Is(err, out.Err)) {
		err = fmt.Errorf("write to standard output: %w", out.Err) // some commands do not look
	}
	usage, isUsage := errors.AsType[*cli.UsageError](err)
	problems, isConfig := errors.AsType[*config.Error](err)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, cli.ErrReported):
		return exitFailed
	case isConfig:
		fmt.Fprintln(sh.Err, problems)
		return exitUsage
	case isUsage:
		fmt.Fprintf(sh.Err, "tailbox: %v\n", usage)
		return exitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(sh.Err, "tailbox: interrupted: %v\n", err)
		return exitFailed
	}
	fmt.Fprintf(sh.Err, "tailbox: %s\n", plain(err))
	if mustAct(err) {
		return exitAct
	}
	return exitFailed
}

// mustAct reports whether only an operator can fix what an error is about. A table that does not exist may be there again at the next start.
func mustAct(err error) bool {
	return errors.Is(err, source.ErrUnjudged) || errors.Is(err, source.ErrStop) && !errors.Is(err, source.ErrNoTable)
}

// plain leaves out of an error what only a relay that runs would have to say: that it stops. The fix is there already.
func plain(err error) string {
	stop := source.ErrStop.Error()
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), stop+": ", ""), ": "+stop, "")
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
