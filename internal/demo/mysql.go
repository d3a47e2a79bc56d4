package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tailbox/tailbox/source/mysql/server"
)

// connectMySQL connects as the relay does, so that --url means the same for both.
func connectMySQL(ctx context.Context, kind, url string) (*server.Conn, error) {
	if err := server.ValidURL(url); err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	c := server.Config{Kind: kind}
	return c.Connect(ctx, url)
}

// makeMySQL makes a database on a server of MySQL or MariaDB.
func makeMySQL(ctx context.Context, kind, given, name string) (p *place, err error) {
	conn, err := connectMySQL(ctx, kind, given)
	if err != nil {
		return nil, fmt.Errorf("use the server of --url: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	target, err := withDatabase(given, name)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		code := server.Code(err)
		return nil, lacking(fmt.Errorf("make a database for the demo: %w", err), code == 1044 || code == 1045 || code == 1227, "GRANT ALL ON `tailbox\\_demo\\_%`.* TO …")
	}
	return &place{kind: kind, url: target, what: "a database of the demo's own: " + name,
		open: func(ctx context.Context) (till, error) {
			conn, err := connectMySQL(ctx, kind, target)
			return mysqlTill{conn}, err
		},
		drop: func(ctx context.Context) error {
			conn, err := connectMySQL(ctx, kind, given)
			if err == nil {
				_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name)
				err = errors.Join(err, conn.Close(ctx))
			}
			if err != nil {
				return fmt.Errorf("drop the demo's database %s: %w", name, err)
			}
			return nil
		}}, nil
}

// mysqlTill is a till.
type mysqlTill struct{ conn *server.Conn }

func (t mysqlTill) makeOrders(ctx context.Context) error {
	_, err := t.conn.Exec(ctx, ordersTable)
	return err
}

func (t mysqlTill) write(ctx context.Context, order, status string, messages []message) error {
	if _, err := t.conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	change := "UPDATE orders SET status = ? WHERE id = ?"
	if status == placed {
		change = "INSERT INTO orders (status, id) VALUES (?, ?)"
	}
	_, err := t.conn.Exec(ctx, change, status, order)
	for _, m := range messages {
		if err == nil {
			_, err = t.conn.Exec(ctx, "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (?, ?, ?, ?)", m.aggregate, m.id, m.kind, m.payload)
		}
	}
	if err != nil {
		_, undo := t.conn.Exec(ctx, "ROLLBACK")
		return errors.Join(err, undo)
	}
	_, err = t.conn.Exec(ctx, "COMMIT")
	return err
}

func (t mysqlTill) left(ctx context.Context) (int, error) {
	rows, err := t.conn.Texts(ctx, `SELECT COUNT(*) FROM outbox`)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(rows[0][0])
}

func (t mysqlTill) close(ctx context.Context) error { return t.conn.Close(ctx) }
