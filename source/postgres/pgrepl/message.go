package pgrepl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrProtocol means that the server sent what this package cannot parse. A reader stops then, because it must skip nothing.
var ErrProtocol = errors.New("replication protocol violated")

// A reading reads the fields of a message. If a field is beyond the end, ok is false, and this and all further fields are zero.
type reading struct {
	b  []byte
	ok bool
}

func (r *reading) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.ok, r.b = false, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reading) uint8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reading) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reading) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reading) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// text reads up to a zero byte.
func (r *reading) text() string {
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		r.ok, r.b = false, nil
		return ""
	}
	s := string(r.b[:i])
	r.b = r.b[i+1:]
	return s
}

// Truncated returns the error for a message that ends too early. It matches ErrProtocol.
func Truncated(what string) error { return fmt.Errorf("read %s: truncated: %w", what, ErrProtocol) }

// A Begin begins a transaction. Final is the position of its commit record; Time is its commit time in microseconds since 2000.
type Begin struct {
	Final LSN
	Time  int64
	XID   uint32
}

// ParseBegin parses a message 'B' without its first byte.
func ParseBegin(b []byte) (Begin, error) {
	r := reading{b, true}
	m := Begin{Final: LSN(r.uint64()), Time: int64(r.uint64()), XID: r.uint32()}
	if !r.ok {
		return Begin{}, Truncated("begin")
	}
	return m, nil
}

// ParseCommit parses a message 'C' without its first byte, and returns the end of the transaction, from which reading can go on.
func ParseCommit(b []byte) (end LSN, err error) {
	r := reading{b, true}
	r.take(1 + 8)
	end = LSN(r.uint64())
	r.take(8)
	if !r.ok {
		return 0, Truncated("commit")
	}
	return end, nil
}

// A Keepalive is a keepalive message. Everything up to End was sent before it.
type Keepalive struct {
	End            LSN
	ReplyRequested bool
}

// ParseKeepalive parses a message 'k' without its first byte.
func ParseKeepalive(b []byte) (Keepalive, error) {
	r := reading{b, true}
	m := Keepalive{End: LSN(r.uint64())}
	r.take(8)
	m.ReplyRequested = r.uint8() == 1
	if !r.ok {
		return Keepalive{}, Truncated("keepalive")
	}
	return m, nil
}

// A Relation describes a table as it was at this position in the log.
type Relation struct {
	OID          uint32
	Schema, Name string
	Columns      []RelationColumn
}

// A RelationColumn is a column of a Relation. Modifier is the type modifier (atttypmod).
type RelationColumn struct {
	Name     string
	TypeOID  uint32
	Modifier int
}

// ParseRelation parses a message 'R' without its first byte.
func ParseRelation(b []byte) (*Relation, error) {
	r := reading{b, true}
	m := &Relation{OID: r.uint32(), Schema: r.text(), Name: r.text()}
	r.take(1) // replica identity
	n := int(r.uint16())
	for range n {
		r.take(1) // flags
		c := RelationColumn{Name: r.text(), TypeOID: r.uint32(), Modifier: int(int32(r.uint32()))}
		if !r.ok {
			return nil, Truncated("relation")
		}
		m.Columns = append(m.Columns, c)
	}
	if !r.ok {
		return nil, Truncated("relation")
	}
	if m.Schema == "" {
		m.Schema = "pg_catalog"
	}
	return m, nil
}

// ParseInsert parses a message 'I' without its first byte. Tuple begins with the number of columns.
func ParseInsert(b []byte) (relationOID uint32, tuple []byte, err error) {
	r := reading{b, true}
	oid, tag := r.uint32(), r.uint8()
	if !r.ok {
		return 0, nil, Truncated("insert")
	}
	if tag != 'N' {
		return 0, nil, fmt.Errorf("read insert: unknown tuple %q: %w", tag, ErrProtocol)
	}
	return oid, r.b, nil
}

// XLogDataSize is the length of the head of a message 'w', before the message of the plugin: that letter, two positions and a time.
// None of the positions may be confirmed.
const XLogDataSize = 1 + 8 + 8 + 8

func putLength(b []byte, n int) { binary.BigEndian.PutUint32(b, uint32(n)) }

// AppendStatus appends a standby status update: up to where the log was received, and up to where the server may discard it. Ask
// asks for a keepalive in answer.
func AppendStatus(b []byte, received, flushed LSN, now time.Time, ask bool) []byte {
	const length = 4 + 1 + 8 + 8 + 8 + 8 + 1
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, length)
	b = append(b, 'r')
	b = binary.BigEndian.AppendUint64(b, uint64(received)) // written
	b = binary.BigEndian.AppendUint64(b, uint64(flushed))  // flushed
	b = binary.BigEndian.AppendUint64(b, uint64(flushed))  // applied
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixMicro()-Epoch))
	if ask {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendEnd appends the end of the stream and of the connection.
func AppendEnd(b []byte) []byte {
	b = append(b, 'c', 0, 0, 0, 4)
	return append(b, 'X', 0, 0, 0, 4)
}
