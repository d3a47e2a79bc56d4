package binlog

import (
	"encoding/binary"
	"fmt"
)

// Types of events, with the numbers of the protocol. Those from 160 on are MariaDB's.
const (
	EventQuery            = 2
	EventStop             = 3
	EventRotate           = 4
	EventIntvar           = 5
	EventAppendBlock      = 9
	EventDeleteFile       = 11
	EventRand             = 13
	EventUserVar          = 14
	EventFormat           = 15
	EventXID              = 16
	EventBeginLoad        = 17
	EventExecuteLoad      = 18
	EventTableMap         = 19
	EventWriteRowsV1      = 23
	EventUpdateRowsV1     = 24
	EventDeleteRowsV1     = 25
	EventIncident         = 26
	EventHeartbeat        = 27
	EventRowsQuery        = 29
	EventWriteRows        = 30
	EventUpdateRows       = 31
	EventDeleteRows       = 32
	EventGTID             = 33
	EventAnonymousGTID    = 34
	EventPreviousGTIDs    = 35
	EventTransactionCtx   = 36
	EventViewChange       = 37
	EventXAPrepare        = 38
	EventPartialUpdate    = 39
	EventPayload          = 40
	EventHeartbeatV2      = 41
	EventTaggedGTID       = 42
	EventAnnotateRows     = 160
	EventBinlogCheckpoint = 161
	EventMariaGTID        = 162
	EventGTIDList         = 163
	EventStartEncryption  = 164
	EventQueryCompressed  = 165
	EventWriteRowsZ       = 166
	EventUpdateRowsZ      = 167
	EventDeleteRowsZ      = 168
	EventWriteRowsZ2      = 169
	EventUpdateRowsZ2     = 170
	EventDeleteRowsZ2     = 171
)

// HeaderSize is the length of an event's header in bytes.
const HeaderSize = 19

// Flags of an event.
const (
	FlagArtificial = 0x20 // made for this stream; no file holds it
	FlagIgnorable  = 0x80
)

// A Header stands at the beginning of every event.
type Header struct {
	Time     uint32 // seconds since 1970
	Type     byte
	ServerID uint32
	Size     uint32 // of the whole event
	End      uint32 // where the event ends in its file, in 32 bits; 0 = unknown
	Flags    uint16
}

// ParseHeader reads the header of an event; ok is false if b is shorter.
func ParseHeader(b []byte) (h Header, ok bool) {
	if len(b) < HeaderSize {
		return h, false
	}
	le := binary.LittleEndian
	return Header{le.Uint32(b), b[4], le.Uint32(b[5:]), le.Uint32(b[9:]), le.Uint32(b[13:]), le.Uint16(b[17:])}, true
}

// Heartbeat reports whether the event says that the server has nothing more to send for now.
func (h *Header) Heartbeat() bool { return h.Type == EventHeartbeat || h.Type == EventHeartbeatV2 }

// Artificial reports whether the server made the event for this stream, so that no file holds it.
func (h *Header) Artificial() bool { return h.Flags&FlagArtificial != 0 || h.Heartbeat() }

// MaxQuery bounds how much of a statement is read, in bytes.
const MaxQuery = 64 << 10

// ParseQuery returns a statement, cut off at MaxQuery, and the database it was run in. Typ is the event's type, because EventExecuteLoad
// has a longer head, and EventQueryCompressed is compressed.
func ParseQuery(typ byte, b []byte) (schema, query []byte, err error) {
	r := reading{b: b}
	r.take(8)
	n := int(r.uint8())
	r.take(2)
	status := int(r.uint16())
	if typ == EventExecuteLoad {
		r.take(4 + 4 + 4 + 1) // the file's number, where its name stands in the statement, what becomes of duplicates
	}
	r.take(status)
	schema = r.take(n)
	r.take(1)
	query = r.rest()
	if r.bad {
		return nil, nil, Truncated("query event")
	}
	if typ == EventQueryCompressed {
		if query, err = Inflate(query, MaxQuery); err != nil {
			return nil, nil, fmt.Errorf("read query event: %w", err)
		}
	}
	return schema, query[:min(len(query), MaxQuery)], nil
}

// ParseRotate returns the position at which the log goes on.
func ParseRotate(b []byte) (Position, error) {
	r := reading{b: b}
	pos := r.uint64()
	name := r.rest()
	if r.bad {
		return Position{}, Truncated("rotate event")
	}
	p, err := ParseFileName(string(name))
	if err != nil {
		return Position{}, fmt.Errorf("read rotate event: %w", err)
	}
	if pos < FirstPos || pos > MaxPos {
		return Position{}, fmt.Errorf("read rotate event: position %d: %w", pos, ErrProtocol)
	}
	p.Pos = pos
	return p, nil
}

// ChecksumSize is the length of the CRC32 at an event's end, if the file has checksums.
const ChecksumSize = 4
