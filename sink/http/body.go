package http

import (
	"io"
	"sync"
)

// body is a request's body in memory that goes back to its pool as soon as it was read to its end. The transport may
// read it after RoundTrip has returned (an answer may come early), so that nothing else tells when it is free. It
// deliberately has no WriteTo: a writer would keep the slice while it writes.
type body struct {
	mu     sync.Mutex
	memory *[]byte
	pool   *sync.Pool
	rest   []byte
}

// Len is how many bytes are left to read.
func (b *body) Len() int { return len(b.rest) }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) > 0 {
		return n, nil
	}
	if b.memory != nil {
		// A few large messages must not make the pool hold large memory for ever.
		if cap(*b.memory) <= 1<<20 {
			b.pool.Put(b.memory)
		}
		b.memory, b.rest = nil, nil
	}
	return n, io.EOF
}

// Close implements io.Closer. A body that was not read to its end is left to the garbage collector.
func (b *body) Close() error { return nil }
