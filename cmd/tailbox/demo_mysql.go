package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source/mysql"
)

// makeDemoMySQL makes a database on a server of MySQL or MariaDB.
func makeDemoMySQL(ctx context.Context, kind, given, name string) (db *demoDatabase, err error) {
	if err := mysql.ValidURL(given); err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	target, err := withDatabase(given, name)
	if err != nil {
		return nil, err
	}
	c, err := mysql.Connect(ctx, kind, given)
	if err != nil {
		return nil, fmt.Errorf("use the server of --url as --source %s: %w", kind, err)
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if err := c.Exec(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return nil, lacking(fmt.Errorf("make a database for the demo: %w", err), mysql.Denied(err), "GRANT ALL ON `tailbox\\_demo\\_%`.* TO …")
	}
	return &demoDatabase{kind: kind, url: target, what: "a database of the demo's own: " + name,
		open: func(ctx context.Context) (demoTill, error) {
			c, err := mysql.Connect(ctx, kind, target)
			return mysqlTill{c}, err
		},
		close: func(ctx context.Context) error { return dropDemoMySQL(ctx, kind, given, name) }}, nil
}

func dropDemoMySQL(ctx context.Context, kind, given, name string) error {
	c, err := mysql.Connect(ctx, kind, given)
	if err == nil {
		err = errors.Join(c.Exec(ctx, "DROP DATABASE IF EXISTS "+name), c.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("drop the demo's database %s: %w", name, err)
	}
	return nil
}

// mysqlTill is a demoTill.
type mysqlTill struct{ c *mysql.Client }

func (t mysqlTill) makeOrders(ctx context.Context) error {
	return t.c.Exec(ctx, `CREATE TABLE orders (id VARCHAR(50) PRIMARY KEY, status VARCHAR(50) NOT NULL)`)
}

func (t mysqlTill) write(ctx context.Context, order, status string, messages []demoMessage) error {
	statements := []string{fmt.Sprintf(`REPLACE INTO orders (id, status) VALUES (%s, %s)`, mysql.Quote(order), mysql.Quote(status))}
	for _, m := range messages {
		values := []string{mysql.Quote(m.aggregate), mysql.Quote(m.id), mysql.Quote(m.kind), mysql.Quote(m.payload)}
		statements = append(statements, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (`+strings.Join(values, ", ")+`)`)
	}
	return t.c.Transact(ctx, statements...)
}

func (t mysqlTill) left(ctx context.Context) (int, error) {
	rows, err := t.c.Texts(ctx, `SELECT COUNT(*) FROM outbox`)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(rows[0][0])
}

func (t mysqlTill) close(ctx context.Context) error { return t.c.Close(ctx) }
