package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"github.com/tailbox/tailbox/sink"
)

// produce is one produce request: one record batch for one partition. The sink encodes it by itself, straight into
// memory that is used again, because the way over a client library's types costs more than all the rest of a
// delivery.
type produce struct {
	clientID    string
	compression compress.Compression
	metadata    bool
	timeout     time.Duration

	// request is the whole request, from its length on. records are those that are to be compressed.
	request, records []byte
	// size is how large the record batch is, uncompressed; sent is what the broker gets of it, and compares with its limit.
	size, sent int
}

// Offsets in a request, and in the record batch that ends it.
const (
	versionAt     = 6
	correlationAt = 8

	batchLengthAt   = 8
	checksumAt      = 17
	attributesAt    = 21
	lastDeltaAt     = 23
	firstTimeAt     = 27
	maxTimeAt       = 35
	recordCountAt   = 57
	batchHeaderSize = 61
)

// encode makes the request for the first of ds whose batch stays within limit bytes, uncompressed, but at least one, and
// returns how many these are.
func (p *produce) encode(d sink.Destination, ds []*sink.Delivery, limit int, now time.Time) (count int, err error) {
	base := timestamp(ds[0], now)
	b, start := p.appendHead(p.request[:0], d, base)
	var latest int64
	if codec := p.compression.Codec(); codec == nil {
		b, count, latest = p.appendRecords(b, ds, base, limit, now) // straight into the request: one copy of a large message is enough
		p.size = len(b) - start
	} else {
		p.records, count, latest = p.appendRecords(p.records[:0], ds, base, limit, now)
		if b, err = appendCompressed(b, codec, p.records); err != nil {
			return 0, err
		}
		p.size = batchHeaderSize + len(p.records)
	}
	batch := b[start:]
	p.sent = len(batch)
	binary.BigEndian.PutUint32(b[start-4:], uint32(len(batch)))
	binary.BigEndian.PutUint32(batch[batchLengthAt:], uint32(len(batch)-batchLengthAt-4))
	binary.BigEndian.PutUint32(batch[lastDeltaAt:], uint32(count-1))
	binary.BigEndian.PutUint64(batch[maxTimeAt:], uint64(latest))
	binary.BigEndian.PutUint32(batch[recordCountAt:], uint32(count))
	binary.BigEndian.PutUint32(batch[checksumAt:], crc32.Checksum(batch[attributesAt:], castagnoli()))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	p.request = b
	return count, nil
}

// appendHead appends the request up to its records. The record batch begins at start; encode fills in what depends on the records.
func (p *produce) appendHead(b []byte, d sink.Destination, base int64) (_ []byte, start int) {
	b = append(b, 0, 0, 0, 0) // length
	b = append(b, 0, 0)       // produce
	b = append(b, 0, 0)       // version, set when the connection is known
	b = append(b, 0, 0, 0, 0) // correlation, likewise
	b = appendText(b, p.clientID)
	b = append(b, 0xff, 0xff) // no transaction
	b = append(b, 0xff, 0xff) // acknowledged by all replicas in sync
	b = binary.BigEndian.AppendUint32(b, uint32(p.timeout/time.Millisecond))
	b = append(b, 0, 0, 0, 1) // one topic
	b = appendText(b, d.Name)
	b = append(b, 0, 0, 0, 1) // one partition
	b = binary.BigEndian.AppendUint32(b, uint32(d.Partition))
	b = append(b, 0, 0, 0, 0) // length of the batch
	start = len(b)
	b = append(b, make([]byte, batchHeaderSize)...)
	header := b[start:]
	binary.BigEndian.PutUint32(header[12:], 0xffffffff) // partition leader epoch
	header[16] = 2                                      // magic
	binary.BigEndian.PutUint16(header[attributesAt:], uint16(p.compression))
	binary.BigEndian.PutUint64(header[firstTimeAt:], uint64(base))
	for i := 43; i < recordCountAt; i++ { // no producer id, epoch, sequence
		header[i] = 0xff
	}
	return b, start
}

// appendRecords appends the records of as many of ds as fit, at least of one, and returns how many these are, and the latest of their times.
func (p *produce) appendRecords(b []byte, ds []*sink.Delivery, base int64, limit int, now time.Time) (_ []byte, count int, latest int64) {
	start := len(b)
	latest = base
	for i, d := range ds {
		at := timestamp(d, now)
		before := len(b)
		b = p.appendRecord(b, d, at-base, int64(i))
		if i == 0 { // The others are often alike, but for longer deltas, and to grow step by step would allocate several times as much.
			b = slices.Grow(b, max(0, min(limit-(len(b)-start), (len(ds)-1)*(len(b)-before+binary.MaxVarintLen32))))
		}
		if i > 0 && len(b)-start+batchHeaderSize > limit {
			b = b[:before]
			break
		}
		latest = max(latest, at)
		count++
	}
	return b, count, latest
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// appendCompressed appends the records in compressed form.
func appendCompressed(b []byte, codec compress.Codec, records []byte) ([]byte, error) {
	to := &appender{b}
	w := codec.NewWriter(to)
	if _, err := w.Write(records); err != nil {
		return nil, fmt.Errorf("compress records with %s: %w", codec.Name(), err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress records with %s: %w", codec.Name(), err)
	}
	return to.b, nil
}

// appender is a writer that appends.
type appender struct{ b []byte }

func (a *appender) Write(b []byte) (int, error) {
	a.b = append(a.b, b...)
	return len(b), nil
}

var _ io.Writer = (*appender)(nil)

// appendRecord appends one record, with the headers of sink.AppendHeaders in their order.
func (p *produce) appendRecord(b []byte, d *sink.Delivery, timeDelta, offsetDelta int64) []byte {
	m := d.Message
	start := len(b)
	b = append(b, make([]byte, binary.MaxVarintLen32)...) // room for the length, which comes first and has no fixed size
	b = append(b, 0)                                      // attributes
	b = binary.AppendVarint(b, timeDelta)
	b = binary.AppendVarint(b, offsetDelta)
	b = appendBytes(b, d.Key)
	b = appendBytes(b, d.Value)
	count := 1 + len(d.Headers)
	for i := range m.Headers {
		if !sink.ReservedHeader(m.Headers[i].Name) {
			count++
		}
	}
	if p.metadata {
		count += sink.MetadataHeaders
	}
	b = binary.AppendVarint(b, int64(count))
	if d.ID == nil {
		b = appendHeader(b, sink.HeaderID, m.ID)
	} else {
		b = appendBytes(appendString(b, sink.HeaderID), d.ID)
	}
	for i := range d.Headers {
		b = appendBytes(appendString(b, d.Headers[i].Name), d.Headers[i].Value)
	}
	for i := range m.Headers {
		if h := &m.Headers[i]; !sink.ReservedHeader(h.Name) {
			b = appendBytes(appendString(b, h.Name), h.Value)
		}
	}
	if p.metadata {
		b = appendHeader(b, sink.HeaderType, m.Type)
		b = appendHeader(b, sink.HeaderGroup, m.GroupText())
		var short [34]byte
		b = appendString(b, sink.HeaderPosition)
		b = appendBytes(b, m.Position.Append(short[:0]))
		b = appendString(b, sink.HeaderAttempt)
		b = appendBytes(b, strconv.AppendInt(short[:0], int64(d.Attempt), 10))
		b = appendHeader(b, sink.HeaderSource, d.Source)
	}
	record := start + binary.MaxVarintLen32
	at := start + binary.PutVarint(b[start:], int64(len(b)-record))
	return b[:at+copy(b[at:], b[record:])]
}

func appendHeader(b []byte, name, value string) []byte {
	return appendString(appendString(b, name), value)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// appendText appends a string as the request's own fields have it.
func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// timestamp is the message's own time where the router places one, else that of its commit, in milliseconds.
func timestamp(d *sink.Delivery, now time.Time) int64 {
	switch {
	case !d.Timestamp.IsZero():
		return d.Timestamp.UnixMilli()
	case !d.Message.CommitTime.IsZero():
		return d.Message.CommitTime.UnixMilli()
	}
	return now.UnixMilli()
}

// recycle keeps the memory for the next request, unless it has become very large.
func (p *produce) recycle() bool {
	return cap(p.request)+cap(p.records) < 8<<20
}
