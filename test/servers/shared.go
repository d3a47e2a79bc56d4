package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// shared holds the servers of this process that tests have in common. Starting
// one takes seconds, so it is done once a process; hence package variables.
//
//nolint:gochecknoglobals // one set of servers a process
var shared struct {
	mu       sync.Mutex
	postgres map[string]func() (*PG, error)
	mysql    map[string]func() (*My, error)
	nats     func() (*NATSServer, error)
	closers  []func() error
}

// Shared returns the server of the major version that all tests of this
// process use. Start it anew, stop it or change its settings in no test: use
// [Postgres] for that. With TAILBOX_TEST_POSTGRES_URL it is that server,
// whatever version is asked for.
func Shared(tb testing.TB, version string) *PG {
	tb.Helper()
	shared.mu.Lock()
	if shared.postgres == nil {
		shared.postgres = make(map[string]func() (*PG, error))
	}
	start, ok := shared.postgres[version]
	if !ok {
		start = sync.OnceValues(func() (*PG, error) { return startShared(version) })
		shared.postgres[version] = start
	}
	shared.mu.Unlock()
	pg, err := start()
	if err != nil {
		unavailable(tb, err)
	}
	return pg
}

// startShared starts a server, or finds the one that the environment names.
func startShared(version string) (*PG, error) {
	if pg, err := externalPostgres(); pg != nil || err != nil {
		return pg, err
	}
	pg, err := StartPostgres(version)
	if err != nil {
		return nil, err
	}
	atEnd(pg.Close)
	return pg, nil
}

// SharedMySQL returns the server of the kind (see [MySQLKinds]) that all tests
// of this process use. Start it anew, stop it or change its settings in no
// test: use [MySQL] for that. With TAILBOX_TEST_MYSQL_URL or
// TAILBOX_TEST_MARIADB_URL it is that server.
func SharedMySQL(tb testing.TB, kind string) *My {
	tb.Helper()
	shared.mu.Lock()
	if shared.mysql == nil {
		shared.mysql = make(map[string]func() (*My, error))
	}
	start, ok := shared.mysql[kind]
	if !ok {
		start = sync.OnceValues(func() (*My, error) { return startSharedMySQL(kind) })
		shared.mysql[kind] = start
	}
	shared.mu.Unlock()
	my, err := start()
	if err != nil {
		unavailable(tb, err)
	}
	return my
}

// startSharedMySQL starts a server, or finds the one that the environment names.
func startSharedMySQL(kind string) (*My, error) {
	if my, err := externalMySQL(kind); my != nil || err != nil {
		return my, err
	}
	my, err := StartMySQL(kind)
	if err != nil {
		return nil, err
	}
	atEnd(my.Close)
	return my, nil
}

// atEnd has Main call f after the tests.
func atEnd(f func() error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.closers = append(shared.closers, f)
}

// Versions are the major versions to run a test against: all of
// [PostgresVersions], or the one of the server that TAILBOX_TEST_POSTGRES_URL
// names.
func Versions(tb testing.TB) []string {
	tb.Helper()
	pg, err := externalPostgres()
	if err != nil {
		unavailable(tb, err)
	}
	if pg != nil {
		return []string{pg.Version}
	}
	return PostgresVersions()
}

// externalPostgres finds the server that the environment names; nil if none.
func externalPostgres() (*PG, error) {
	text := os.Getenv("TAILBOX_TEST_POSTGRES_URL")
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse TAILBOX_TEST_POSTGRES_URL: %w; want postgres://user:password@host:port/postgres", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("connect to TAILBOX_TEST_POSTGRES_URL: %w", err)
	}
	defer conn.Close(ctx)
	var number int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&number); err != nil {
		return nil, fmt.Errorf("ask TAILBOX_TEST_POSTGRES_URL for its version: %w", err)
	}
	return &PG{Version: fmt.Sprint(number / 10000), Port: int(conn.Config().Port), external: u}, nil
}

// Main runs a package's tests, stops the shared servers after them and prints
// how many tests were skipped for want of a server. Use it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
//
// Without it the servers still end with the process, only less tidily.
func Main(m *testing.M) int {
	code := m.Run()
	shared.mu.Lock()
	closers := shared.closers
	shared.closers = nil
	shared.mu.Unlock()
	var err error
	for _, f := range closers {
		err = errors.Join(err, f())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "stop shared servers: %v\n", err)
		code = max(code, 1)
	}
	if n := skips.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "SKIPPED %d tests for want of a server; run: make servers\n", n)
	}
	return code
}
