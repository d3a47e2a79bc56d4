package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// A Shell is what a command has of the outside.
type Shell struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) (string, bool)
	// Variables are the names that Env knows, for those who look for more than they ask for.
	Variables []string
	// Now is closed when everything is to end at once; the command's context ends before that, and asks for a soft stop.
	Now <-chan struct{}
	// Hangups, if not nil, lets a command take SIGHUP over, which ends others softly. It returns nil if the program has a terminal that can hang up.
	Hangups func() <-chan struct{}
	// Terminal: Err is a terminal, so that progress may be shown.
	Terminal bool
	// Colors: Out is a terminal that shows colors, and nobody asked for none.
	Colors bool
	// Width is how many characters fit into a line of Out; 0 = any number, as in a file or a pipe.
	Width int
}

// A Color is the parameter of a terminal's sequence "select graphic rendition" (ECMA-48, SGR).
type Color int

// Colors of what is bad, doubtful, good and good to know.
const (
	Red    Color = 31
	Green  Color = 32
	Yellow Color = 33
	Blue   Color = 34
)

// Paint colors a text for Out, if that shows colors.
func (sh *Shell) Paint(c Color, text string) string {
	if !sh.Colors {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// A Checked passes on what commands print, and keeps the first error: whoever reads a list that was cut short must not take it for whole.
type Checked struct {
	To  io.Writer
	Err error
}

// Write implements io.Writer.
func (o *Checked) Write(b []byte) (int, error) {
	n, err := o.To.Write(b)
	if err != nil && o.Err == nil {
		o.Err = err
	}
	return n, err
}

// Messages is where the sink stdout writes to. It tries again by itself: an error of it is not the command's.
func (sh *Shell) Messages() io.Writer {
	if o, ok := sh.Out.(*Checked); ok {
		return o.To
	}
	return sh.Out
}

// Log is the logger of commands that are no relay: what takes long or goes wrong, and no more.
func (sh *Shell) Log() *slog.Logger {
	return slog.New(slog.NewTextHandler(sh.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// A UsageError is a wrong command line or configuration.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// WrongUsage makes a UsageError.
func WrongUsage(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// ErrReported ends a command that has told what is wrong already.
var ErrReported = errors.New("already told")
