package binlog

import (
	"fmt"
	"time"
)

// A GTID is the event that begins a transaction, or a statement outside of any.
type GTID struct {
	// Origin is the uuid or uuid:tag of MySQL, nil if GTIDs are off. MariaDB has a Domain instead; the server is that of the header.
	Origin     []byte
	Domain     uint32
	Number     uint64
	Committed  time.Time
	Standalone bool   // MariaDB: one event follows, and ends the transaction
	XID        string // MariaDB: of a prepared XA transaction, else ""
}

// ParseGTID reads the GTID event of MySQL, tagged or not, or its anonymous form. Origin is written to scratch.
func ParseGTID(h *Header, b, scratch []byte) (e GTID, err error) {
	if h.Type == EventTaggedGTID {
		return parseTaggedGTID(h, b)
	}
	r := reading{b: b}
	r.take(1)
	uuid := r.take(16)
	e.Number = r.uint64()
	if r.bad {
		return e, Truncated("gtid event")
	}
	if h.Type == EventGTID {
		e.Origin = AppendUUIDText(scratch[:0], uuid)
	}
	e.Committed = time.Unix(int64(h.Time), 0).UTC()
	const commitTimeAt = 1 + 8 + 8 // behind the logical clock, since 8.0.1
	r.take(commitTimeAt)
	if us := r.uint(7); !r.bad {
		e.Committed = microTime(us &^ (1 << 55))
	}
	return e, nil
}

// ParseMariaDBGTID reads the GTID event of MariaDB.
func ParseMariaDBGTID(h *Header, b []byte) (e GTID, err error) {
	const standalone, commitID, prepared = 1, 2, 64
	r := reading{b: b}
	e.Number, e.Domain = r.uint64(), r.uint32()
	flags := r.uint8()
	e.Standalone = flags&standalone != 0
	e.Committed = time.Unix(int64(h.Time), 0).UTC()
	if flags&commitID != 0 {
		r.take(8)
	}
	if flags&prepared != 0 {
		format, gtrid, bqual := r.uint32(), int(r.uint8()), int(r.uint8())
		e.XID = fmt.Sprintf("x'%x',x'%x',%d", r.take(gtrid), r.take(bqual), format)
	}
	if r.bad {
		return e, Truncated("gtid event")
	}
	return e, nil
}

// ParsePreviousGTIDs returns the transactions in all files before this one, as MySQL writes them at the beginning of a file.
func ParsePreviousGTIDs(b []byte) (*GTIDSet, error) {
	set := NewGTIDSet(false)
	r := reading{b: b}
	count := r.uint64()
	tagged := count>>56 == 1
	if tagged {
		count = count << 8 >> 16
	}
	for ; count > 0 && !r.bad; count-- {
		key := string(AppendUUIDText(nil, r.take(16)))
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
		return nil, Truncated("previous gtids")
	}
	return set, nil
}

// ParseGTIDList returns the same for MariaDB. If a domain stands there several times, the last one counts.
func ParseGTIDList(b []byte) (*GTIDSet, error) {
	set := NewGTIDSet(true)
	r := reading{b: b}
	for n := r.uint32() & (1<<28 - 1); n > 0 && !r.bad; n-- {
		domain, server, seq := r.uint32(), r.uint32(), r.uint64()
		set.SetDomain(domain, server, seq)
	}
	if r.bad {
		return nil, Truncated("gtid list")
	}
	return set, nil
}

// microTime converts microseconds since 1970.
func microTime(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }
