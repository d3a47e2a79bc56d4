package stream

import (
	"context"
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

func BenchmarkDecode(b *testing.B) {
	for _, txn := range []int{1, 100} {
		b.Run(fmt.Sprintf("txn=%d", txn), func(b *testing.B) {
			const rows = 10_000
			stream := benchStream(rows, txn)
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				err := fuzzStream(stream, 64<<10, pgrepl.BufferSize, func(_ context.Context, batch *source.Batch) error {
					got += len(batch.Messages)
					return nil
				})
				if got != rows {
					b.Fatalf("%d rows: %v", got, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}

// benchStream is a stream of rows of about 700 bytes.
func benchStream(rows, txn int) []byte {
	cols := []pgrepl.RelationColumn{{Name: "id", TypeOID: 2950, Modifier: -1}, {Name: "type", TypeOID: 25, Modifier: -1},
		{Name: "message_group", TypeOID: 25, Modifier: -1}, {Name: "payload", TypeOID: 3802, Modifier: -1},
		{Name: "created_at", TypeOID: 1184, Modifier: -1}}
	b := wireKeepalive(1)
	for n := range rows {
		at := uint64(1000 * (n/txn + 1))
		if n%txn == 0 {
			b = append(b, wireLog(wireBegin(at, at))...)
		}
		if n == 0 {
			b = append(b, wireLog(wireRelation(7, "public", "a", cols...))...)
		}
		b = append(b, wireLog(wireInsert(7, columns.Value{Tag: 'b', Data: []byte("0123456789abcdef")}, columns.Value{Tag: 'b', Data: []byte("OrderPlaced")},
			columns.Value{Tag: 'b', Data: fmt.Appendf(nil, "order:%d", n%997)}, columns.Value{Tag: 'b', Data: append([]byte{1}, make([]byte, 520)...)},
			columns.Value{Tag: 'b', Data: make([]byte, 8)}))...)
		if n%txn == txn-1 {
			b = append(b, wireLog(wireCommit(at+8))...)
		}
	}
	return b
}
