package relational

import (
	"testing"

	"github.com/tailbox/tailbox/source"
)

// TestPolledTo: rows that are found come behind the number that a checkpoint names, also if no row with such a number is left.
func TestPolledTo(t *testing.T) {
	t.Parallel()
	for at, want := range map[source.Resume]uint64{"": 0, "1000": 1000, "1000 16385": 1000, "0/16B3748": 0, "mysql-bin.000003:4": 0} {
		if got := polledTo(at); got != want {
			t.Errorf("%q: %d, want %d", at, got, want)
		}
	}
}
