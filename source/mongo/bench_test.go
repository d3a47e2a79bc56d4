package mongo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

const benchRows = 100_000

// fill inserts documents, ten a transaction's worth at a time.
func (r *rig) fill(n int) {
	payload := strings.Repeat("x", 200)
	docs := make([]any, 0, 1000)
	for i := range n {
		docs = append(docs, bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "aggregatetype", Value: "order"}, {Key: "aggregateid", Value: fmt.Sprint(i % 1000)},
			{Key: "type", Value: "OrderPlaced"}, {Key: "payload", Value: payload}})
		if len(docs) == cap(docs) || i == n-1 {
			_, err := r.collection(0).InsertMany(r.ctx, docs)
			r.must(err)
			docs = docs[:0]
		}
	}
}

// BenchmarkRead reads the same log with the source, and with nothing but the driver's change stream.
func BenchmarkRead(b *testing.B) {
	r := newRig(b, servers.SharedMongo(b), kitTable("debezium"))
	from := r.establish()
	r.fill(benchRows)
	at, err := parsePlace(from)
	r.must(err)
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			begin := (at.at + 1).timestamp()
			cs, err := r.collection(0).Watch(r.ctx, bson.A{}, options.ChangeStream().SetBatchSize(serverBatch).SetStartAtOperationTime(&begin))
			r.must(err)
			for range benchRows {
				if !cs.Next(r.ctx) {
					b.Fatal(cs.Err())
				}
			}
			r.must(cs.Close(r.ctx))
		}
		b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("source", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ctx, cancel := context.WithCancel(r.ctx)
			seen := 0
			r.must(r.src.Run(ctx, source.Start{From: from}, func(_ context.Context, batch *source.Batch) error {
				if seen += len(batch.Messages); seen == benchRows {
					cancel()
				}
				return nil
			}))
			cancel()
		}
		b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}

// BenchmarkSettle settles rows of a table with delete, 5,000 a transaction.
func BenchmarkSettle(b *testing.B) {
	const chunk = 5000
	for range b.N {
		b.StopTimer()
		r := newRig(b, servers.SharedMongo(b), kitTable("debezium"))
		from := r.establish()
		r.fill(2 * chunk)
		var rows []checkpoint.Row
		ctx, cancel := context.WithCancel(r.ctx)
		r.must(r.src.Run(ctx, source.Start{From: from}, func(_ context.Context, batch *source.Batch) error {
			for _, m := range batch.Messages {
				rows = append(rows, checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn})
			}
			if len(rows) == 2*chunk {
				cancel()
			}
			return nil
		}))
		cancel()
		s := r.open()
		b.StartTimer()
		began := time.Now()
		for part := range 2 {
			out, err := s.Settle(r.ctx, &checkpoint.Settlement{Rows: rows[part*chunk : (part+1)*chunk]})
			if err != nil || out.Gone > 0 || len(out.Invisible) > 0 {
				b.Fatal(out, err)
			}
		}
		b.ReportMetric(2*chunk/time.Since(began).Seconds(), "rows/s")
	}
}
