package kafka

import (
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
		return string(p.records)
	}
	own, forged := outbox.Header{Name: "own"}, []outbox.Header{{Name: "own"}, {Name: "id", Value: []byte("2")}, {Name: "Tailbox-Position"}}
	if records(own) != records(forged...) {
		t.Error("an application's header passes for the relay's own")
	}
}
