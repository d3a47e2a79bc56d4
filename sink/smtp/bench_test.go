package smtp_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/smtp"
	"github.com/tailbox/tailbox/test/servers"
)

// BenchmarkDeliver sends mails over as many connections as by default, to a server in the same process.
func BenchmarkDeliver(b *testing.B) {
	for _, size := range []int{1_000, 50_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			server := servers.StartMail(b, servers.MailOptions{})
			s := newSink(b, smtp.Config{Address: server.Addr()})
			limits := s.Limits()
			calls := make([][]*sink.Delivery, limits.Concurrency)
			for i := range calls {
				for n := range limits.Batch {
					d := delivery(fmt.Sprintf("n%d-%d", i, n), "")
					d.Value = fmt.Appendf(nil, `{"to": "a@example.org", "subject": "Hello", "text": %q}`, fmt.Sprintf("%0*d", size, 0))
					calls[i] = append(calls[i], d)
				}
			}
			mails := 0
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
				mails += len(calls) * limits.Batch
			}
			b.ReportMetric(float64(mails)/b.Elapsed().Seconds(), "mails/s")
			b.ReportMetric(float64(server.Connections()), "connections")
		})
	}
}
