package http

import (
	"bytes"
	"io"
	"sync"
)

// writeBuffer is what the transport gathers before it writes.
const writeBuffer = 4 << 10

// setBody gives r the body that is in memory of a pool. The transport writes the headers and a body together if it knows the body's type and both fit
// into its buffer: that saves a system call here, and one at the endpoint. Such a body is a copy, because nothing tells when the transport has read it.
func (r *request) setBody(memory *[]byte, pool *sync.Pool) {
	r.size = len(*memory)
	if r.size > writeBuffer {
		r.body = &body{memory: memory, pool: pool, rest: *memory}
		return
	}
	r.body = io.NopCloser(bytes.NewReader(bytes.Clone(*memory)))
	pool.Put(memory)
}

// body is a request's body in memory that goes back to its pool as soon as it was read to its end. The transport may
// read it after RoundTrip has returned (an answer may come early), so that nothing else tells when it is free. It
// deliberately has no WriteTo: a writer would keep the slice while it writes.
type body struct {
	mu     sync.Mutex
	memory *[]byte
	pool   *sync.Pool
	rest   []byte
}

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
