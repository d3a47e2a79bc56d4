// Package arena hands out the memory of decoded messages in few allocations, for all sources.
// It knows nothing of where the bytes come from.
package arena

import (
	"slices"
	"unsafe"

	"github.com/tailbox/tailbox/outbox"
)

const (
	// chunkSize is how much an arena allocates at once. A message that is kept keeps its whole chunk alive, so chunks are small.
	chunkSize = 64 << 10
	// ownChunk: values of this size and more get memory of their own, so that they can go alone.
	ownChunk = 8 << 10
	// mostScratch is how much memory of a decoder may stay with it to be used again.
	mostScratch = 1 << 20
	// slabSize is how many messages share an allocation, for the same reason a small number.
	slabSize = 32
	// Interned are at most internMax different texts of at most internLen bytes.
	internMax = 4096
	internLen = 128
)

// An Arena hands out memory for what messages point to, in few allocations. Memory is never used twice: the garbage
// collector frees a chunk once nothing points into it, so that strings may point into chunks. It is not safe for
// concurrent use.
type Arena struct {
	chunk    []byte
	messages []outbox.Message
	pointers []*outbox.Message
	headers  []outbox.Header
	fields   []outbox.Field
	interned map[string]string
}

// Alloc returns n fresh bytes that belong to the caller, never nil. Their capacity ends with them.
func (a *Arena) Alloc(n int) []byte {
	if n >= ownChunk {
		return make([]byte, n)
	}
	if n > len(a.chunk) || a.chunk == nil {
		a.chunk = make([]byte, chunkSize)
	}
	b := a.chunk[:n:n]
	a.chunk = a.chunk[n:]
	return b
}

// CopyOf returns a copy of b that nobody will change. It is not nil, even for no bytes.
func (a *Arena) CopyOf(b []byte) []byte {
	c := a.Alloc(len(b))
	copy(c, b)
	return c
}

// Keep returns a text that was written into scratch as bytes that nobody will change, and the scratch to go on with. A copy of a large text would take
// as much memory again, so that such a text keeps the scratch, and rest is nil.
func (a *Arena) Keep(scratch []byte) (text, rest []byte) {
	switch {
	case cap(scratch) <= mostScratch:
		return a.CopyOf(scratch), scratch
	case 2*len(scratch) < cap(scratch):
		return a.CopyOf(scratch), nil
	}
	return slices.Clip(scratch), nil
}

// Text copies b into a string.
func (a *Arena) Text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return StringOf(a.CopyOf(b))
}

// Intern returns b as a string that is shared by all that intern the same text. For texts with few different values, such
// as types: beyond internMax values it is a copy.
func (a *Arena) Intern(b []byte) string {
	if s, ok := a.interned[string(b)]; ok {
		return s
	}
	if len(b) > internLen || len(a.interned) >= internMax {
		return a.Text(b)
	}
	if a.interned == nil {
		a.interned = make(map[string]string)
	}
	// A string of its own: an interned text lives long, and would keep a chunk.
	s := string(b)
	a.interned[s] = s
	return s
}

// NewMessage returns a zero message.
func (a *Arena) NewMessage() *outbox.Message {
	if len(a.messages) == 0 {
		a.messages = make([]outbox.Message, slabSize)
	}
	m := &a.messages[0]
	a.messages = a.messages[1:]
	return m
}

// Alone moves a message out of the memory that it shares with others, so that its values are freed with it. The caller must not use m any more.
func Alone(m *outbox.Message) *outbox.Message {
	own := *m
	own.Headers, own.Fields = slices.Clone(m.Headers), slices.Clone(m.Fields)
	clear(m.Headers)
	clear(m.Fields)
	*m = outbox.Message{}
	return &own
}

// List returns a copy of ms.
func (a *Arena) List(ms []*outbox.Message) []*outbox.Message {
	if len(ms) >= 128 {
		return append([]*outbox.Message(nil), ms...)
	}
	if len(ms) > len(a.pointers) {
		a.pointers = make([]*outbox.Message, 256)
	}
	l := a.pointers[:len(ms):len(ms)]
	a.pointers = a.pointers[len(ms):]
	copy(l, ms)
	return l
}

// HeaderList returns a copy of hs, nil for none.
func (a *Arena) HeaderList(hs []outbox.Header) []outbox.Header {
	if len(hs) == 0 {
		return nil
	}
	if len(hs) > len(a.headers) {
		a.headers = make([]outbox.Header, max(64, len(hs)))
	}
	l := a.headers[:len(hs):len(hs)]
	a.headers = a.headers[len(hs):]
	copy(l, hs)
	return l
}

// FieldList returns n zero fields.
func (a *Arena) FieldList(n int) []outbox.Field {
	if n > len(a.fields) {
		a.fields = make([]outbox.Field, max(64, n))
	}
	l := a.fields[:n:n]
	a.fields = a.fields[n:]
	return l
}

// StringOf is b as a string, without a copy: b must never change again.
func StringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
