package kafka

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

func BenchmarkEncode(b *testing.B) {
	for _, compression := range []string{"none", "lz4", "snappy", "zstd"} {
		b.Run(compression, func(b *testing.B) {
			s, err := New(Config{Brokers: []string{"localhost:1"}, Compression: compression})
			if err != nil {
				b.Fatal(err)
			}
			ds := make([]*sink.Delivery, 1000)
			for i := range ds {
				ds[i] = &sink.Delivery{
					Topic: "orders", Key: []byte("customer-17"), Attempt: 1, Source: "shop",
					Value:   []byte(`{"order":12345,"note":"` + strings.Repeat("x", 160) + `"}`),
					Message: &outbox.Message{ID: fmt.Sprintf("0198c0de-0000-7000-8000-%012d", i), Type: "OrderPlaced", Group: "customer-17"},
				}
			}
			p := s.newProduce()
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				if n, err := p.encode(sink.Destination{Name: "orders"}, ds, maxRecordBatch, now); err != nil || n != len(ds) {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ds)), "ns/msg")
		})
	}
}

// TestForgedHeaders: a record is the same with and without headers by which an application passes for the relay.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	now := time.Now()
	records := func(headers ...outbox.Header) string {
		s, err := New(Config{Brokers: []string{"localhost:1"}})
		if err != nil {
			t.Fatal(err)
		}
		p := s.newProduce()
		d := &sink.Delivery{Topic: "orders", Message: &outbox.Message{ID: "1", Headers: headers}, Headers: []outbox.Header{{Name: "placed"}}}
		if _, err := p.encode(sink.Destination{Name: "orders"}, []*sink.Delivery{d}, maxRecordBatch, now); err != nil {
			t.Fatal(err)
		}
		return string(p.request)
	}
	own, forged := outbox.Header{Name: "own"}, []outbox.Header{{Name: "own"}, {Name: "id", Value: []byte("2")}, {Name: "Tailbox-Position"}}
	if records(own) != records(forged...) {
		t.Error("an application's header passes for the relay's own")
	}
}

// TestRecordLengths: a record has its exact length before it, however many bytes that length has, and whether or not that was foreseen.
func TestRecordLengths(t *testing.T) {
	t.Parallel()
	for _, metadata := range []bool{true, false} {
		p := &produce{metadata: metadata}
		var ds []*sink.Delivery
		for _, size := range []int{0, 1, 20, 40, 50, 60, 70, 200, 7700, 7800, 7900, 8000, 8100, 8180, 8190, 8200, 1 << 20, 1<<20 + 48400} {
			for _, headers := range [][]outbox.Header{nil, {{Name: "h", Value: make([]byte, 9000)}}} {
				ds = append(ds, &sink.Delivery{Value: make([]byte, size), Headers: headers, Message: &outbox.Message{ID: "1"}})
			}
		}
		records, count, _ := p.appendRecords(nil, ds, 0, 100<<20, time.UnixMilli(0))
		if count != len(ds) {
			t.Fatalf("%d records, want %d", count, len(ds))
		}
		for i := range ds {
			size, n := binary.Varint(records)
			if n <= 0 || size > int64(len(records)-n) {
				t.Fatalf("record %d: length %d of %d bytes, %d are left", i, size, n, len(records))
			}
			record := records[n : n+int(size)]
			delta, m := binary.Varint(record[1:])    // time
			offset, k := binary.Varint(record[1+m:]) // in the batch
			if record[0] != 0 || delta != 0 || offset != int64(i) || k < 1 {
				t.Fatalf("record %d begins with attributes %d, time %d, offset %d", i, record[0], delta, offset)
			}
			records = records[n+int(size):]
		}
		if len(records) > 0 {
			t.Errorf("%d bytes follow the last record", len(records))
		}
	}
}
