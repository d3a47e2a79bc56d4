package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/dial"
)

// closeTimeout bounds the end of a connection.
const closeTimeout = time.Second

// sessionSettings make SQL and values independent of the server's and the account's defaults. NO_BACKSLASH_ESCAPES is not among the
// modes: MySQL keeps a CHECK constraint with its quotes escaped, and a session with that mode can use no such table. Zero dates, which
// applications may have, stay readable. What the server would answer is not cut short (sql_select_limit), nor refused for its size
// (sql_big_selects).
const sessionSettings = `SET NAMES utf8mb4, autocommit = 1, time_zone = '+00:00', ` +
	`sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', ` +
	`foreign_key_checks = 1, unique_checks = 1, sql_select_limit = 18446744073709551615, sql_big_selects = 1, `

// Limits of time that the server may have for all: a sweep lasts as long as it lasts.
const (
	mysqlSettings   = `max_execution_time = 0`
	mariadbSettings = `max_statement_time = 0`
)

// A Conn is a connection for SQL. It is used by one goroutine at a time. If a context ends a statement, the
// connection is lost with it, as after any error that is not the server's own answer (broken).
type Conn struct {
	Client *client.Conn
	raw    net.Conn
	Server Version
	Broken bool
}

// A Version is what its greeting tells.
type Version struct {
	MariaDB bool
	Text    string // as the server says it
	version [3]int
}

// kind is the server's kind as the configuration names it.
func (s Version) kind() string {
	if s.MariaDB {
		return KindMariaDB
	}
	return KindMySQL
}

// AtLeast compares versions of one kind.
func (s Version) AtLeast(major, minor, patch int) bool {
	for i, n := range [3]int{major, minor, patch} {
		if s.version[i] != n {
			return s.version[i] > n
		}
	}
	return true
}

// parseServer reads the version of the greeting, such as 8.4.2, 9.7.4-2, 10.11.18-MariaDB-0+deb12u1-log, and, of MariaDB
// behind old proxies, 5.5.5-10.6.1-MariaDB.
func parseServer(text string) (Version, error) {
	s := Version{Text: text, MariaDB: strings.Contains(strings.ToLower(text), "mariadb")}
	digits := text
	if s.MariaDB {
		digits = strings.TrimPrefix(digits, "5.5.5-")
	}
	if n, err := fmt.Sscanf(digits, "%d.%d.%d", &s.version[0], &s.version[1], &s.version[2]); n < 2 {
		return Version{}, fmt.Errorf("read the server's version %q: %w", text, err)
	}
	return s, nil
}

// Connect opens a connection for SQL, to url (cfg.URL, or cfg.LockURL for the store's session), and makes it independent of
// the server's defaults. The database of the URL is the default one.
func (c *Config) Connect(ctx context.Context, url string) (*Conn, error) {
	a, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	s, err := a.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.kindName(), err)
	}
	settings := sessionSettings + mysqlSettings
	if s.Server.MariaDB {
		settings = sessionSettings + mariadbSettings
	}
	if err := c.accept(s.Server); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	if _, err := s.Exec(ctx, settings); err != nil {
		return nil, errors.Join(fmt.Errorf("set up session: %w", err), s.Close(ctx))
	}
	return s, nil
}

func (c *Config) kindName() string {
	if c.Kind == "" {
		return KindMySQL
	}
	return c.Kind
}

// accept refuses servers of the other kind, and those that are too old.
func (c *Config) accept(s Version) error {
	switch {
	case c.Kind != "" && c.Kind != s.kind():
		return fmt.Errorf("the server is %s (%s): set source.kind to %s: %w", s.kind(), s.Text, s.kind(), source.ErrStop)
	case s.MariaDB && !s.AtLeast(10, 6, 0):
		return fmt.Errorf("the server is MariaDB %s: 10.6 or later is needed: %w", s.Text, source.ErrStop)
	case !s.MariaDB && !s.AtLeast(8, 0, 14):
		return fmt.Errorf("the server is MySQL %s: 8.0.14 or later is needed: %w", s.Text, source.ErrStop)
	}
	return nil
}

// dial opens a connection and logs in.
func (a *Address) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	s, err := a.login(ctx, a.tls)
	// The driver has no kind of error for this; a server that has TLS is asked first, so that a passive listener is
	// shut out.
	if err != nil && a.preferred && strings.Contains(err.Error(), "does not support TLS") {
		return a.login(ctx, nil)
	}
	return s, err
}

// shakeHands connects and logs in. The library dereferences what a server should have sent, so a server that lies ends it with a panic.
func (a *Address) shakeHands(ctx context.Context, config *tls.Config, dialer client.Dialer) (conn *client.Conn, err error) {
	defer func() {
		if r := recover(); r != nil {
			conn, err = nil, fmt.Errorf("the server's answers make no sense: %v: check that source.url names a MySQL or MariaDB server", r)
		}
	}()
	return client.ConnectWithDialer(ctx, a.network, a.addr, a.user, a.password, a.Database, dialer,
		func(c *client.Conn) error {
			c.SetAttributes(map[string]string{"program_name": "tailbox"})
			if config != nil {
				c.SetTLSConfig(config.Clone())
			}
			// So that an UPDATE counts the rows it found, not those it changed.
			return c.SetCapability(mysql.CLIENT_FOUND_ROWS)
		})
}

func (a *Address) login(ctx context.Context, config *tls.Config) (*Conn, error) {
	connect := dial.Within(0) // the context bounds it
	s := &Conn{}
	stop := func() bool { return true }
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := connect(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s.raw = conn
		// The driver knows no context from here on.
		stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		return conn, nil
	}
	conn, err := a.shakeHands(ctx, config, dialer)
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), conn.Close())
	}
	if err != nil {
		if s.raw != nil {
			_ = s.raw.Close() // the library leaves it open if it panics
		}
		if cause := ctx.Err(); cause != nil {
			return nil, fmt.Errorf("log in to %s: %w: %w", a.addr, cause, err)
		}
		return nil, fmt.Errorf("log in to %s as %s: %w", a.addr, a.user, err)
	}
	s.Client = conn
	if s.Server, err = parseServer(conn.GetServerVersion()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// Guard runs a use of the connection under a context. The connection is broken after anything but success or the
// server's own answer.
func (s *Conn) Guard(ctx context.Context, use func() error) error {
	if s.Broken {
		return mysql.ErrBadConn
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.raw.SetDeadline(time.Unix(1, 0)) })
	err := use()
	if !stop() {
		s.Broken = true // the deadline is set, or about to be
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		return nil
	}
	if err != nil && Answer(err) == nil {
		s.Broken = true
	}
	return err
}

// Exec runs one statement. With args it is prepared, run and closed again: a statement that is used often is prepared by
// the session's owner (prepare). The result holds its own memory.
func (s *Conn) Exec(ctx context.Context, sql string, args ...any) (*mysql.Result, error) {
	var r *mysql.Result
	err := s.Guard(ctx, func() (err error) {
		r, err = s.Client.Execute(sql, args...)
		return err
	})
	return r, err
}

// Texts runs one statement and returns its rows as text. NULL is the empty text.
func (s *Conn) Texts(ctx context.Context, sql string, args ...any) ([][]string, error) {
	r, err := s.Exec(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	if r.Resultset == nil {
		return nil, nil
	}
	rows := make([][]string, len(r.Values))
	for i, values := range r.Values {
		rows[i] = make([]string, len(values))
		for j := range values {
			if values[j].Value() == nil {
				continue
			}
			if rows[i][j], err = r.GetString(i, j); err != nil {
				return nil, fmt.Errorf("read column %d: %w", j+1, err)
			}
		}
	}
	return rows, nil
}

// Stream runs one statement and hands its rows over as they come. A row is valid until the next one. An error of each ends the
// connection.
func (s *Conn) Stream(ctx context.Context, sql string, each func(row []mysql.FieldValue) error) error {
	return s.Guard(ctx, func() error {
		var r mysql.Result
		return s.Client.ExecuteSelectStreaming(sql, &r, each, nil)
	})
}

// Close ends the connection, even where ctx is done already, in bounded time.
func (s *Conn) Close(ctx context.Context) error {
	if !s.Broken && ctx.Err() == nil {
		// So that the server's log does not count it as aborted. An error shows that it is closed already.
		if err := s.raw.SetDeadline(time.Now().Add(closeTimeout)); err == nil && s.Client.Quit() == nil {
			s.Broken = true
			return nil
		}
	}
	s.Broken = true
	if err := s.Client.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// Answer is the server's own answer in an error, or nil.
func Answer(err error) *mysql.MyError {
	var e *mysql.MyError
	for err != nil && !errors.As(err, &e) {
		var stack interface{ Cause() error } // what the driver wraps with a stack has a Cause instead
		if !errors.As(err, &stack) {
			return nil
		}
		err = stack.Cause()
	}
	return e
}

// Code is the number of a server's error, or 0.
func Code(err error) uint16 {
	if e := Answer(err); e != nil {
		return e.Code
	}
	return 0
}
