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
