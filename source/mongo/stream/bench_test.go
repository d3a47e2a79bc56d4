package stream

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/test/servers"
)

const benchRows = 100_000

// BenchmarkRead reads the same log with the source, and with nothing but the driver's change stream.
func BenchmarkRead(b *testing.B) {
	r := newRig(b, servers.SharedMongo(b), mongotest.Table("debezium"))
	from := r.Establish()
	r.Fill(benchRows)
	at, err := oplog.ParsePlace(from)
	r.Must(err)
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			begin := (at.At + 1).Timestamp()
			cs, err := r.Collection(0).Watch(r.Ctx, bson.A{}, options.ChangeStream().SetBatchSize(serverBatch).SetStartAtOperationTime(&begin))
			r.Must(err)
			for range benchRows {
				if !cs.Next(r.Ctx) {
					b.Fatal(cs.Err())
				}
			}
			r.Must(cs.Close(r.Ctx))
		}
		b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("source", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ctx, cancel := context.WithCancel(r.Ctx)
			seen := 0
			r.Must(r.Source.Run(ctx, source.Start{From: from}, func(_ context.Context, batch *source.Batch) error {
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
	table := mongotest.Table("debezium")
	streamed, err := newStreamTable(&table)
	if err != nil {
		b.Fatal(err)
	}
	st := &stream{source: &Source{}, tables: []streamTable{streamed}, dec: document.Decoder{MaxMessage: 1 << 20},
		emit: func(context.Context, *source.Batch) error { return nil }}
	b.ReportAllocs()
	for b.Loop() {
		if err := st.event(b.Context(), raw); err != nil {
			b.Fatal(err)
		}
	}
}
