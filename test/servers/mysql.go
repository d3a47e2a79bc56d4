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
)

// My is a MySQL or MariaDB server with a binlog in row format, GTIDs and
// binlog_row_metadata=FULL. root has no password; the binlog and InnoDB are
// synced at each commit, so that a kill shows what a crash would. Safe for
// concurrent use.
type My struct {
	Kind    string // "mysql" or "mariadb"
	Version string // such as "9.7.4-2"
	Port    int    // TCP port on 127.0.0.1
	DataDir string // its data directory; "" for a server that we did not start
	Socket  string // its Unix socket; "" for a server that we did not start

	external *url.URL // set for a server that we did not start
	child    *child
	settings []string // "name=value", in order; the last of a name wins
}

// mysqlSettings make room for a package's worth of parallel tests.
func mysqlSettings(kind string) []string {
	settings := []string{
		"bind-address=127.0.0.1", "skip-name-resolve=1", "max_connections=300", "log-bin=bin", "binlog_format=ROW",
		"binlog_row_metadata=FULL", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1", "innodb_buffer_pool_size=64M",
		"max_allowed_packet=64M", "default-time-zone=+00:00", "innodb_lock_wait_timeout=10",
	}
	if kind == "mariadb" {
		return append(settings, "gtid-strict-mode=1", "innodb_log_file_size=64M")
	}
	return append(settings, "gtid-mode=ON", "enforce-gtid-consistency=ON", "mysqlx=OFF", "secure-file-priv=NULL",
		"innodb_redo_log_capacity=128M", "performance_schema=OFF")
}

// MySQL starts a server of the kind (see [MySQLKinds]) for this test alone and
// stops it when the test ends. The test may stop, kill, restart and pause it.
// Settings are those of the server's command line ([WithSetting]). Its
// server_uuid and server_id differ from all others'.
func MySQL(tb testing.TB, kind string, opts ...Option) *My {
	tb.Helper()
	my, err := StartMySQL(kind, opts...)
	if err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() { my.finish(tb) })
	return my
}

// finish closes the server and shows the end of its log if the test failed.
func (my *My) finish(tb testing.TB) {
	tb.Helper()
	if tb.Failed() && my.child != nil {
		tb.Logf("end of the log of %s on port %d:\n%s", my.Kind, my.Port, tail(my.child.log, 4000))
	}
	if err := my.Close(); err != nil {
		tb.Errorf("close %s: %v", my.Kind, err)
	}
}

// StartMySQL starts a server of the kind; the caller closes it.
func StartMySQL(kind string, opts ...Option) (*My, error) {
	o := pgOptions{settings: mysqlSettings(kind)}
	for _, opt := range opts {
		opt(&o)
	}
	program, err := findMySQL(kind)
	if err != nil {
		return nil, err
	}
	template, err := mysqlTemplate(kind, program)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("tailbox-" + kind + "-")
	if err != nil {
		return nil, err
	}
	my := &My{Kind: kind, Version: program.version, DataDir: filepath.Join(dir, "data"),
		Socket: filepath.Join(dir, "sock"), settings: o.settings}
	my.child, err = newChild(dir, "TERM", func() *exec.Cmd { return my.command(program) })
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// Without auto.cnf the server makes itself a new server_uuid.
	if err := copyTree(template, my.DataDir, "auto.cnf"); err != nil {
		return nil, errors.Join(err, my.Close())
	}
	for try := 1; ; try++ {
		if my.Port, err = freePort(); err != nil {
			return nil, errors.Join(err, my.Close())
		}
		err = my.Start()
		if err == nil {
			return my, nil
		}
		if try == 5 || !strings.Contains(err.Error(), "Address already in use") {
			return nil, errors.Join(err, my.Close())
		}
	}
}

// command is the server's command line. The port, unique on this machine, is its
// server_id.
func (my *My) command(p *mysqlProgram) *exec.Cmd {
	args := []string{"--datadir=" + my.DataDir, "--socket=" + my.Socket, "--port=" + strconv.Itoa(my.Port),
		"--pid-file=" + filepath.Join(filepath.Dir(my.DataDir), "pid"), "--server-id=" + strconv.Itoa(my.Port),
		// A starting MariaDB removes temporary tables of others.
		"--tmpdir=" + filepath.Dir(my.DataDir)}
	for _, s := range my.settings {
		args = append(args, "--"+s)
	}
	return p.command(args...)
}

// URL is a connection string for database db over TCP, without TLS.
func (my *My) URL(db string) string {
	if my.external != nil {
		u := *my.external
		u.Path = "/" + db
		return u.String()
	}
	return fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", my.Port, db)
}

// Addr is the host:port of the TCP port, for [NewProxy].
func (my *My) Addr() string {
	if my.external != nil {
		return net.JoinHostPort(my.external.Hostname(), strconv.Itoa(my.Port))
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(my.Port))
}

// URLThrough is URL by way of a proxy in front of Addr.
func (my *My) URLThrough(p *Proxy, db string) string {
	u, err := url.Parse(my.URL(db))
	if err != nil {
		return my.URL(db) // cannot be: URL is made from a parsed or a fixed one
	}
	u.Host = p.Addr
	return u.String()
}

// SocketURL is a connection string for database db over the Unix socket; for a
// server that we did not start it is the same as URL.
func (my *My) SocketURL(db string) string {
	if my.external != nil {
		return my.URL(db)
	}
	return fmt.Sprintf("mysql://root@/%s?socket=%s", db, url.QueryEscape(my.Socket))
}

// Start starts a server that was stopped or killed, on the same port and data,
// and returns when it answers. After a kill that includes crash recovery.
func (my *My) Start() error {
	if err := my.owned("start"); err != nil {
		return err
	}
	if err := my.child.start(); err != nil {
		return err
	}
	_, exited := my.child.running()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := my.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("start %s on port %d: it ended\n%s", my.Kind, my.Port, tail(my.child.log, 4000))
		case <-ctx.Done():
			return fmt.Errorf("start %s on port %d: no answer within 60 s: %w\n%s", my.Kind, my.Port, err, tail(my.child.log, 4000))
		case <-tick.C:
		}
	}
}

// answers connects over both roads, since the TCP port is what tests dial.
func (my *My) answers(ctx context.Context) error {
	for _, road := range []struct{ network, addr string }{{"unix", my.Socket}, {"tcp", my.Addr()}} {
		conn, err := dialMySQL(ctx, road.network, road.addr, "root", "", "")
		if err != nil {
			return err
		}
		if err := conn.Quit(); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the server in order, as its service's stop does.
func (my *My) Stop() error {
	if err := my.owned("stop"); err != nil {
		return err
	}
	return my.child.stop(syscall.SIGTERM)
}

// Kill ends the server with SIGKILL, as a power cut would.
func (my *My) Kill() error {
	if err := my.owned("kill"); err != nil {
		return err
	}
	return my.child.kill()
}

// Restart stops the server if it runs and starts it again on the same port.
func (my *My) Restart() error {
	return errors.Join(my.Stop(), my.Start())
}

// RestartWith is Restart with further settings, which stay.
func (my *My) RestartWith(opts ...Option) error {
	if err := my.Stop(); err != nil {
		return err
	}
	o := pgOptions{settings: my.settings}
	for _, opt := range opts {
		opt(&o)
	}
	my.settings = o.settings
	return my.Start()
}

// Pause freezes the server with SIGSTOP: connections stay open and nothing
// answers.
func (my *My) Pause() error {
	if err := my.owned("pause"); err != nil {
		return err
	}
	_, err := my.child.pause()
	return err
}

// Resume lets a paused server go on.
func (my *My) Resume() error {
	if err := my.owned("resume"); err != nil {
		return err
	}
	return my.child.resume()
}

// Close ends the server at once and removes its data. Nothing happens to a
// server that we did not start.
func (my *My) Close() error {
	if my.external != nil {
		return nil
	}
	return my.child.close()
}

// owned refuses verbs on a server that somebody else started.
func (my *My) owned(verb string) error {
	if my.external != nil {
		return fmt.Errorf("%s %s: %s names a server that is not ours; use servers.MySQL for one", verb, my.Kind, mysqlVariable(my.Kind))
	}
	return nil
}
