package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PG is a Postgres server with wal_level=logical and room for many slots. The
// superuser is "postgres", any password is accepted, and fsync is on, so that a
// kill shows what a crash would. Safe for concurrent use.
type PG struct {
	Version   string // major version: "15" to "18"
	Port      int    // TCP port on 127.0.0.1
	DataDir   string // its data directory; "" for a server that we did not start
	SocketDir string // directory of its Unix socket; "" for a server that we did not start

	// StandbyName is a standby's application_name and slot on its primary; "" for others.
	StandbyName string

	external *url.URL // set for a server that we did not start
	child    *child
	settings []string // "name=value", in order; the last of a name wins
	killed   bool     // ended without removing its shared memory
}

// Option changes how a Postgres server is started.
type Option func(*pgOptions)

type pgOptions struct {
	settings []string
	freshID  bool
}

// WithSetting starts the server with "-c name=value". It wins over the default
// of this package and over an earlier option.
func WithSetting(name, value string) Option {
	return func(o *pgOptions) { o.settings = append(o.settings, name+"="+value) }
}

// WithFreshSystemID runs initdb for this server, so that its system identifier
// differs from all others. Without it servers of one version are copies of one
// template and share the identifier, as a restored backup would.
func WithFreshSystemID() Option { return func(o *pgOptions) { o.freshID = true } }

// defaultSettings make room for a package's worth of parallel tests.
// Shared memory that other processes attach lies in the data directory, where
// it is removed with it even after a kill.
func defaultSettings() []string {
	return []string{
		"wal_level=logical", "max_replication_slots=80", "max_wal_senders=80", "max_connections=300",
		"max_prepared_transactions=50", "listen_addresses=127.0.0.1", "shared_buffers=64MB",
		"dynamic_shared_memory_type=mmap", "log_line_prefix=%m [%p] %a ", "timezone=UTC",
	}
}

// Postgres starts a server of the major version for this test alone and stops
// it when the test ends. The test may stop, kill, restart and pause it.
func Postgres(tb testing.TB, version string, opts ...Option) *PG {
	tb.Helper()
	pg, err := StartPostgres(version, opts...)
	if err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() { pg.finish(tb) })
	return pg
}

// finish closes the server and shows the end of its log if the test failed.
func (pg *PG) finish(tb testing.TB) {
	tb.Helper()
	if tb.Failed() && pg.child != nil {
		tb.Logf("end of the log of Postgres %s on port %d:\n%s", pg.Version, pg.Port, tail(pg.child.log, 4000))
	}
	if err := pg.Close(); err != nil {
		tb.Errorf("close Postgres %s: %v", pg.Version, err)
	}
}

// StartPostgres starts a server of the major version; the caller closes it.
func StartPostgres(version string, opts ...Option) (*PG, error) {
	o := pgOptions{settings: defaultSettings()}
	for _, opt := range opts {
		opt(&o)
	}
	bin, err := PostgresBin(version)
	if err != nil {
		return nil, err
	}
	var template string
	if !o.freshID {
		if template, err = postgresTemplate(version, bin); err != nil {
			return nil, err
		}
	}
	return launchPostgres(version, bin, o.settings, func(pg *PG) error {
		if o.freshID {
			return initdb(bin, pg.DataDir)
		}
		return copyTree(template, pg.DataDir)
	})
}

// launchPostgres starts a server on a data directory that fill makes. A port
// that was taken between our look and the server's start costs one more try.
func launchPostgres(version, bin string, settings []string, fill func(*PG) error) (*PG, error) {
	dir, err := tempDir("tailbox-pg" + version + "-")
	if err != nil {
		return nil, err
	}
	pg := &PG{Version: version, DataDir: filepath.Join(dir, "data"), SocketDir: dir, settings: settings}
	pg.child, err = newChild(dir, "QUIT", func() *exec.Cmd { return pg.command(bin) })
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := fill(pg); err != nil {
		return nil, errors.Join(err, pg.Close())
	}
	for try := 1; ; try++ {
		if pg.Port, err = freePort(); err != nil {
			return nil, errors.Join(err, pg.Close())
		}
		err = pg.Start()
		if err == nil {
			return pg, nil
		}
		if try == 5 || !strings.Contains(err.Error(), "could not bind") {
			return nil, errors.Join(err, pg.Close())
		}
	}
}

// command is the server's command line.
func (pg *PG) command(bin string) *exec.Cmd {
	args := []string{"-D", pg.DataDir, "-p", strconv.Itoa(pg.Port), "-c", "unix_socket_directories=" + pg.SocketDir}
	for _, s := range pg.settings {
		args = append(args, "-c", s)
	}
	return exec.Command(filepath.Join(bin, "postgres"), args...)
}

// URL is a connection string for database db over TCP.
func (pg *PG) URL(db string) string {
	if pg.external != nil {
		u := *pg.external
		u.Path = "/" + db
		return u.String()
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", pg.Port, db)
}

// Addr is the host:port of the TCP port, for [NewProxy].
func (pg *PG) Addr() string {
	if pg.external != nil {
		return net.JoinHostPort(pg.external.Hostname(), strconv.Itoa(pg.Port))
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(pg.Port))
}

// URLThrough is URL by way of a proxy in front of Addr.
func (pg *PG) URLThrough(p *Proxy, db string) string {
	u, err := url.Parse(pg.URL(db))
	if err != nil {
		return pg.URL(db) // cannot be: URL is made from a parsed or a fixed one
	}
	u.Host = p.Addr
	return u.String()
}

// SocketURL is a connection string for database db over the Unix socket; for a
// server that we did not start it is the same as URL.
func (pg *PG) SocketURL(db string) string {
	if pg.external != nil {
		return pg.URL(db)
	}
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=%d", db, url.QueryEscape(pg.SocketDir), pg.Port)
}

// Start starts a server that was stopped or killed, on the same port and data,
// and returns when it answers. After a kill that includes crash recovery.
func (pg *PG) Start() error {
	if err := pg.owned("start"); err != nil {
		return err
	}
	if err := pg.child.start(); err != nil {
		return err
	}
	pg.killed = false
	_, exited := pg.child.running()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := pg.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("start Postgres %s on port %d: it ended\n%s", pg.Version, pg.Port, tail(pg.child.log, 4000))
		case <-ctx.Done():
			return fmt.Errorf("start Postgres %s on port %d: no answer within 60 s: %w\n%s",
				pg.Version, pg.Port, err, tail(pg.child.log, 4000))
		case <-tick.C:
		}
	}
}

// answers connects over both roads, since the TCP port is what tests dial.
func (pg *PG) answers(ctx context.Context) error {
	for _, u := range []string{pg.SocketURL("postgres"), pg.URL("postgres")} {
		conn, err := pgx.Connect(ctx, u)
		if err != nil {
			return err
		}
		if err := conn.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the server as pg_ctl stop -m fast does: clients are cut off, and
// the data is written. It waits for walsenders to send what they have.
func (pg *PG) Stop() error {
	if err := pg.owned("stop"); err != nil {
		return err
	}
	return pg.child.stop(syscall.SIGINT)
}

// Kill ends the whole server with SIGKILL, as a power cut would.
func (pg *PG) Kill() error {
	if err := pg.owned("kill"); err != nil {
		return err
	}
	pg.killed = true
	return pg.child.kill()
}

// Restart stops the server if it runs and starts it again on the same port.
func (pg *PG) Restart() error {
	return errors.Join(pg.Stop(), pg.Start())
}

// Pause freezes the whole server with SIGSTOP: connections stay open and
// nothing answers.
func (pg *PG) Pause() error {
	if err := pg.owned("pause"); err != nil {
		return err
	}
	_, err := pg.child.pause()
	return err
}

// Resume lets a paused server go on.
func (pg *PG) Resume() error {
	if err := pg.owned("resume"); err != nil {
		return err
	}
	return pg.child.resume()
}

// Close ends the server at once and removes its data. Nothing happens to a
// server that we did not start.
func (pg *PG) Close() error {
	if pg.external != nil {
		return nil
	}
	var shm error
	if pid, _ := pg.child.running(); pid != 0 {
		// Quick, and unlike a kill it lets the server remove its shared memory.
		if err := pg.child.stop(syscall.SIGQUIT); err != nil {
			return errors.Join(err, pg.child.close())
		}
	} else if pg.killed {
		shm = removeSharedMemory(pg.DataDir)
	}
	return errors.Join(shm, pg.child.close())
}

// Log is the file that the server logs to; "" for a server that we did not start.
func (pg *PG) Log() string {
	if pg.child == nil {
		return ""
	}
	return pg.child.log
}

// owned refuses verbs on a server that somebody else started.
func (pg *PG) owned(verb string) error {
	if pg.external != nil {
		return fmt.Errorf("%s Postgres: TAILBOX_TEST_POSTGRES_URL names a server that is not ours; use servers.Postgres for one", verb)
	}
	return nil
}
