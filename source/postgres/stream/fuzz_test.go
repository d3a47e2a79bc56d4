package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/sourcetest"
)

// recording is a stream with several transactions, one row of which is larger than a small buffer.
func recording() []byte {
	rows := fuzzRows()
	big := wireInsert(7, append([]columns.Value{{Tag: 't', Data: []byte("id")}, {Tag: 't', Data: []byte("t")}, {Tag: 'b', Data: bytes.Repeat([]byte("p"), 2000)}},
		nulls(len(fuzzColumns)-3)...)...)
	huge := wireInsert(7, append([]columns.Value{{Tag: 't', Data: []byte("id")}, {Tag: 't', Data: []byte("t")}, {Tag: 'b', Data: bytes.Repeat([]byte("p"), 4000)}},
		nulls(len(fuzzColumns)-3)...)...)
	var b []byte
	for _, m := range [][]byte{
		wireKeepalive(100), wireLog(wireBegin(200, 1)), wireLog(wireRelation(7, "public", "a", fuzzColumns...)), wireLog(rows[0]), wireLog(rows[1]),
		wireLog(wireCommit(208)), wireKeepalive(300), wireLog(wireBegin(400, 2)), wireLog([]byte{'U', 1, 2, 3}), wireLog(big), wireLog(huge), wireLog([]byte{'T'}),
		wireLog(wireEmitted("tailbox", `{"id": "e", "type": "T", "payload_text": "`+strings.Repeat("p", 1500)+`"}`)), wireLog(wireEmitted("tailboxes", strings.Repeat("p", 5000))),
		wireLog(wireEmitted("t", "{}")), wireLog(wireEmitted("tailbox", `{"topic": "x", "payload": 1}`)),
		wireLog(wireCommit(408)), wireMessage('S', []byte("a\x00b\x00")), wireMessage('N', []byte("C00000\x00Mhello\x00\x00")), wireKeepalive(500),
	} {
		b = append(b, m...)
	}
	return b
}

// wireEmitted is a message of pg_logical_emit_message, in its transaction.
func wireEmitted(prefix, content string) []byte {
	b := append([]byte{'M', 1, 0, 0, 0, 0, 0, 0, 0, 9}, prefix...)
	return append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(content))), content...)
}

func nulls(n int) []columns.Value {
	vals := make([]columns.Value, n)
	for i := range vals {
		vals[i].Tag = 'n'
	}
	return vals
}

// TestStreamOfAnyPieces reads the same stream in pieces of all sizes: what it says must not depend on them.
func TestStreamOfAnyPieces(t *testing.T) {
	t.Parallel()
	for _, buffer := range []int{300, 5000, pgrepl.BufferSize} {
		for piece := 1; piece < 400; piece += 1 + piece/7 {
			var n int
			var resume source.Resume
			err := fuzzStream(recording(), piece, buffer, func(_ context.Context, b *source.Batch) error {
				sourcetest.CheckBatch(t, b)
				for _, m := range b.Messages {
					n++
					if faulty := n == 4; faulty != (m.Fault != nil) || n == 3 && len(m.Payload) != 2000 {
						t.Errorf("buffer %d, piece %d, message %d: fault %+v, payload of %d bytes", buffer, piece, n, m.Fault, len(m.Payload))
					}
				}
				if b.Resume != "" {
					resume = b.Resume
				}
				return nil
			})
			if !errors.Is(err, io.ErrUnexpectedEOF) || n != 6 || resume != "0/198" && resume != "0/1F4" {
				t.Fatalf("buffer %d, piece %d: %d messages, resume %s, %v", buffer, piece, n, resume, err)
			}
		}
	}
}

// FuzzStream gives the reader whole streams that no server would send.
func FuzzStream(f *testing.F) {
	f.Add(recording(), 50, 300)
	f.Add(recording()[:400], 7, 5000)
	f.Fuzz(func(t *testing.T, b []byte, piece, buffer int) {
		if piece < 1 || buffer < 64 || buffer > 10_000 {
			return
		}
		err := fuzzStream(b, piece, buffer, func(_ context.Context, b *source.Batch) error {
			sourcetest.CheckBatch(t, b)
			return nil
		})
		if err == nil {
			t.Error("the stream ended without an error")
		}
	})
}

// TestStreamUnreadableAfterPieces: what was complete before a transaction that cannot be read can be resumed behind, however the
// stream came in.
func TestStreamUnreadableAfterPieces(t *testing.T) {
	t.Parallel()
	rows := fuzzRows()
	first := [][]byte{wireLog(wireBegin(200, 1)), wireLog(wireRelation(7, "public", "a", fuzzColumns...)), wireLog(rows[0]), wireLog(rows[1]),
		wireLog(wireCommit(208)), wireLog(wireBegin(400, 2))}
	unreadable := [][]byte{wireLog(wireRelation(7, "public", "a", fuzzColumns[1:]...)), wireLog(rows[0])}
	for messages, stream := range map[int][][]byte{
		2: slices.Concat(first, unreadable),
		3: slices.Concat(first, [][]byte{wireLog(rows[0])}, unreadable), // a row of it could be read
	} {
		for piece := 1; piece < 600; piece += 1 + piece/7 {
			var resume source.Resume
			n := 0
			err := fuzzStream(slices.Concat(stream...), piece, 5000, func(_ context.Context, b *source.Batch) error {
				sourcetest.CheckBatch(t, b)
				n += len(b.Messages)
				for _, m := range b.Marks {
					resume = m.Resume
				}
				if b.Resume != "" {
					resume = b.Resume
				}
				return nil
			})
			if err == nil || n != messages || resume != "0/D0" {
				t.Errorf("piece %d: %d messages, resume %q, %v", piece, n, resume, err)
			}
		}
	}
}

// TestStreamGathersFarBehind: transactions of long ago come in batches, not one by one, also after a batch ended within one; and
// what was held back when the stream broke off is not lost with it.
func TestStreamGathersFarBehind(t *testing.T) {
	t.Parallel()
	const transactions, rows = 300, 3
	row := wireLog(fuzzRows()[0])
	stream := slices.Concat(wireLog(wireBegin(100, 1)), wireLog(wireRelation(7, "public", "a", fuzzColumns...)), wireLog(wireCommit(108)))
	for i := range uint64(transactions) {
		stream = slices.Concat(stream, wireLog(wireBegin(200+8*i, i)), row, row, row, wireLog(wireCommit(204+8*i)))
	}
	for _, piece := range []int{len(row) + 7, 5 * len(row)} {
		batches, n, start := 0, 0, time.Now()
		err := fuzzStream(stream, piece, 5000, func(_ context.Context, b *source.Batch) error {
			sourcetest.CheckBatch(t, b)
			batches, n = batches+1, n+len(b.Messages)
			return nil
		})
		most := int(time.Since(start)/gatherTime) + 10 // one each time that it may be held back no longer
		if !errors.Is(err, io.ErrUnexpectedEOF) || n != transactions*rows || batches > most {
			t.Errorf("piece %d: %d messages in %d batches, %v", piece, n, batches, err)
		}
	}
}

// TestStreamLargeAlone: nothing is held back for a large message to come along.
func TestStreamLargeAlone(t *testing.T) {
	t.Parallel()
	row := wireLog(fuzzRows()[0])
	large := wireLog(wireInsert(7, append([]columns.Value{{Tag: 't', Data: []byte("id")}, {Tag: 't', Data: []byte("t")},
		{Tag: 'b', Data: bytes.Repeat([]byte("p"), 2000)}}, nulls(len(fuzzColumns)-3)...)...))
	stream := slices.Concat(wireLog(wireBegin(100, 1)), wireLog(wireRelation(7, "public", "a", fuzzColumns...)), row, wireLog(wireCommit(108)),
		wireLog(wireBegin(200, 2)), row, large, row, large, wireLog(wireCommit(208)))
	for piece := 10; piece < 2000; piece += 1 + piece/7 {
		n := 0
		err := fuzzStream(stream, piece, 1000, func(_ context.Context, b *source.Batch) error {
			n += len(b.Messages)
			if last := len(b.Messages) - 1; last > 0 && len(b.Messages[last].Payload) == 2000 {
				t.Errorf("piece %d: a large message in a batch of %d", piece, last+1)
			}
			return nil
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) || n != 5 {
			t.Errorf("piece %d: %d messages, %v", piece, n, err)
		}
	}
}
