package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewDatabase creates an empty database of a name that nobody else has, and
// returns the name. At the test's end its connections are cut, its slots and
// the database dropped.
func (pg *PG) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := databaseName(tb.Name())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := pg.Exec(ctx, "postgres", "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("create database: %v", err)
	}
	tb.Cleanup(func() {
		if pg.child != nil {
			if pid, _ := pg.child.running(); pid == 0 {
				return // the test ended its server; the data goes with it
			}
		}
		if err := pg.dropDatabase(name); err != nil {
			tb.Errorf("drop database %s: %v", name, err)
		}
	})
	return name
}

// databaseName makes a readable, unique and valid name from a test's name.
func databaseName(test string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, test)
	if len(clean) > 40 { // Postgres cuts names at 63 bytes
		clean = clean[:40]
	}
	return fmt.Sprintf("t_%s_%08x", clean, rand.Uint32())
}

// Exec runs one statement in database db as superuser on a connection of its
// own.
func (pg *PG) Exec(ctx context.Context, db, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, pg.SocketURL(db))
	if err != nil {
		return fmt.Errorf("connect to database %s: %w", db, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("execute %q: %w", sql, err)
	}
	return nil
}

// dropDatabase drops a database with all that holds it: prepared transactions
// and slots first, for DROP … WITH (FORCE) cuts connections only.
func (pg *PG) dropDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, pg.SocketURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	if err := pg.rollbackPrepared(ctx, conn, name); err != nil {
		return err
	}
	// A walsender lets go of its slot only once it has ended, and a client
	// may come back meanwhile; so no new connections, then again until none is left.
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name); err != nil {
			return fmt.Errorf("cut connections: %w", err)
		}
		if _, err := conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
			WHERE database = $1 AND NOT active`, name); err != nil {
			return fmt.Errorf("drop slots: %w", err)
		}
		var left int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_replication_slots WHERE database = $1`, name).Scan(&left); err != nil {
			return fmt.Errorf("count slots: %w", err)
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("drop slots: %d still active after a minute", left)
		case <-tick.C:
		}
	}
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database: %w", err)
	}
	return nil
}

// rollbackPrepared ends what tests prepared and left; it can only be done from
// within the same database.
func (pg *PG) rollbackPrepared(ctx context.Context, conn *pgx.Conn, name string) error {
	rows, err := conn.Query(ctx, `SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE database = $1`, name)
	if err != nil {
		return fmt.Errorf("list prepared transactions: %w", err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list prepared transactions: %w", err)
	}
	for _, s := range statements {
		if err := pg.Exec(ctx, name, s); err != nil {
			return err
		}
	}
	return nil
}
