package mongo

import (
	"unsafe"

	"github.com/tailbox/tailbox/outbox"
)

const (
	// chunkSize is how much an arena allocates at once. A message that is kept keeps its whole chunk alive, so chunks are small.
	chunkSize = 64 << 10
	// ownChunk: values of this size and more get memory of their own, so that they can go alone.
	ownChunk = 8 << 10
	// slabSize is how many messages share an allocation, for the same reason a small number.
	slabSize = 32
	// Interned are at most internMax different texts of at most internLen bytes.
	internMax = 4096
	internLen = 128
)

// An arena hands out memory for what messages point to, in few allocations. Memory is never used twice: the garbage
// collector frees a chunk once nothing points into it, so that strings may point into chunks. It is not safe for
// concurrent use.
type arena struct {
	chunk    []byte
	messages []outbox.Message
	pointers []*outbox.Message
	headers  []outbox.Header
	fields   []outbox.Field
	interned map[string]string
}

// alloc returns n fresh bytes that belong to the caller, never nil. Their capacity ends with them.
func (a *arena) alloc(n int) []byte {
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

// copyOf returns a copy of b that nobody will change. It is not nil, even for no bytes.
func (a *arena) copyOf(b []byte) []byte {
	c := a.alloc(len(b))
	copy(c, b)
	return c
}

// text copies b into a string.
func (a *arena) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return stringOf(a.copyOf(b))
}

// intern returns b as a string that is shared by all that intern the same text. For texts with few different values, such
// as types: beyond internMax values it is a copy.
func (a *arena) intern(b []byte) string {
	if s, ok := a.interned[string(b)]; ok {
		return s
	}
	if len(b) > internLen || len(a.interned) >= internMax {
		return a.text(b)
	}
	if a.interned == nil {
		a.interned = make(map[string]string)
	}
	// A string of its own: an interned text lives long, and would keep a chunk.
	s := string(b)
	a.interned[s] = s
	return s
}

// newMessage returns a zero message.
func (a *arena) newMessage() *outbox.Message {
	if len(a.messages) == 0 {
		a.messages = make([]outbox.Message, slabSize)
	}
	m := &a.messages[0]
	a.messages = a.messages[1:]
	return m
}

// list returns a copy of ms.
func (a *arena) list(ms []*outbox.Message) []*outbox.Message {
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

// headerList returns a copy of hs, nil for none.
func (a *arena) headerList(hs []outbox.Header) []outbox.Header {
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

// fieldList returns n zero fields.
func (a *arena) fieldList(n int) []outbox.Field {
	if n > len(a.fields) {
		a.fields = make([]outbox.Field, max(64, n))
	}
	l := a.fields[:n:n]
	a.fields = a.fields[n:]
	return l
}

// stringOf is b as a string, without a copy: b must never change again.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
