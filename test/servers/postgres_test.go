package servers_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(leaveOrphans())
	}
	os.Exit(servers.Main(m))
}

// within is a context that ends before the test binary's own limit, so that a
// hang names its test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// connect opens a connection that is closed with the test.
func connect(t *testing.T, ctx context.Context, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
	return conn
}

// queryOne returns the single value of a query.
func queryOne[T any](t *testing.T, ctx context.Context, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("query %q: %v", sql, err)
	}
	return v
}

// execute runs a statement.
func execute(t *testing.T, ctx context.Context, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("execute %q: %v", sql, err)
	}
}

func TestPostgresVersionsDecodeLogically(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 3*time.Minute)
			pg := servers.Shared(t, version)
			db := pg.NewDatabase(t)
			for road, url := range map[string]string{"tcp": pg.URL(db), "socket": pg.SocketURL(db)} {
				conn := connect(t, ctx, url)
				if got := queryOne[string](t, ctx, conn, "SHOW server_version"); got[:2] != version {
					t.Errorf("version over %s: got %s, want %s", road, got, version)
				}
				if got := queryOne[string](t, ctx, conn, "SHOW fsync"); got != "on" {
					t.Errorf("fsync: got %s, want on", got)
				}
			}
			conn := connect(t, ctx, pg.URL(db))
			execute(t, ctx, conn, "CREATE TABLE outbox (id int PRIMARY KEY)")
			execute(t, ctx, conn, "SELECT pg_create_logical_replication_slot($1, 'test_decoding')", "slot_"+db[len(db)-8:])
			execute(t, ctx, conn, "INSERT INTO outbox VALUES (42)")
			got := queryOne[string](t, ctx, conn,
				"SELECT string_agg(data, '|') FROM pg_logical_slot_get_changes($1, NULL, NULL, 'include-xids', '0')", "slot_"+db[len(db)-8:])
			if want := "BEGIN|table public.outbox: INSERT: id[integer]:42|COMMIT"; got != want {
				t.Errorf("decoded: got %q, want %q", got, want)
			}
		})
	}
}

func TestPostgresKeepsDataOverKillAndStop(t *testing.T) {
	t.Parallel()
	for _, version := range servers.PostgresVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 4*time.Minute)
			pg := servers.Postgres(t, version, servers.WithSetting("work_mem", "5MB"))
			db := pg.NewDatabase(t)
			conn := connect(t, ctx, pg.URL(db))
			if got := queryOne[string](t, ctx, conn, "SHOW work_mem"); got != "5MB" {
				t.Errorf("work_mem: got %s, want 5MB", got)
			}
			execute(t, ctx, conn, "CREATE TABLE n (i int)")
			for i, end := range []func() error{pg.Kill, pg.Stop} {
				execute(t, ctx, conn, "INSERT INTO n VALUES ($1)", i)
				if err := end(); err != nil {
					t.Fatalf("end server: %v", err)
				}
				if _, err := pgx.Connect(ctx, pg.URL(db)); err == nil {
					t.Fatal("connect to an ended server: got a connection")
				}
				if err := pg.Start(); err != nil {
					t.Fatalf("start again: %v", err)
				}
				conn = connect(t, ctx, pg.URL(db))
				if got, want := queryOne[int](t, ctx, conn, "SELECT count(*) FROM n"), i+1; got != want {
					t.Errorf("rows after restart: got %d, want %d", got, want)
				}
			}
		})
	}
}

func TestPostgresPausedDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	pg := servers.Postgres(t, "17")
	conn := connect(t, ctx, pg.URL("postgres"))
	if err := pg.Pause(); err != nil {
		t.Fatalf("pause: %v", err)
	}
	answer := make(chan error, 1)
	go func() { answer <- conn.Ping(ctx) }()
	select {
	case err := <-answer:
		t.Errorf("ping of a paused server: answered (%v)", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := pg.Resume(); err != nil {
		t.Fatalf("resume: %v", err)
	}
	if err := <-answer; err != nil {
		t.Errorf("ping after resume: %v", err)
	}
}

func TestPostgresSystemIdentifiers(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	identifier := func(pg *servers.PG) int64 {
		return queryOne[int64](t, ctx, connect(t, ctx, pg.URL("postgres")), "SELECT system_identifier FROM pg_control_system()")
	}
	shared, fresh := servers.Shared(t, "17"), servers.Postgres(t, "17", servers.WithFreshSystemID())
	if a, b := identifier(shared), identifier(fresh); a == b {
		t.Errorf("system identifiers: got %d twice, want two", a)
	}
}

func TestPostgresDatabaseIsDroppedWithItsSlots(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	pg := servers.Shared(t, "17")
	var db string
	t.Run("use", func(t *testing.T) {
		db = pg.NewDatabase(t)
		conn := connect(t, ctx, pg.URL(db))
		execute(t, ctx, conn, "CREATE TABLE n (i int)")
		execute(t, ctx, conn, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", db[len(db)-8:])
		execute(t, ctx, conn, "BEGIN")
		execute(t, ctx, conn, "INSERT INTO n VALUES (1)")
		execute(t, ctx, conn, "PREPARE TRANSACTION 'left behind'")
	})
	conn := connect(t, ctx, pg.URL("postgres"))
	if got := queryOne[int](t, ctx, conn, "SELECT count(*) FROM pg_database WHERE datname = $1", db); got != 0 {
		t.Errorf("databases named %s after the test: got %d, want 0", db, got)
	}
	if got := queryOne[int](t, ctx, conn, "SELECT count(*) FROM pg_replication_slots WHERE database = $1", db); got != 0 {
		t.Errorf("slots of %s after the test: got %d, want 0", db, got)
	}
}
