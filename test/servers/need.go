package servers

import (
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
	fmt.Fprintf(os.Stderr, "SKIPPED for want of a server: %s: %v\n", tb.Name(), err)
	tb.Skipf("no server: %v", err)
}
