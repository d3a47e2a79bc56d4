package postgres

import (
	"net"
	"testing"
	"time"
)

// A read from a connection with TLS brings one record, however many have come, so a reader that is behind must not rest before it.
func TestNoRestWithoutGathering(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe() // as TLS: a read brings what one write brought
	defer func() { _ = ours.Close() }()
	go func() {
		for {
			if _, err := theirs.Write([]byte("dddd")); err != nil {
				return
			}
		}
	}()
	w := newWire(ours)
	w.behind = true
	w.rest = func(d time.Duration) { t.Errorf("it rests for %v", d) }
	for range 100 {
		w.r = w.w
		if err := w.fill(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}
