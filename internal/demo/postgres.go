package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// makePostgres makes a database on a given server.
func makePostgres(ctx context.Context, given, name string) (p *place, err error) {
	target, err := withDatabase(given, name)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, given)
	if err != nil {
		return nil, fmt.Errorf("use the server of --url: %w", err)
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
		e, ok := errors.AsType[*pgconn.PgError](err)
		return nil, lacking(fmt.Errorf("make a database for the demo: %w", err), ok && e.Code == "42501", "ALTER ROLE … CREATEDB REPLICATION")
	}
	return &place{kind: "postgres", url: target, what: "a database of the demo's own: " + name, open: openPostgres(target),
		drop: func(ctx context.Context) error { return dropPostgres(ctx, given, name) }}, nil
}

// dropPostgres drops the database with its slot.
func dropPostgres(ctx context.Context, given, name string) error {
	conn, err := pgx.Connect(ctx, given)
	if err != nil {
		return fmt.Errorf("drop the demo's database %s: %w", name, err)
	}
	for _, statement := range []string{
		"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = '" + name + "'",
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = '" + name + "'",
		"DROP DATABASE " + name + " WITH (FORCE)",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return errors.Join(fmt.Errorf("drop the demo's database %s: %w", name, err), conn.Close(ctx))
		}
	}
	return conn.Close(ctx)
}

func openPostgres(url string) func(context.Context) (till, error) {
	return func(ctx context.Context) (till, error) {
		conn, err := pgx.Connect(ctx, url)
		return postgresTill{conn}, err
	}
}

// postgresTill is a till.
type postgresTill struct{ conn *pgx.Conn }

func (t postgresTill) makeOrders(ctx context.Context) error {
	_, err := t.conn.Exec(ctx, ordersTable)
	return err
}

func (t postgresTill) write(ctx context.Context, order, status string, messages []message) error {
	return pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		change := "UPDATE orders SET status = $1 WHERE id = $2"
		if status == placed {
			change = "INSERT INTO orders (status, id) VALUES ($1, $2)"
		}
		if _, err := tx.Exec(ctx, change, status, order); err != nil {
			return err
		}
		for _, m := range messages {
			if _, err := tx.Exec(ctx, "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ($1, $2, $3, $4)",
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
