package report

import (
	"strings"
	"testing"
)

// Numbers of a table that is polled go beyond those that have a sign.
func TestPollLinesOfLargeNumbers(t *testing.T) {
	t.Parallel()
	const want = "shop.outbox.seq is at 9223372036854775813, 7 numbers after the checkpoint"
	if got := (&Poll{Sequence: "shop.outbox.seq", Last: 1<<63 + 5}).Lines(9223372036854775806, true); got[0][1] != want {
		t.Errorf("got %q, want %q", got[0][1], want)
	}
	if got := (&Poll{Sequence: "shop.outbox.seq", Last: 1<<63 + 5}).Lines(9223372036854775811, true); !strings.HasSuffix(got[0][1], ", 2 numbers after the checkpoint") {
		t.Errorf("got %q", got[0][1])
	}
}
