package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

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

// A shell is what a command has of the outside.
type shell struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	// variables are the names that env knows, for those who look for more than they ask for.
	variables []string
	// now is closed when everything is to end at once; the command's context ends before that, and asks for a soft stop.
	now <-chan struct{}
	// terminal: err is a terminal, so that progress may be shown.
	terminal bool
}

// log is the logger of commands that are no relay: what takes long or goes wrong, and no more.
func (sh *shell) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(sh.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// A usageError is a wrong command line or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func wrongUsage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// errReported ends a command that has told what is wrong already.
var errReported = errors.New("already told")

// run carries out a command line and returns the exit code.
func run(ctx context.Context, sh *shell, args []string) int {
	err := root().execute(ctx, sh, "tailbox", args)
	usage, isUsage := errors.AsType[*usageError](err)
	problems, isConfig := errors.AsType[*config.Error](err)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errReported):
		return exitFailed
	case isConfig:
		fmt.Fprintln(sh.err, problems)
		return exitUsage
	case isUsage:
		fmt.Fprintf(sh.err, "tailbox: %v\n", usage)
		return exitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(sh.err, "tailbox: interrupted: %v\n", err)
		return exitFailed
	}
	fmt.Fprintf(sh.err, "tailbox: %s\n", plain(err))
	if mustAct(err) {
		return exitAct
	}
	return exitFailed
}

// mustAct tells whether only an operator can fix what an error is about. A table that does not exist may be there again at the next start.
func mustAct(err error) bool {
	return errors.Is(err, source.ErrUnjudged) || errors.Is(err, source.ErrStop) && !errors.Is(err, source.ErrNoTable)
}

// plain leaves out of an error what only a relay that runs would have to say: that it stops. The cure is there already.
func plain(err error) string {
	stop := source.ErrStop.Error()
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), stop+": ", ""), ": "+stop, "")
}

// isTerminal tells whether a file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
