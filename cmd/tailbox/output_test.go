package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

// A full takes so many bytes.
type full struct{ left int }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.left)
	f.left -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestOutputIsCut: what a command could not print is a failure of it.
func TestOutputIsCut(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"-h"}, {"dead", "-h"}} {
		for _, left := range []int{0, 5} {
			var err bytes.Buffer
			sh := &cli.Shell{In: strings.NewReader(""), Out: &full{left}, Err: &err, Now: make(chan struct{}),
				Env: func(string) (string, bool) { return "", false }}
			if code := run(t.Context(), sh, args); code != exitFailed || !strings.Contains(err.String(), "standard output: no space left on device") {
				t.Errorf("%q into %d bytes: exit code %d, %q", args, left, code, err.String())
			}
		}
	}
}
