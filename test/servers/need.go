package servers

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

// skips counts tests of this process that had no server. It is the process's
// own account, printed by Main, hence a variable of the package.
var skips atomic.Int64 //nolint:gochecknoglobals // one account a process

// unavailable ends a test that cannot have its server: a failure under CI=true,
// where nothing may be left untested unseen, else a skip that is loud.
func unavailable(tb testing.TB, err error) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("no server: %v", err)
	}
	skips.Add(1)
	line := fmt.Sprintf("SKIPPED for want of a server: %s: %v\n", tb.Name(), err)
	fmt.Fprint(os.Stderr, line)
	if err := account(line); err != nil {
		tb.Fatal(err)
	}
	tb.Skipf("no server: %v", err)
}

// account adds a line to the file that TAILBOX_TEST_SKIPS names, if it does.
// go test hides what a package that passes prints; "make test" shows this file.
func account(line string) error {
	path := os.Getenv("TAILBOX_TEST_SKIPS")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("account for a skipped test: %w", err)
	}
	_, err = f.WriteString(line)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("account for a skipped test: %w", err)
	}
	return nil
}
