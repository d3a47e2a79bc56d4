package oplog

import (
	"testing"

	"github.com/tailbox/tailbox/source"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, p := range []Place{{At: TimeOf(1700000000, 3)}, {At: 1}, {TimeOf(1700000000, 1<<32-1), true}} {
		if got, err := ParsePlace(p.Resume()); err != nil || got != p {
			t.Errorf("%q: got %v, %v", p.Resume(), got, err)
		}
	}
	for _, text := range []source.Resume{"", "1", "1:", ":1", "1:x", "-1:1", "4294967296:1", "ended", "ended 1"} {
		if p, err := ParsePlace(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, p)
		}
	}
}
