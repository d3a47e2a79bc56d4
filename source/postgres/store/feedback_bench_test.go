package store_test

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/test/servers"
)

// BenchmarkFeedback settles 1,000 rows at a time: alone, with a receipt each, and with a business row each that is told.
func BenchmarkFeedback(b *testing.B) {
	for _, name := range []string{"none", "receipts", "delivered"} {
		b.Run(name, func(b *testing.B) {
			table := pgtest.Shape("tailbox", "outbox")
			switch name {
			case "receipts":
				table.Columns.Receipt = "receipt"
			case "delivered":
				table.Feedback = outbox.Feedback{outbox.OutcomeDelivered: "UPDATE orders SET state = 'sent' WHERE id = :correlation_id::int"}
			}
			r := pgtest.NewStoreRig(b, servers.Shared(b, "17"), nil, table)
			r.Exec("CREATE TABLE orders (id int PRIMARY KEY, state text)")
			r.Exec("INSERT INTO orders SELECT i FROM generate_series(1, 100000) i")
			const n = 1000
			round := 0
			for b.Loop() {
				b.StopTimer()
				var s checkpoint.Settlement
				first := round * n
				round++
				r.Exec(fmt.Sprintf("INSERT INTO outbox (id, type, payload) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'T', 'x' FROM generate_series(%d, %d) i", first, first+n-1))
				for i := first; i < first+n; i++ {
					m := &outbox.Message{ID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i), Table: "public.outbox", CorrelationID: fmt.Sprint(1 + i%100000)}
					s.Rows = append(s.Rows, checkpoint.Row{Table: m.Table, ID: m.ID, Message: m, Receipt: "kafka: partition=3 offset=42"})
				}
				b.StartTimer()
				r.Settle(s)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(round*n), "µs/message")
		})
	}
}
