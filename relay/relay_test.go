package relay

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// A connection that is lost in a cautious start must not make the message in hand a dead letter: only a process that ended
// is evidence against it.
func TestSurvivorsAreAcquitted(t *testing.T) {
	t.Parallel()
	at := checkpoint.CrashCandidate{Position: outbox.Position{Log: 1, Commit: 7, N: 2}, Times: 1}
	r := &Relay{}
	first := &checkpoint.Loaded{UncleanStarts: 4, Started: at}
	r.clearSurvived(first)
	if first.UncleanStarts != 4 || first.Started != at {
		t.Errorf("first term: %d unclean starts, started %v; want what the store says", first.UncleanStarts, first.Started)
	}
	second := &checkpoint.Loaded{UncleanStarts: 5, Started: at}
	r.clearSurvived(second)
	if second.UncleanStarts != 4 || second.Started != (checkpoint.CrashCandidate{}) {
		t.Errorf("second term: %d unclean starts, started %v; want 4 and none", second.UncleanStarts, second.Started)
	}
	settled := &checkpoint.Loaded{}
	r.clearSurvived(settled)
	if settled.UncleanStarts != 0 {
		t.Errorf("third term: %d unclean starts, want 0", settled.UncleanStarts)
	}
}
