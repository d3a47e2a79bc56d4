package mysql

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Types of events. Those from 160 on are MariaDB's.
const (
	eventQuery            = 2
	eventStop             = 3
	eventRotate           = 4
	eventIntvar           = 5
	eventAppendBlock      = 9
	eventDeleteFile       = 11
	eventRand             = 13
	eventUserVar          = 14
	eventFormat           = 15
	eventXID              = 16
	eventBeginLoad        = 17
	eventExecuteLoad      = 18
	eventTableMap         = 19
	eventWriteRowsV1      = 23
	eventUpdateRowsV1     = 24
	eventDeleteRowsV1     = 25
	eventIncident         = 26
	eventHeartbeat        = 27
	eventRowsQuery        = 29
	eventWriteRows        = 30
	eventUpdateRows       = 31
	eventDeleteRows       = 32
	eventGTID             = 33
	eventAnonymousGTID    = 34
	eventPreviousGTIDs    = 35
	eventTransactionCtx   = 36
	eventViewChange       = 37
	eventXAPrepare        = 38
	eventPartialUpdate    = 39
	eventPayload          = 40
	eventHeartbeatV2      = 41
	eventTaggedGTID       = 42
	eventAnnotateRows     = 160
	eventBinlogCheckpoint = 161
	eventMariaGTID        = 162
	eventGTIDList         = 163
	eventStartEncryption  = 164
	eventQueryCompressed  = 165
	eventWriteRowsZ       = 166
	eventUpdateRowsZ      = 167
	eventDeleteRowsZ      = 168
	eventWriteRowsZ2      = 169
	eventUpdateRowsZ2     = 170
	eventDeleteRowsZ2     = 171
)

// headerSize is the length of an event's header.
const headerSize = 19

// Flags of an event.
const (
	flagArtificial = 0x20 // made for the stream; it stands in no file
	flagIgnorable  = 0x80
)

// A header is an event's.
type header struct {
	time     uint32 // seconds since 1970
	typ      byte
	serverID uint32
	size     uint32 // of the whole event
	end      uint32 // where it ends in its file, in 32 bits; 0 where that is not known
	flags    uint16
}

func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerSize {
		return h, false
	}
	le := binary.LittleEndian
	return header{le.Uint32(b), b[4], le.Uint32(b[5:]), le.Uint32(b[9:]), le.Uint32(b[13:]), le.Uint16(b[17:])}, true
}

// heartbeat tells that the server has nothing more to send for now.
func (h *header) heartbeat() bool { return h.typ == eventHeartbeat || h.typ == eventHeartbeatV2 }

// madeUp tells that the server made the event for this stream: no file holds it.
func (h *header) madeUp() bool { return h.flags&flagArtificial != 0 || h.heartbeat() }

// A reading reads numbers out of bytes. After reading beyond their end it is bad, and all it reads is 0.
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

func (r *reading) uint8() byte       { return byte(r.uint(1)) }
func (r *reading) uint16() uint16    { return uint16(r.uint(2)) }
func (r *reading) uint32() uint32    { return uint32(r.uint(4)) }
func (r *reading) uint64() uint64    { return r.uint(8) }
func (r *reading) rest() []byte      { return r.take(len(r.b)) }
func (r *reading) text(n int) string { return string(r.take(n)) }

// lenenc reads a number whose first byte tells its length.
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

// size reads a lenenc that is the length of something that follows.
func (r *reading) size() int {
	n := r.lenenc()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

func truncated(what string) error { return fmt.Errorf("read %s: it is cut off: %w", what, errProtocol) }

// A gtidEvent is the event that opens a group: a transaction, or one statement that is none.
type gtidEvent struct {
	// MySQL: origin is uuid or uuid:tag, nil where GTIDs are off. MariaDB: domain, server.
	origin    []byte
	domain    uint32
	number    uint64
	committed time.Time
	alone     bool   // MariaDB: one event follows, and ends the group
	xid       string // MariaDB: of a transaction that is prepared
}

// parseGTID reads MySQL's. Scratch is where the origin is put.
func parseGTID(h *header, b, scratch []byte) (e gtidEvent, err error) {
	if h.typ == eventTaggedGTID {
		return parseTaggedGTID(h, b)
	}
	r := reading{b: b}
	r.take(1)
	uuid := r.take(16)
	e.number = r.uint64()
	if r.bad {
		return e, truncated("gtid event")
	}
	if h.typ == eventGTID {
		e.origin = appendUUIDText(scratch[:0], uuid)
	}
	e.committed = time.Unix(int64(h.time), 0).UTC()
	const commitTimeAt = 1 + 8 + 8 // behind the logical clock, since 8.0.1
	r.take(commitTimeAt)
	if us := r.uint(7); !r.bad {
		e.committed = microTime(us &^ (1 << 55))
	}
	return e, nil
}

func appendUUIDText(dst, uuid []byte) []byte {
	dst, _ = appendUUID(dst, uuid) // 16 bytes
	return dst
}

// parseMariaGTID reads MariaDB's.
func parseMariaGTID(h *header, b []byte) (e gtidEvent, err error) {
	const standalone, commitID, prepared = 1, 2, 64
	r := reading{b: b}
	e.number, e.domain = r.uint64(), r.uint32()
	flags := r.uint8()
	e.alone = flags&standalone != 0
	e.committed = time.Unix(int64(h.time), 0).UTC()
	if flags&commitID != 0 {
		r.take(8)
	}
	if flags&prepared != 0 {
		format, gtrid, bqual := r.uint32(), int(r.uint8()), int(r.uint8())
		e.xid = fmt.Sprintf("x'%x',x'%x',%d", r.take(gtrid), r.take(bqual), format)
	}
	if r.bad {
		return e, truncated("gtid event")
	}
	return e, nil
}

// parsePreviousGTIDs reads which transactions stand in MySQL's files before this one.
func parsePreviousGTIDs(b []byte) (*gtidSet, error) {
	set := newGTIDs(false)
	r := reading{b: b}
	count := r.uint64()
	tagged := count>>56 == 1
	if tagged {
		count = count << 8 >> 16
	}
	for ; count > 0 && !r.bad; count-- {
		key := string(appendUUIDText(nil, r.take(16)))
		if tagged {
			if n := int(r.uint8() >> 1); n > 0 {
				key += ":" + r.text(n)
			}
		}
		for n := r.uint64(); n > 0 && !r.bad; n-- {
			first, end := r.uint64(), r.uint64() // the end is not included
			if !r.bad && end > first {
				set.addInterval(key, interval{first, end - 1})
			}
		}
	}
	if r.bad {
		return nil, truncated("previous gtids")
	}
	return set, nil
}

// parseGTIDList reads the same of MariaDB. Of a domain the last one counts.
func parseGTIDList(b []byte) (*gtidSet, error) {
	set := newGTIDs(true)
	r := reading{b: b}
	for n := r.uint32() & (1<<28 - 1); n > 0 && !r.bad; n-- {
		domain, server, seq := r.uint32(), r.uint32(), r.uint64()
		set.setDomain(domain, server, seq)
	}
	if r.bad {
		return nil, truncated("gtid list")
	}
	return set, nil
}

// maxQuery is how much of a statement is looked at.
const maxQuery = 64 << 10

// parseQuery reads a statement, or of a very long one its beginning, and the database it was run in. That of LOAD DATA has more in
// its head.
func parseQuery(typ byte, b []byte) (schema, query []byte, err error) {
	r := reading{b: b}
	r.take(8)
	n := int(r.uint8())
	r.take(2)
	status := int(r.uint16())
	if typ == eventExecuteLoad {
		r.take(4 + 4 + 4 + 1) // the file's number, where its name stands in the statement, what becomes of duplicates
	}
	r.take(status)
	schema = r.take(n)
	r.take(1)
	query = r.rest()
	if r.bad {
		return nil, nil, truncated("query event")
	}
	if typ == eventQueryCompressed {
		if query, err = inflate(query, maxQuery); err != nil {
			return nil, nil, fmt.Errorf("read query event: %w", err)
		}
	}
	return schema, query[:min(len(query), maxQuery)], nil
}

// inflatedSize is the length of what MariaDB has compressed, and where the compressed bytes begin.
func inflatedSize(b []byte) (size, start int, err error) {
	if len(b) < 1 {
		return 0, 0, truncated("compressed event")
	}
	n := int(b[0] & 7)
	if b[0]>>4&7 != 0 || n == 0 || n > 4 || len(b) < 1+n {
		return 0, 0, fmt.Errorf("read compressed event: its compression is not zlib: %w", errProtocol)
	}
	return int(bigEndian(b[1 : 1+n])), 1 + n, nil
}

// inflate reads at most limit bytes of what MariaDB has compressed.
func inflate(b []byte, limit int) ([]byte, error) {
	size, start, err := inflatedSize(b)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(b[start:]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	out := make([]byte, min(size, limit))
	if _, err := io.ReadFull(z, out); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errProtocol, err), z.Close())
	}
	return out, z.Close()
}

// parseRotate reads where the log goes on.
func parseRotate(b []byte) (place, error) {
	r := reading{b: b}
	pos := r.uint64()
	name := r.rest()
	if r.bad {
		return place{}, truncated("rotate event")
	}
	p, err := parseFile(string(name))
	if err != nil {
		return place{}, fmt.Errorf("read rotate event: %w", err)
	}
	if pos < firstPos || pos > maxPos {
		return place{}, fmt.Errorf("read rotate event: position %d: %w", pos, errProtocol)
	}
	p.pos = pos
	return p, nil
}

const checksumSize = 4
