package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/internal/pgserver"
)

// A demoDatabase is where the demo's shop lives.
type demoDatabase struct {
	url   string
	what  string
	close func(context.Context) error
}

// openDemoDatabase starts a server, or makes a database on the given one.
func openDemoDatabase(ctx context.Context, given string, progress func(string)) (*demoDatabase, error) {
	if given != "" {
		return makeDemoDatabase(ctx, given)
	}
	bin, err := pgserver.Find(ctx, progress)
	if err != nil {
		return nil, err
	}
	server, err := pgserver.Start(ctx, bin)
	if err != nil {
		return nil, err
	}
	url := server.URL("postgres")
	return &demoDatabase{url: url, what: "a Postgres of the demo's own: " + url,
		close: func(context.Context) error { return server.Close() }}, nil
}

// makeDemoDatabase makes a database on a server that somebody else runs.
func makeDemoDatabase(ctx context.Context, given string) (db *demoDatabase, err error) {
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
	name := "tailbox_demo_" + strings.ToLower(rand.Text()[:8])
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("make a database for the demo: %w", err)
	}
	target, err := withDatabase(given, name)
	if err != nil {
		return nil, err
	}
	return &demoDatabase{url: target, what: "a database of the demo's own: " + name,
		close: func(ctx context.Context) error { return dropDemoDatabase(ctx, given, name) }}, nil
}

// dropDemoDatabase drops the database with its slot.
func dropDemoDatabase(ctx context.Context, given, name string) (err error) {
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

// withDatabase is the connection string for another database of the same server.
func withDatabase(conn, name string) (string, error) {
	if !strings.Contains(conn, "://") {
		return conn + " dbname=" + name, nil
	}
	u, err := url.Parse(conn)
	if err != nil {
		return "", errors.New("read --url: it is no URL")
	}
	u.Path = "/" + name
	return u.String(), nil
}
