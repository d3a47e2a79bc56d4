package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A reading reads the fields of an event. If a field is beyond the end, bad is set, and this and all further fields are 0.
type reading struct {
	b   []byte
	bad bool
}

func (r *reading) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reading) uint(n int) uint64 {
	var w [8]byte
	copy(w[:], r.take(n))
	return binary.LittleEndian.Uint64(w[:])
}

func (r *reading) uint8() byte { return byte(r.uint(1)) }

func (r *reading) uint16() uint16 { return uint16(r.uint(2)) }

func (r *reading) uint32() uint32 { return uint32(r.uint(4)) }

func (r *reading) uint64() uint64 { return r.uint(8) }

func (r *reading) rest() []byte { return r.take(len(r.b)) }

func (r *reading) text(n int) string { return string(r.take(n)) }

// lenenc reads a length-encoded integer.
func (r *reading) lenenc() uint64 {
	switch n := r.uint8(); n {
	case 0xfc:
		return r.uint(2)
	case 0xfd:
		return r.uint(3)
	case 0xfe:
		return r.uint(8)
	default:
		return uint64(n)
	}
}

// size reads a length-encoded integer that is the length of what follows. A length beyond the end is bad.
func (r *reading) size() int {
	n := r.lenenc()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

// Truncated returns the error for an event, or a part of one, that ends too early. It matches ErrProtocol.
func Truncated(what string) error { return fmt.Errorf("read %s: it is cut off: %w", what, ErrProtocol) }

// ErrProtocol means that the server sent what this package cannot parse.
var ErrProtocol = errors.New("the server's answer cannot be understood")
