package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// errProtocol: the server sent what this version of the protocol does not know. Reading stops, nothing is skipped.
var errProtocol = errors.New("replication protocol violated")

// A reading walks the bytes of one message. Once it runs past the end, ok is false and all further values are zero.
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

func truncated(what string) error { return fmt.Errorf("read %s: truncated: %w", what, errProtocol) }

// A begin opens a transaction: its commit record's place, its commit time in microseconds since 2000, and its xid.
type begin struct {
	final lsn
	time  int64
	xid   uint32
}

// parseBegin reads a message 'B' after its first byte.
func parseBegin(b []byte) (begin, error) {
	r := reading{b, true}
	m := begin{final: lsn(r.uint64()), time: int64(r.uint64()), xid: r.uint32()}
	if !r.ok {
		return begin{}, truncated("begin")
	}
	return m, nil
}

// parseCommit reads a message 'C' after its first byte: flags, the commit record's place, the end of the
// transaction, the time. The end is where reading can start again.
func parseCommit(b []byte) (end lsn, err error) {
	r := reading{b, true}
	r.take(1 + 8)
	end = lsn(r.uint64())
	r.take(8)
	if !r.ok {
		return 0, truncated("commit")
	}
	return end, nil
}

// A keepalive says how far the server has come.
type keepalive struct {
	end            lsn
	replyRequested bool
}

// parseKeepalive reads a message 'k' after its first byte.
func parseKeepalive(b []byte) (keepalive, error) {
	r := reading{b, true}
	m := keepalive{end: lsn(r.uint64())}
	r.take(8)
	m.replyRequested = r.uint8() == 1
	if !r.ok {
		return keepalive{}, truncated("keepalive")
	}
	return m, nil
}

// A relation describes a table as it was at its place in the log.
type relation struct {
	oid          uint32
	schema, name string
	columns      []relationColumn
}

type relationColumn struct {
	name     string
	typeOID  uint32
	modifier int
}

// parseRelation reads a message 'R' after its first byte.
func parseRelation(b []byte) (*relation, error) {
	r := reading{b, true}
	m := &relation{oid: r.uint32(), schema: r.text(), name: r.text()}
	r.take(1) // replica identity
	n := int(r.uint16())
	for range n {
		r.take(1) // flags
		c := relationColumn{name: r.text(), typeOID: r.uint32(), modifier: int(int32(r.uint32()))}
		if !r.ok {
			return nil, truncated("relation")
		}
		m.columns = append(m.columns, c)
	}
	if !r.ok {
		return nil, truncated("relation")
	}
	if m.schema == "" {
		m.schema = "pg_catalog"
	}
	return m, nil
}

// parseInsert reads a message 'I' after its first byte; tuple begins with the number of columns.
func parseInsert(b []byte) (relationOID uint32, tuple []byte, err error) {
	r := reading{b, true}
	oid, tag := r.uint32(), r.uint8()
	if !r.ok {
		return 0, nil, truncated("insert")
	}
	if tag != 'N' {
		return 0, nil, fmt.Errorf("read insert: unknown tuple %q: %w", tag, errProtocol)
	}
	return oid, r.b, nil
}

// parseTuple reads a row into vals, which point into b. Columns that the plan does not want are left out.
func parseTuple(p *plan, b []byte, vals []value) ([]value, error) {
	vals = vals[:0]
	if len(b) < 2 {
		return vals, truncated("row")
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n != len(p.cols) {
		return vals, fmt.Errorf("read row of %s: %d columns, but its relation has %d: %w", p.Table, n, len(p.cols), errProtocol)
	}
	for i := range n {
		if len(b) < 1 {
			return vals, truncated("row")
		}
		tag := b[0]
		b = b[1:]
		switch tag {
		case 'n', 'u':
			vals = append(vals, value{tag: tag})
			continue
		case 't', 'b':
		default:
			return vals, fmt.Errorf("read row of %s: column %s has the unknown tag %q: %w", p.Table, p.cols[i].name, tag, errProtocol)
		}
		if len(b) < 4 {
			return vals, truncated("row")
		}
		size := int(binary.BigEndian.Uint32(b))
		if size > len(b)-4 {
			return vals, truncated("row")
		}
		if p.Wanted[i] {
			vals = append(vals, value{tag: tag, data: b[4 : 4+size : 4+size]})
		} else {
			vals = append(vals, value{})
		}
		b = b[4+size:]
	}
	if len(b) > 0 {
		return vals, fmt.Errorf("read row of %s: %d bytes too many: %w", p.Table, len(b), errProtocol)
	}
	return vals, nil
}
