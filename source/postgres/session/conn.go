package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/dial"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// connectTimeout applies where the URL has no connect_timeout.
const connectTimeout = 10 * time.Second

// sessionSettings make values that arrive as text independent of the role's and database's defaults. They are set by a
// statement, not in the startup message: poolers refuse startup parameters that they do not know. See also textSettings.
const sessionSettings = `SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; ` +
	`SET timezone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 1; ` +
	`SET client_min_messages = 'warning'; SET standard_conforming_strings = on`

// textSettings set the encoding and format of texts. A server in SQL_ASCII would check all that it sends as UTF8, and refuse to send a row that is
// something else: the log could never be read past that row.
func textSettings(conn *pgconn.PgConn) string {
	if EncodingOf(conn) == NoEncoding {
		return "SET client_encoding = 'SQL_ASCII'; " + sessionSettings
	}
	return "SET client_encoding = 'UTF8'; " + sessionSettings
}

// streamSettings are further settings of a replication connection. The server gives up a relay that went silent after 10 s,
// so that a successor finds the slot free; statusInterval keeps well below that.
const streamSettings = `SET wal_sender_timeout = '10s'; ` +
	NoTimeouts + `; ` +
	`SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3`

// NoTimeouts lifts what limits of time the role or the database have, as far as this version knows them: a stream and a
// sweep last as long as they last.
const NoTimeouts = `SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN ` +
	`('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')`

// AllRows makes a statement fail if row-level security would hide rows from it, which would look like rows that are not there.
const AllRows = `SET row_security = off`

// AppName is the application_name of all connections of a pipeline, by which a relay knows its own connections in
// pg_stat_activity.
func AppName(pipeline string) string { return "tailbox_" + pipeline }

// ValidURL tells what is wrong with a connection URI or libpq keywords, without connecting. The error does not show them.
func ValidURL(url string) error {
	_, err := ParseConnection(url)
	return err
}

// otherScheme is a URL of something else, which would be read as keywords.
var otherScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// ParseConnection reads a connection URI or libpq keywords. The error does not show them.
func ParseConnection(url string) (*pgx.ConnConfig, error) {
	const want = "must be a URI such as postgres://user@host:5432/database, or libpq keywords such as host=/var/run/postgresql dbname=shop"
	if m := otherScheme.FindStringSubmatch(url); m != nil && m[1] != "postgres" && m[1] != "postgresql" {
		return nil, fmt.Errorf("%s: its scheme is %s", want, m[1])
	}
	cc, err := pgx.ParseConfig(url)
	if err == nil {
		return cc, nil
	}
	// The outer error repeats the address. The inner one names the wrong part; if it quotes that part, it may show some of the password.
	why := "it cannot be read: are spaces in a value quoted, and /, ?, # and @ in a password written as %2F, %3F, %23 and %40?"
	if inner := errors.Unwrap(err); inner != nil && !strings.Contains(inner.Error(), `"`) {
		why = inner.Error()
	}
	return nil, fmt.Errorf("%s: %s", want, why)
}

// connConfig parses a connection URI or libpq keywords, and adds what all connections of the pipeline share.
func (c *Config) connConfig(url string) (*pgx.ConnConfig, error) {
	cc, err := ParseConnection(url)
	if err != nil {
		return nil, fmt.Errorf("read connection url: it %w", err)
	}
	cc.RuntimeParams["application_name"] = AppName(c.Pipeline)
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = dial.Within(cc.ConnectTimeout)
	return cc, nil
}

// DirectURL returns the URL that avoids a pooler. A pooler would hand a session's locks, settings and prepared statements on to other clients, or
// lose them between two transactions. Only the replication connection, and the check that both URLs lead to one database, go to URL.
func (c *Config) DirectURL() string { return cmp.Or(c.LockURL, c.URL) }

// Connect opens an ordinary connection for SQL, to a session of its own.
func (c *Config) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := c.Dial(ctx, c.DirectURL())
	if err != nil {
		return nil, err
	}
	if err = OwnSession(ctx, conn.PgConn()); err == nil { // before the settings, or other clients of the pooler would get them
		err = setUp(ctx, conn.PgConn(), textSettings(conn.PgConn()))
	}
	if err != nil {
		return nil, errors.Join(err, Close(ctx, conn))
	}
	return conn, nil
}

// OwnSession refuses a session that is not this client's own: a pooler answers a client with a process id that no server has, in every mode.
func OwnSession(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := Query(ctx, conn, "SELECT pg_catalog.pg_backend_pid()")
	if err != nil {
		return fmt.Errorf("look up the session: %w", err)
	}
	if rows[0][0] != strconv.FormatUint(uint64(conn.PID()), 10) {
		return fmt.Errorf("%w: the connection goes through a pooler, such as PgBouncer in any of its modes: set source.lock_url to a direct connection", source.ErrStop)
	}
	return nil
}

// Dial opens an ordinary connection to url. It changes no settings, and does not refuse a pooler.
func (c *Config) Dial(ctx context.Context, url string) (*pgx.Conn, error) {
	cc, err := c.connConfig(url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, fmt.Errorf("connect to postgres: %w", err)
	}
	return conn, nil
}

// ConnectReplication opens a replication connection to the database. It understands replication commands and, by the
// simple protocol only, SQL.
func (c *Config) ConnectReplication(ctx context.Context) (*pgconn.PgConn, error) {
	cc, err := c.connConfig(c.URL)
	if err != nil {
		return nil, err
	}
	cc.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, &cc.Config)
	if err != nil {
		if pgerr.State(err) == "42501" {
			err = fmt.Errorf("%w: ALTER ROLE %s WITH REPLICATION, or what your provider has in its place: %w",
				err, sqltext.Ident(cc.User), source.ErrStop)
		}
		return nil, fmt.Errorf("open replication connection: %w", err)
	}
	if err := setUp(ctx, conn, textSettings(conn)+"; "+streamSettings); err != nil {
		return nil, errors.Join(fmt.Errorf("replication connection: %w", err), ClosePgConn(ctx, conn))
	}
	return conn, nil
}

// Exec runs statements or a replication command by the simple protocol and drops the rows.
func Exec(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}

// Query runs one statement or replication command by the simple protocol, and returns its rows as text. NULL is
// the empty text.
func Query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range results {
		for _, row := range r.Rows {
			texts := make([]string, len(row))
			for i, v := range row {
				texts[i] = string(v)
			}
			rows = append(rows, texts)
		}
	}
	return rows, nil
}

// Close ends a connection even where ctx is done already, in bounded time.
func Close(ctx context.Context, conn *pgx.Conn) error {
	return ClosePgConn(ctx, conn.PgConn())
}

// ClosePgConn is Close for a connection without pgx around it.
func ClosePgConn(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}
