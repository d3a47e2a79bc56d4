package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PgBouncerBin is PgBouncer's program, or an error that names what installs it.
func PgBouncerBin() (string, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err == nil {
		return bin, nil
	}
	// Debian puts it where only root's PATH leads.
	if bin, err := exec.LookPath("/usr/sbin/pgbouncer"); err == nil {
		return bin, nil
	}
	return "", fmt.Errorf("find pgbouncer: %w; run: make servers", err)
}

// PgBouncer starts a pooler of two connections in front of a server, for this
// test alone, and returns a connection string for database db through it. Mode
// is session, transaction or statement.
func PgBouncer(tb testing.TB, pg *PG, mode, db string) string {
	tb.Helper()
	port, c, err := startPgBouncer(pg, mode)
	if err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of PgBouncer's log:\n%s", tail(c.log, 4000))
		}
		if err := errors.Join(c.stop(syscall.SIGTERM), c.close()); err != nil {
			tb.Errorf("close PgBouncer: %v", err)
		}
	})
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, db)
}

func startPgBouncer(pg *PG, mode string) (port int, c *child, err error) {
	bin, err := PgBouncerBin()
	if err != nil {
		return 0, nil, err
	}
	dir, err := tempDir("tailbox-pgbouncer-")
	if err != nil {
		return 0, nil, err
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	if c, err = newChild(dir, "TERM", func() *exec.Cmd { return exec.Command(bin, file) }); err != nil {
		return 0, nil, errors.Join(err, os.RemoveAll(dir))
	}
	if port, err = freePort(); err == nil {
		host, serverPort, _ := strings.Cut(pg.Addr(), ":")
		err = os.WriteFile(file, fmt.Appendf(nil, "[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = any\npool_mode = %s\ndefault_pool_size = 2\nignore_startup_parameters = extra_float_digits\n", host, serverPort, port, mode), 0o644)
	}
	if err == nil {
		err = c.start()
	}
	if err == nil {
		err = awaitListener(fmt.Sprintf("127.0.0.1:%d", port))
	}
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("start PgBouncer: %w", err), c.close())
	}
	return port, c, nil
}

// awaitListener waits until somebody listens.
func awaitListener(addr string) error {
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", addr, time.Second); err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("wait for a listener: %w", err)
}
