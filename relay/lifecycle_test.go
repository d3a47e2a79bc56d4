package relay

import (
	"errors"
	"testing"

	"github.com/tailbox/tailbox/relay/lane"
)

// TestIllegalStages: a stage that must not follow is not entered, and ends the term.
func TestIllegalStages(t *testing.T) {
	t.Parallel()
	e := &engine{stage: stopping}
	if e.enter(draining); !errors.Is(e.failed, lane.ErrBug) || e.stage != stopping {
		t.Errorf("a term that stops drains: %v, and it is %s", e.failed, e.stage)
	}
}
