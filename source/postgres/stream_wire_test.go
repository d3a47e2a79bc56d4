package postgres

import (
	"net"
	"testing"
)

// A read from a connection with TLS brings one record, however many have come, so a reader that is behind must not rest before it.
func TestNoRestWithoutGathering(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe() // as TLS: a read brings what one write brought
	defer func() { _ = theirs.Close() }()
	w := newWire(ours)
	defer func() { _ = w.close() }()
	if w.rest != nil {
		t.Error("it rests")
	}
}
