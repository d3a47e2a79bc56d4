package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/test/servers"
)

const benchRows = 200_000

// BenchmarkRead reads the same log with the source, and with the barest reader that pgconn allows: it receives each
// message and looks at its kind, nothing more. The metric is rows/s; compare within one run only.
func BenchmarkRead(b *testing.B) {
	for _, txn := range []int{1, 100} {
		pg := servers.Shared(b, "17")
		r := pgtest.NewRig(b, pg, pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
		from := r.Establish()
		r.Exec("SET synchronous_commit = off")
		r.Exec(fmt.Sprintf(`DO $$ BEGIN FOR n IN 0..%d LOOP
			INSERT INTO outbox (aggregatetype, aggregateid, type, payload) SELECT 'order', (random() * 1000)::int::text, 'OrderPlaced',
				jsonb_build_object('customer', n, 'note', repeat('x', 480)) FROM generate_series(1, %d);
			COMMIT; END LOOP; END $$`, benchRows/txn-1, txn))
		for _, net := range []struct{ name, url string }{{"unix", pg.SocketURL(r.DB)}, {"tcp", pg.URL(r.DB)}} {
			cfg := r.Cfg
			cfg.URL = net.url
			b.Run(fmt.Sprintf("txn=%d/%s/bare", txn, net.name), func(b *testing.B) { benchBare(b, cfg, from) })
			b.Run(fmt.Sprintf("txn=%d/%s/source", txn, net.name), func(b *testing.B) { benchSource(b, cfg, from) })
		}
	}
}

func benchSource(b *testing.B, cfg session.Config, from source.Resume) {
	b.ReportAllocs()
	errEnough := errors.New("enough")
	batches := 0
	var reading time.Duration
	for b.Loop() {
		got := 0
		var first time.Time
		err := stream.New(cfg).Run(context.Background(), source.Start{From: from}, func(_ context.Context, batch *source.Batch) error {
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

func benchBare(b *testing.B, cfg session.Config, from source.Resume) {
	ctx := context.Background()
	var reading time.Duration
	for b.Loop() {
		var first time.Time
		conn, err := cfg.ConnectReplication(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := upstream.WaitFree(ctx, &cfg, conn); err != nil {
			b.Fatal(err)
		}
		conn.Frontend().Send(&pgproto3.Query{String: fmt.Sprintf(
			"START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names %s, binary 'true')",
			sqltext.Ident(cfg.Slot), from, sqltext.Literal(sqltext.Ident(cfg.Publication)))})
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
		if err := session.ClosePgConn(ctx, conn); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/reading.Seconds(), "stream-rows/s")
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkDecode is the reader without a server: what a row costs from the read buffer to a batch.
