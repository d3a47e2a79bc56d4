package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Server is a running Postgres with wal_level = logical and track_commit_timestamp = on, whose superuser postgres needs no password on this machine.
type Server struct {
	dir    string
	port   int
	guard  *guard
	server *exec.Cmd
	exited chan struct{}
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
	startTries   = 5
)

// Start makes a data directory in a new folder and starts the programs in bin on it.
func Start(ctx context.Context, bin string) (*Server, error) {
	// Short, because the path of a Unix socket may not exceed 107 bytes.
	base := os.TempDir()
	if len(base) > 40 {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "tailbox-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Postgres: %w", err)
	}
	s := &Server{dir: dir}
	if err := own(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.guard, err = newGuard(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.initdb(ctx, bin); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for try := 1; ; try++ {
		err := s.start(ctx, bin)
		if err == nil {
			return s, nil
		}
		// The port was free a moment ago; another program may have been quicker.
		if try == startTries || !strings.Contains(s.log(), "could not bind") {
			return nil, errors.Join(err, s.Close())
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// openLog opens the server's log. The folder is the unprivileged user's, who could put a link in its place.
func (s *Server) openLog(flag int) (*os.File, error) {
	return os.OpenFile(filepath.Join(s.dir, "log"), flag|noFollow, 0o600)
}

// initdb makes the data directory. Nothing is synced: a machine that dies now has no use for it.
func (s *Server) initdb(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "postgres", "--auth=trust",
		"--encoding=UTF8", "--no-locale", "--no-sync")
	s.prepare(cmd)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("make a Postgres data directory with %s: %w: %s", cmd.Path, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// prepare gives a program its own home, and nothing of our environment that would configure it.
func (s *Server) prepare(cmd *exec.Cmd) {
	cmd.Dir = s.dir
	cmd.Env = []string{"HOME=" + s.dir, "TMPDIR=" + s.dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	demote(cmd)
}

func (s *Server) start(ctx context.Context, bin string) (err error) {
	port, err := FreePort(ctx)
	if err != nil {
		return err
	}
	s.port = port
	log, err := s.openLog(os.O_CREATE | os.O_TRUNC | os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("open the log of Postgres: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	args := []string{"-D", s.data(), "-p", strconv.Itoa(port)}
	for _, setting := range []string{"wal_level=logical", "track_commit_timestamp=on", "listen_addresses=127.0.0.1", "unix_socket_directories=" + s.dir,
		"shared_buffers=32MB", "max_connections=30", "fsync=off", "dynamic_shared_memory_type=mmap", "log_min_messages=warning"} {
		args = append(args, "-c", setting)
	}
	// Not bound to ctx: Close ends it, once nobody needs it any more.
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	s.prepare(cmd)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	exited := make(chan struct{})
	s.server, s.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the log says why it ended
	}()
	if err := s.guard.watch(cmd.Process.Pid); err != nil {
		return err
	}
	return s.ready(ctx)
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return fmt.Errorf("start Postgres: it ended: %s", s.log())
		case <-ctx.Done():
			return fmt.Errorf("start Postgres: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// log is the end of the server's log.
func (s *Server) log() string {
	f, err := s.openLog(os.O_RDONLY)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // it was only read
	const most = 2000
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// URL is a connection URI for a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Close ends the server at once and removes its folder.
func (s *Server) Close() error {
	var err error
	if s.server != nil {
		err = quit(s.server.Process)
		select {
		case <-s.exited:
		case <-time.After(stopTimeout):
			err = errors.Join(err, s.server.Process.Kill())
			<-s.exited
		}
	}
	return errors.Join(err, s.guard.close(), os.RemoveAll(s.dir))
}

// FreePort returns a loopback TCP port that nobody listens on. Another process may take it before the caller does.
func FreePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
