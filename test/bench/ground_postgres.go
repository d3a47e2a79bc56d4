package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgServer is the bench's Postgres.
type pgServer struct{ b *bench }

func startPostgres(b *bench) (server, error) {
	err := b.postgresServer()
	return &pgServer{b}, err
}

func (s *pgServer) close() error { return nil } // the bench does

// locked: deadlock_detected and lock_not_available.
func (s *pgServer) locked(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "55P03")
}

func (s *pgServer) newGround(ctx context.Context, _ string) (ground, error) {
	db, err := s.b.newBase(ctx)
	return &pgGround{db}, err
}

// A pgGround is a base, reached over its Unix socket.
type pgGround struct{ *base }

func (g *pgGround) source() string {
	return fmt.Sprintf("  kind: postgres\n  url: %q\n  publication: bench", g.url(false))
}

func (g *pgGround) bare(ctx context.Context) ([]string, error) {
	g.count++
	slot := fmt.Sprintf("bare_%d", g.count)
	err := g.exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot)
	return []string{"bare", "-url", g.url(false), "-slot", slot, "-publication", "bench"}, err
}

func (g *pgGround) end(ctx context.Context) (end string, err error) {
	err = g.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&end)
	return end, err
}

func (g *pgGround) settled(ctx context.Context, pipeline, end string) (done bool, err error) {
	err = g.conn.QueryRow(ctx, `SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = 'tailbox_' || $1`,
		pipeline, end).Scan(&done)
	return done, err
}

func (g *pgGround) fill(ctx context.Context, rows, perTxn int) error {
	return g.base.fill(ctx, rows, perTxn, spread)
}

func (g *pgGround) writer(ctx context.Context) (writer, error) {
	conn, err := pgx.Connect(ctx, g.url(false))
	return pgWriter{conn}, err
}

type pgWriter struct{ conn *pgx.Conn }

func (w pgWriter) write(ctx context.Context, n int, at int64) error {
	_, err := w.conn.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, 'OrderPlaced', $2)`,
		fmt.Sprint(n%spread), payloadText(n, at))
	return err
}

func (w pgWriter) close(ctx context.Context) error { return w.conn.Close(ctx) }
