package kafka_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// BenchmarkDeliver writes batches of 1,000 to each of 8 partitions of a real broker.
func BenchmarkDeliver(b *testing.B) {
	k := servers.SharedKafka(b)
	for _, compression := range []string{"none", "lz4"} {
		b.Run(compression, func(b *testing.B) {
			const partitions, size = 8, 1000
			topic := k.NewTopic(b, partitions)
			s := newSink(b, kafka.Config{Brokers: k.Brokers(), Compression: compression})
			batches := make([][]*sink.Delivery, partitions)
			for p := range batches {
				partition := int32(p)
				ds := deliveries(topic, fmt.Sprint("customer-", p), 0, size)
				for _, d := range ds {
					d.Value = []byte(`{"order":12345,"lines":[{"sku":"A-1","quantity":2}],"note":"` + strings.Repeat("x", 120) + `"}`)
					d.Message.CommitTime = time.Now()
					d.Partition = &partition
				}
				batches[p] = ds
			}
			for _, ds := range batches {
				if failed := sinktest.Send(b.Context(), b, s, ds); len(failed) > 0 {
					b.Fatal(failed)
				}
			}
			var rest atomic.Int64
			rest.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, ds := range batches {
				ds[0].Destination = s.Destination(ds[0])
				wg.Go(func() {
					for rest.Add(-1) >= 0 {
						if answers := s.Deliver(b.Context(), ds); answers != nil {
							b.Error(answers[0])
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
