package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/tailbox/tailbox/internal/pgserver"
)

// A place is where the demo's shop lives.
type place struct {
	// kind, url and schema are those of the configuration; schema may be "".
	kind, url, schema string
	what              string
	open              func(context.Context) (till, error)
	drop              func(context.Context) error
}

// A till is the shop's own connection to its database. It is used by one goroutine.
type till interface {
	// makeOrders makes the shop's table of orders.
	makeOrders(context.Context) error
	// write changes an order and writes messages, in one transaction.
	write(ctx context.Context, order, status string, messages []message) error
	// left counts the rows of the outbox.
	left(context.Context) (int, error)
	close(context.Context) error
}

// ordersTable makes the shop's table of orders in any SQL database.
const ordersTable = `CREATE TABLE orders (id VARCHAR(50) PRIMARY KEY, status VARCHAR(50) NOT NULL)`

// openPlace makes a database on the given server, or starts a server.
func openPlace(ctx context.Context, kind, given string, progress func(string)) (*place, error) {
	name := "tailbox_demo_" + strings.ToLower(rand.Text()[:8])
	switch {
	case kind == "mongodb":
		return makeMongo(ctx, given, name)
	case kind != "postgres":
		return makeMySQL(ctx, kind, given, name)
	case given != "":
		return makePostgres(ctx, given, name)
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
	return &place{kind: "postgres", url: url, what: "a Postgres of the demo's own: " + url, open: openPostgres(url),
		drop: func(context.Context) error { return server.Close() }}, nil
}

// Kinds are what --source takes.
func Kinds() []string { return []string{"postgres", "mysql", "mariadb", "mongodb"} }

// KindOf chooses the kind of database where --source names none: by the scheme of the URL.
func KindOf(given string) string {
	scheme, _, _ := strings.Cut(given, "://")
	switch scheme {
	case "mysql", "mariadb":
		return scheme
	case "mongodb", "mongodb+srv":
		return "mongodb"
	}
	return "postgres"
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

// withoutPassword is a connection string that may be shown.
func withoutPassword(conn string) string {
	conn = regexp.MustCompile(`(://[^/?#:@]*):[^/?#]*@`).ReplaceAllString(conn, "$1:***@")
	return regexp.MustCompile(`(?i)\b(password=)('(?:[^'\\]|\\.)*'|[^\s&]+)`).ReplaceAllString(conn, "$1***")
}

// lacking adds what fixes a lack of rights to an error that says so.
func lacking(err error, denied bool, fix string) error {
	if err == nil || !denied {
		return err
	}
	return fmt.Errorf("%w: the demo makes a database of its own and drops it: give the account of --url the right (%s), or use another one", err, fix)
}
