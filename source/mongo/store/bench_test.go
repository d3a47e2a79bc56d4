package store

import (
	"context"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// BenchmarkSettle settles rows of a table with delete, 5,000 a transaction.
func BenchmarkSettle(b *testing.B) {
	const chunk = 5000
	for range b.N {
		b.StopTimer()
		r := newRig(b, servers.SharedMongo(b), mongotest.Table("debezium"))
		from := r.Establish()
		r.Fill(2 * chunk)
		var rows []checkpoint.Row
		ctx, cancel := context.WithCancel(r.Ctx)
		r.Must(r.Source.Run(ctx, source.Start{From: from}, func(_ context.Context, batch *source.Batch) error {
			for _, m := range batch.Messages {
				rows = append(rows, checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn})
			}
			if len(rows) == 2*chunk {
				cancel()
			}
			return nil
		}))
		cancel()
		s := opened(r)
		b.StartTimer()
		began := time.Now()
		for part := range 2 {
			out, err := s.Settle(r.Ctx, &checkpoint.Settlement{Rows: rows[part*chunk : (part+1)*chunk]})
			if err != nil || out.Gone > 0 || len(out.Invisible) > 0 {
				b.Fatal(out, err)
			}
		}
		b.ReportMetric(2*chunk/time.Since(began).Seconds(), "rows/s")
	}
}
