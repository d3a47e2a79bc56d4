package servers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
)

// dialMySQL opens a connection whose every use ends with ctx, or after a minute.
func dialMySQL(ctx context.Context, network, addr, user, password, db string) (*client.Conn, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute)
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conn, conn.SetDeadline(deadline)
	}
	return client.ConnectWithDialer(ctx, network, addr, user, password, db, dial)
}

// Connect opens a connection to database db as root. All of its use ends with
// ctx's deadline, or after a minute where it has none; the caller closes it.
func (my *My) Connect(ctx context.Context, db string) (*client.Conn, error) {
	network, addr, user, password := "unix", my.Socket, "root", ""
	if my.external != nil {
		network, addr, user = "tcp", my.Addr(), my.external.User.Username()
		password, _ = my.external.User.Password()
	}
	conn, err := dialMySQL(ctx, network, addr, user, password, db)
	if err != nil {
		return nil, fmt.Errorf("connect to database %q: %w", db, err)
	}
	return conn, nil
}

// Exec runs statements in database db as root, one after the other on one
// connection of its own.
func (my *My) Exec(ctx context.Context, db string, statements ...string) error {
	conn, err := my.Connect(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, sql := range statements {
		if _, err := conn.Execute(sql); err != nil {
			return fmt.Errorf("execute %.300q: %w", sql, err)
		}
	}
	return nil
}

// NewDatabase creates an empty database of a name that nobody else has, and
// returns the name. At the test's end its connections are cut, transactions
// that were prepared with an XA id that begins with the name are rolled back,
// accounts whose name begins with its last eight characters and the database
// itself are dropped.
func (my *My) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := databaseName(tb.Name())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := my.Exec(ctx, "", "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		tb.Fatalf("create database: %v", err)
	}
	tb.Cleanup(func() {
		if my.child != nil {
			if pid, _ := my.child.running(); pid == 0 {
				return // the test ended its server; the data goes with it
			}
		}
		if err := my.dropDatabase(name); err != nil {
			tb.Errorf("drop database %s: %v", name, err)
		}
	})
	return name
}

// dropDatabase drops a database with all that holds it.
func (my *My) dropDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := my.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Execute("SET lock_wait_timeout = 1"); err != nil {
		return fmt.Errorf("limit waiting for locks: %w", err)
	}
	for {
		if err := releaseDatabase(ctx, conn, name); err != nil {
			return err
		}
		_, err := conn.Execute("DROP DATABASE IF EXISTS " + name)
		if err == nil {
			return nil
		}
		// A connection ends some time after it was killed, and only then can others roll back what it prepared.
		if ctx.Err() != nil || !strings.Contains(err.Error(), "Lock wait timeout") {
			return fmt.Errorf("drop database: %w", err)
		}
	}
}

// releaseDatabase ends what holds a database.
func releaseDatabase(ctx context.Context, conn *client.Conn, name string) error {
	var killed []string
	for _, l := range []struct{ list, do string }{
		// information_schema.processlist cannot be read while a statement has characters beyond utf8mb3.
		{"SHOW PROCESSLIST", "KILL %s"},
		{"XA RECOVER", "XA ROLLBACK '%s'"},
		{"SELECT CONCAT('`', user, '`@`', host, '`') FROM mysql.user WHERE user LIKE '" + name[len(name)-8:] + "%'", "DROP USER %s"},
	} {
		r, err := conn.Execute(l.list)
		if err != nil {
			return fmt.Errorf("execute %q: %w", l.list, err)
		}
		for i := range r.Values {
			column := r.ColumnNumber() - 1
			if l.list == "SHOW PROCESSLIST" {
				column = 0
				if db, err := r.GetString(i, 3); err != nil || db != name {
					continue
				}
			}
			text, err := r.GetString(i, column)
			if err != nil {
				return fmt.Errorf("read %q: %w", l.list, err)
			}
			switch l.list {
			case "SHOW PROCESSLIST":
				killed = append(killed, text)
			case "XA RECOVER":
				if !strings.HasPrefix(text, name) {
					continue
				}
				if err := AwaitLeft(ctx, conn, killed...); err != nil {
					return err
				}
			}
			// What has ended by itself meanwhile is as good.
			_, _ = conn.Execute(fmt.Sprintf(l.do, text))
		}
	}
	return nil
}

// AwaitLeft waits until connections that end, by their ids, have left what
// they prepared to others. A moment before, MariaDB takes XA COMMIT and XA
// ROLLBACK of others without an error, and lets the transaction stand: it
// locks its table, and no XA RECOVER lists it.
func AwaitLeft(ctx context.Context, conn *client.Conn, ids ...string) error {
	for {
		r, err := conn.Execute("SHOW ENGINE INNODB STATUS")
		if err != nil {
			return fmt.Errorf("look for connections: %w", err)
		}
		status, err := r.GetString(0, 2)
		if err != nil {
			return fmt.Errorf("look for connections: %w", err)
		}
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(status, "thread id "+id+",") }) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for connections to leave: %w", err)
		}
	}
}

// mysqlVariable is the environment variable that names a server which runs
// already.
func mysqlVariable(kind string) string { return "TAILBOX_TEST_" + strings.ToUpper(kind) + "_URL" }

// externalMySQL finds the server that the environment names; nil if none.
func externalMySQL(kind string) (*My, error) {
	text := os.Getenv(mysqlVariable(kind))
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w; want mysql://root:password@host:port", mysqlVariable(kind), err)
	}
	my := &My{Kind: kind, Port: 3306, external: u}
	if p := u.Port(); p != "" {
		if my.Port, err = strconv.Atoi(p); err != nil {
			return nil, fmt.Errorf("parse %s: %w", mysqlVariable(kind), err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := my.Connect(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", mysqlVariable(kind), err)
	}
	defer conn.Close()
	my.Version = conn.GetServerVersion()
	return my, nil
}
