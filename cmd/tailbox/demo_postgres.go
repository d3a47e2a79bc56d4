package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// makeDemoPostgres makes a database on a server that somebody else runs.
func makeDemoPostgres(ctx context.Context, given, name string) (db *demoDatabase, err error) {
	target, err := withDatabase(given, name)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, given)
	if err != nil {
		return nil, fmt.Errorf("connect to the server of --url: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var level string
	if err := conn.QueryRow(ctx, "SHOW wal_level").Scan(&level); err != nil {
		return nil, fmt.Errorf("ask the server of --url for wal_level: %w", err)
	}
	if level != "logical" {
		return nil, fmt.Errorf("use the server of --url: its wal_level is %s: ALTER SYSTEM SET wal_level = 'logical', then restart it", level)
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		var e *pgconn.PgError
		denied := errors.As(err, &e) && e.Code == "42501"
		return nil, lacking(fmt.Errorf("make a database for the demo: %w", err), denied, "ALTER ROLE … CREATEDB REPLICATION")
	}
	return &demoDatabase{kind: "postgres", url: target, what: "a database of the demo's own: " + name, open: openDemoPostgres(target),
		close: func(ctx context.Context) error { return dropDemoPostgres(ctx, given, name) }}, nil
}

// dropDemoPostgres drops the database with its slot.
func dropDemoPostgres(ctx context.Context, given, name string) (err error) {
	conn, err := pgx.Connect(ctx, given)
	if err != nil {
		return fmt.Errorf("drop the demo's database %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, sql := range []string{
		"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = '" + name + "'",
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = '" + name + "'",
		"DROP DATABASE " + name + " WITH (FORCE)",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("drop the demo's database %s: %w", name, err)
		}
	}
	return nil
}

func openDemoPostgres(url string) func(context.Context) (demoTill, error) {
	return func(ctx context.Context) (demoTill, error) {
		conn, err := pgx.Connect(ctx, url)
		return postgresTill{conn}, err
	}
}

// postgresTill is a demoTill.
type postgresTill struct{ conn *pgx.Conn }

func (t postgresTill) makeOrders(ctx context.Context) error {
	_, err := t.conn.Exec(ctx, `CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL)`)
	return err
}

func (t postgresTill) write(ctx context.Context, order, status string, messages []demoMessage) error {
	return pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, status) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET status = $2`,
			order, status); err != nil {
			return err
		}
		for _, m := range messages {
			if _, err := tx.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ($1, $2, $3, $4::jsonb)`,
				m.aggregate, m.id, m.kind, m.payload); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t postgresTill) left(ctx context.Context) (n int, err error) {
	err = t.conn.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&n)
	return n, err
}

func (t postgresTill) close(ctx context.Context) error { return t.conn.Close(ctx) }
