package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // for sql.Open
)

// openSQL connects to a database of Postgres, MySQL or MariaDB.
func openSQL(ctx context.Context, kind, url string) (db *sql.DB, err error) {
	if kind == "postgres" {
		db, err = sql.Open("pgx", url)
	} else {
		db, err = openMySQL(url)
	}
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the database: %w", err), db.Close())
	}
	return db, nil
}

// openMySQL reads a URL as source.url has it. The driver knows the same words for tls. Files for it are for the relay alone.
func openMySQL(text string) (*sql.DB, error) {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return nil, errors.New("read --url: want mysql://user:password@host:port")
	}
	c := mysql.NewConfig()
	c.User, c.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", u.Host
	host, query := u.Hostname(), u.Query()
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(host, "3306")
	}
	if socket := query.Get("socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	for name := range query {
		if strings.HasPrefix(name, "tls-") {
			return nil, fmt.Errorf("read --url: the shop of the demo cannot use %s: leave it out, with tls=skip-verify if the server needs TLS", name)
		}
	}
	c.TLSConfig = query.Get("tls")
	if c.TLSConfig == "" && c.Net == "tcp" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		c.TLSConfig = "preferred"
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// makeSQL makes a database on a server of Postgres, MySQL or MariaDB.
func makeSQL(ctx context.Context, kind, given, name string) (p *place, err error) {
	target, err := withDatabase(given, name)
	if err != nil {
		return nil, err
	}
	db, err := openSQL(ctx, kind, given)
	if err != nil {
		return nil, fmt.Errorf("use the server of --url: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	create, grant := "CREATE DATABASE "+name+" CHARACTER SET utf8mb4", "GRANT ALL ON `tailbox\\_demo\\_%`.* TO …"
	if kind == "postgres" {
		if err := logical(ctx, db); err != nil {
			return nil, err
		}
		create, grant = "CREATE DATABASE "+name, "ALTER ROLE … CREATEDB REPLICATION"
	}
	if _, err := db.ExecContext(ctx, create); err != nil {
		return nil, lacking(fmt.Errorf("make a database for the demo: %w", err), denied(err), grant)
	}
	return &place{kind: kind, url: target, what: "a database of the demo's own: " + name, open: openTill(kind, target),
		drop: func(ctx context.Context) error { return dropSQL(ctx, kind, given, name) }}, nil
}

// logical refuses a Postgres that writes no log which tailbox could read.
func logical(ctx context.Context, db *sql.DB) error {
	var level string
	if err := db.QueryRowContext(ctx, "SHOW wal_level").Scan(&level); err != nil {
		return fmt.Errorf("ask the server of --url for wal_level: %w", err)
	}
	if level != "logical" {
		return fmt.Errorf("use the server of --url: its wal_level is %s: ALTER SYSTEM SET wal_level = 'logical', then restart it", level)
	}
	return nil
}

// denied reports whether the account lacks a right.
func denied(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "42501"
	}
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == 1044 || e.Number == 1045 || e.Number == 1227)
}

// dropSQL drops the database, in Postgres with its slot.
func dropSQL(ctx context.Context, kind, given, name string) (err error) {
	db, err := openSQL(ctx, kind, given)
	if err != nil {
		return fmt.Errorf("drop the demo's database %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	statements := []string{"DROP DATABASE IF EXISTS " + name}
	if kind == "postgres" {
		statements = []string{
			"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = '" + name + "'",
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = '" + name + "'",
			"DROP DATABASE " + name + " WITH (FORCE)",
		}
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("drop the demo's database %s: %w", name, err)
		}
	}
	return nil
}

func openTill(kind, url string) func(context.Context) (till, error) {
	return func(ctx context.Context) (till, error) {
		db, err := openSQL(ctx, kind, url)
		return sqlTill{db, kind == "postgres"}, err
	}
}

// sqlTill is a till.
type sqlTill struct {
	db *sql.DB
	// numbered: placeholders are $1, $2 instead of ?.
	numbered bool
}

func (t sqlTill) makeOrders(ctx context.Context) error {
	_, err := t.db.ExecContext(ctx, `CREATE TABLE orders (id VARCHAR(50) PRIMARY KEY, status VARCHAR(50) NOT NULL)`)
	return err
}

func (t sqlTill) write(ctx context.Context, order, status string, messages []message) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	change := "UPDATE orders SET status = ? WHERE id = ?"
	if status == placed {
		change = "INSERT INTO orders (status, id) VALUES (?, ?)"
	}
	_, err = tx.ExecContext(ctx, t.numbers(change), status, order)
	for _, m := range messages {
		if err == nil {
			_, err = tx.ExecContext(ctx, t.numbers("INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (?, ?, ?, ?)"),
				m.aggregate, m.id, m.kind, m.payload)
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// numbers numbers placeholders if the server wants that.
func (t sqlTill) numbers(text string) string {
	for n := 1; t.numbered && strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", n), 1)
	}
	return text
}

func (t sqlTill) left(ctx context.Context) (n int, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT count(*) FROM outbox`).Scan(&n)
	return n, err
}

func (t sqlTill) close(context.Context) error { return t.db.Close() }
