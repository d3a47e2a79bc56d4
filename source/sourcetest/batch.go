package sourcetest

import (
	"testing"

	"github.com/tailbox/tailbox/source"
)

// CheckBatch holds what is promised of every batch.
func CheckBatch(t testing.TB, b *source.Batch) {
	t.Helper()
	last := 0
	for _, m := range b.Marks {
		if m.N <= last || m.N >= len(b.Messages) || m.Resume == "" {
			t.Errorf("mark %+v after %d in a batch of %d messages", m, last, len(b.Messages))
		}
		last = m.N
	}
	for i := 1; i < len(b.Messages); i++ {
		if b.Messages[i-1].Position.Compare(b.Messages[i].Position) >= 0 {
			t.Errorf("positions %s, %s are not in order", b.Messages[i-1].Position, b.Messages[i].Position)
		}
	}
	if b.Barrier != "" && len(b.Messages) > 0 {
		t.Errorf("a barrier with %d messages", len(b.Messages))
	}
}
