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

// BenchmarkEvent takes an insert from the server's event into a batch.
func BenchmarkEvent(b *testing.B) {
	id := bson.NewObjectID()
	raw, err := bson.Marshal(bson.D{
		{Key: "txnNumber", Value: int64(1)}, {Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: make([]byte, 16)}}}},
		{Key: "_id", Value: bson.D{{Key: "_data", Value: strings.Repeat("8", 110)}}}, {Key: "operationType", Value: "insert"},
		{Key: "clusterTime", Value: bson.Timestamp{T: 1, I: 1}}, {Key: "wallTime", Value: bson.DateTime(1000)},
		{Key: "fullDocument", Value: bson.D{
			{Key: "_id", Value: id}, {Key: "aggregatetype", Value: "order"}, {Key: "aggregateid", Value: "30"}, {Key: "type", Value: "OrderPlaced"},
			{Key: "payload", Value: bson.D{{Key: "customer", Value: 30}, {Key: "note", Value: strings.Repeat("x", 170)}}},
		}},
		{Key: "ns", Value: bson.D{{Key: "db", Value: "shop"}, {Key: "coll", Value: "outbox"}}}, {Key: "documentKey", Value: bson.D{{Key: "_id", Value: id}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	table := kitTable("debezium")
	streamed, err := newStreamTable(&table)
	if err != nil {
		b.Fatal(err)
	}
	st := &stream{source: &Source{}, tables: []streamTable{streamed}, dec: decoder{maxMessage: 1 << 20},
		emit: func(context.Context, *source.Batch) error { return nil }}
	b.ReportAllocs()
	for b.Loop() {
		if err := st.event(b.Context(), raw); err != nil {
			b.Fatal(err)
		}
	}
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
