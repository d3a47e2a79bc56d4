package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/test/servers"
)

const benchRows = 200_000

// BenchmarkRead reads the same log with the source, and with the barest reader that pgconn allows: it receives each
// message and looks at its kind, nothing more. The metric is rows/s; compare within one run only.
func BenchmarkRead(b *testing.B) {
	for _, txn := range []int{1, 100} {
		pg := servers.Shared(b, "17")
		r := newRig(b, pg, debeziumDDL, shape("debezium", "outbox"))
		from := r.establish()
		r.exec("SET synchronous_commit = off")
		r.exec(fmt.Sprintf(`DO $$ BEGIN FOR n IN 0..%d LOOP
			INSERT INTO outbox (aggregatetype, aggregateid, type, payload) SELECT 'order', (random() * 1000)::int::text, 'OrderPlaced',
				jsonb_build_object('customer', n, 'note', repeat('x', 480)) FROM generate_series(1, %d);
			COMMIT; END LOOP; END $$`, benchRows/txn-1, txn))
		for _, net := range []struct{ name, url string }{{"unix", pg.SocketURL(r.db)}, {"tcp", pg.URL(r.db)}} {
			cfg := r.cfg
			cfg.URL = net.url
			b.Run(fmt.Sprintf("txn=%d/%s/bare", txn, net.name), func(b *testing.B) { benchBare(b, cfg, from) })
			b.Run(fmt.Sprintf("txn=%d/%s/source", txn, net.name), func(b *testing.B) { benchSource(b, cfg, from) })
		}
	}
}

func benchSource(b *testing.B, cfg Config, from source.Resume) {
	b.ReportAllocs()
	errEnough := errors.New("enough")
	batches := 0
	var reading time.Duration
	for b.Loop() {
		got := 0
		var first time.Time
		err := New(cfg).Run(context.Background(), source.Start{From: from}, func(_ context.Context, batch *source.Batch) error {
			if first.IsZero() {
				first = time.Now()
			}
			got += len(batch.Messages)
			batches++
			if got == benchRows {
				reading += time.Since(first)
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(benchRows*float64(b.N)/reading.Seconds(), "stream-rows/s")
	b.ReportMetric(benchRows*float64(b.N)/float64(batches), "rows/batch")
}

func benchBare(b *testing.B, cfg Config, from source.Resume) {
	ctx := context.Background()
	var reading time.Duration
	for b.Loop() {
		var first time.Time
		conn, err := cfg.connectReplication(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := cfg.inactiveSlot(ctx, conn); err != nil {
			b.Fatal(err)
		}
		conn.Frontend().Send(&pgproto3.Query{String: fmt.Sprintf(
			"START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names %s, binary 'true')",
			quoteIdent(cfg.Slot), from, quoteLiteral(quoteIdent(cfg.Publication)))})
		if err := conn.Frontend().Flush(); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < benchRows; {
			msg, err := conn.ReceiveMessage(ctx)
			if err != nil {
				b.Fatal(err)
			}
			switch msg := msg.(type) {
			case *pgproto3.CopyData:
				if first.IsZero() {
					first = time.Now()
				}
				if msg.Data[0] == 'w' && msg.Data[pgrepl.XLogDataSize] == 'I' {
					got++
				}
			case *pgproto3.ErrorResponse:
				b.Fatal(msg.Message)
			}
		}
		reading += time.Since(first)
		if err := closePgConn(ctx, conn); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/reading.Seconds(), "stream-rows/s")
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkDecode is the reader without a server: what a row costs from the read buffer to a batch.
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
		b = append(b, wireLog(wireInsert(7, value{Tag: 'b', Data: []byte("0123456789abcdef")}, value{Tag: 'b', Data: []byte("OrderPlaced")},
			value{Tag: 'b', Data: fmt.Appendf(nil, "order:%d", n%997)}, value{Tag: 'b', Data: append([]byte{1}, make([]byte, 520)...)},
			value{Tag: 'b', Data: make([]byte, 8)}))...)
		if n%txn == txn-1 {
			b = append(b, wireLog(wireCommit(at+8))...)
		}
	}
	return b
}
