package nats_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/test/servers"
)

// BenchmarkDeliver publishes to a stream in a file: many groups at once, and one group message by message.
func BenchmarkDeliver(b *testing.B) {
	server := servers.SharedNATS(b)
	for _, groups := range []int{1, 500, 2000} {
		b.Run(fmt.Sprintf("%d groups", groups), func(b *testing.B) {
			at := newStream(b, server, nil)
			s := newSink(b, nats.Config{Servers: []string{server.URL()}, MsgID: nats.MsgIDNone})
			per := min(groups, s.Limits().Batch)
			calls := make([][]*sink.Delivery, groups/per)
			for i := range calls {
				for n := range per {
					d := delivery(at.name, fmt.Sprintf("g%d-%d", i, n))
					d.Value = make([]byte, 200)
					calls[i] = append(calls[i], d)
				}
			}
			messages := 0
			b.ReportAllocs()
			for b.Loop() {
				var wg sync.WaitGroup
				for _, ds := range calls {
					wg.Go(func() {
						if answers := s.Deliver(b.Context(), ds); answers != nil {
							b.Error(answers)
						}
					})
				}
				wg.Wait()
				messages += groups
			}
			b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
