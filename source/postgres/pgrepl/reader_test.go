package pgrepl

import (
	"net"
	"testing"
	"time"
)

// A read from a connection with TLS brings one record, however many have come, so a reader that is behind must not rest before it.
func TestNoRestWithoutGathering(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe() // as TLS: a read brings what one write brought
	go func() {
		for {
			if _, err := theirs.Write([]byte("dddd")); err != nil {
				return
			}
		}
	}()
	w := NewReader(ours)
	defer func() { _ = w.Close() }()
	if w.rest != nil {
		t.Error("it rests")
	}
	w.Behind = true
	for range 100 {
		w.r = w.w
		if err := w.Fill(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}
