package relay

import (
	"testing"
	"time"
)

// Rows of a sweep that stay locked are told once, and again after a time without any.
func TestSweepWaits(t *testing.T) {
	t.Parallel()
	var s sweep
	begin := time.Now()
	for _, step := range []struct {
		after  time.Duration
		hidden int
		told   bool
	}{
		{0, 3, false}, {hiddenPatience - 1, 3, false}, {hiddenPatience, 2, true}, {2 * hiddenPatience, 2, false},
		{3 * hiddenPatience, 0, false}, {4 * hiddenPatience, 1, false}, {5 * hiddenPatience, 1, true},
	} {
		if told := s.waits(step.hidden, begin.Add(step.after)); told != step.told {
			t.Errorf("after %s with %d rows: told %t, want %t", step.after, step.hidden, told, step.told)
		}
	}
}
