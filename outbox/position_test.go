package outbox_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
)

func TestPositionText(t *testing.T) {
	t.Parallel()
	p := outbox.Position{Log: 1, Commit: 0x16b3748, N: 10}
	const want = "00000001-00000000016b3748-0000000a"
	if got := p.String(); got != want {
		t.Fatalf("String = %q, want %q", got, want)
	}
	if got, err := outbox.ParsePosition(want); err != nil || got != p {
		t.Fatalf("ParsePosition = %v, %v, want %v", got, err, p)
	}
	for _, bad := range []string{"", "1-2-3", want + "0", strings.Replace(want, "-", "_", 1), strings.Replace(want, "a", "g", 1)} {
		if p, err := outbox.ParsePosition(bad); err == nil {
			t.Errorf("ParsePosition(%q) = %v, want an error", bad, p)
		}
	}
}

// TestPositionTextSorts: texts sort as positions do, so that a consumer can compare either.
func TestPositionTextSorts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() outbox.Position {
		pick := func(most uint64) uint64 {
			return []uint64{0, 1, most, r.Uint64N(most), r.Uint64N(300)}[r.IntN(5)]
		}
		return outbox.Position{Log: uint32(pick(math.MaxUint32)), Commit: pick(math.MaxUint64), N: uint32(pick(math.MaxUint32))}
	}
	for range 20_000 {
		a, b := draw(), draw()
		if got, want := cmp.Compare(a.String(), b.String()), a.Compare(b); got != want {
			t.Fatalf("%v and %v: texts compare as %d, positions as %d", a, b, got, want)
		}
		if back, err := outbox.ParsePosition(a.String()); err != nil || back != a {
			t.Fatalf("%v comes back as %v, %v", a, back, err)
		}
	}
}
