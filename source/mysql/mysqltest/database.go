// Package mysqltest has the rigs of the tests of MySQL and MariaDB: databases with tables, applications that write to them, and readers of
// sources and stores, which each test brings along.
package mysqltest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// A Database is a database for tests, with tables and a configuration.
type Database struct {
	My         *servers.My
	DB         string
	Cfg        server.Config
	Configured []sourcetest.Table
}

// NewDatabase makes a database with the tables of a setup, and a configuration for it.
func NewDatabase(t testing.TB, my *servers.My, s sourcetest.Setup) *Database {
	t.Helper()
	d := &Database{My: my, DB: my.NewDatabase(t)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ddl := RelayTables()
	var tables []outbox.Table
	for _, table := range s.Tables {
		table.Schema = d.DB
		sql, err := schema.OutboxSQL(&table.Table)
		if err != nil {
			t.Fatal(err)
		}
		ddl = append(ddl, sql)
		d.Configured, tables = append(d.Configured, table), append(tables, table.Table)
		for column, typ := range map[string]string{table.Columns.Payload: table.PayloadType, table.Columns.ID: table.IDType} {
			if typ == "" {
				continue
			}
			if column == table.Columns.ID {
				typ += " NOT NULL"
			}
			ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s MODIFY %s %s", quote.Table(&table.Table), quote.Ident(column), typ))
		}
		if c := &table.Columns; table.Wide {
			ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s MODIFY %s VARCHAR(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", quote.Table(&table.Table), quote.Ident(c.ID)))
			for _, column := range append([]string{c.Type, c.Topic, c.Key, c.Tenant, c.ContentType, c.CorrelationID}, c.Group...) {
				ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s MODIFY %s LONGTEXT", quote.Table(&table.Table), quote.Ident(column)))
			}
		}
	}
	if err := d.My.Exec(ctx, d.DB, ddl...); err != nil {
		t.Fatal(err)
	}
	d.Cfg = server.Config{Kind: my.Kind, Config: source.Config{Pipeline: "p", URL: d.My.SocketURL(d.DB), Tables: tables, Start: s.Start, MaxMessage: s.MaxMessage,
		Ignored: s.Ignored, Logger: slog.New(slog.DiscardHandler)}}
	return d
}

// Tables implements sourcetest.Database.
func (d *Database) Tables() []sourcetest.Table { return d.Configured }

// Cut ends the connections of readers whose default database is this one.
func (d *Database) Cut(ctx context.Context) error {
	conn, err := d.My.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		r, err := conn.Execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' AND db = '" + d.DB + "'")
		if err != nil {
			return err
		}
		for i := range r.Values {
			id, err := r.GetString(i, 0)
			if err != nil {
				return err
			}
			if _, err := conn.Execute("KILL " + id); err != nil {
				return err
			}
		}
		if len(r.Values) > 0 {
			return nil
		}
	}
}

// Purge removes all binlog files but a new one.
func (d *Database) Purge(ctx context.Context) error {
	conn, err := d.My.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Execute("FLUSH BINARY LOGS"); err != nil {
		return err
	}
	for {
		r, err := conn.Execute("SHOW BINARY LOGS")
		if err != nil {
			return err
		}
		last, err := r.GetString(len(r.Values)-1, 0)
		if err != nil {
			return err
		}
		if len(r.Values) == 1 {
			return nil
		}
		if _, err := conn.Execute("PURGE BINARY LOGS TO '" + last + "'"); err != nil {
			return err
		}
	}
}

// Conn connects as an application does, in a time zone and a mode of its own.
func (d *Database) Conn(ctx context.Context) (sourcetest.Conn, error) {
	conn, err := d.My.Connect(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn}
	return c, c.Exec("SET NAMES utf8mb4, time_zone = '+05:00', lock_wait_timeout = 30")
}

// A Conn is an application's connection.
type Conn struct{ conn *client.Conn }

// Exec runs a statement.
func (c *Conn) Exec(sql string, args ...any) error {
	_, err := c.conn.Execute(sql, args...)
	if err != nil {
		return fmt.Errorf("execute %.200q: %w", sql, err)
	}
	return nil
}

// Begin implements sourcetest.Conn.
func (c *Conn) Begin(context.Context) error { return c.Exec("BEGIN") }

// Commit implements sourcetest.Conn.
func (c *Conn) Commit(context.Context) error { return c.Exec("COMMIT") }

// Rollback implements sourcetest.Conn.
func (c *Conn) Rollback(context.Context) error { return c.Exec("ROLLBACK") }

// Savepoint implements sourcetest.Conn.
func (c *Conn) Savepoint(context.Context) error { return c.Exec("SAVEPOINT s") }

// RollbackTo implements sourcetest.Conn.
func (c *Conn) RollbackTo(context.Context) error { return c.Exec("ROLLBACK TO s") }

// Close implements sourcetest.Conn.
func (c *Conn) Close(context.Context) error { return c.conn.Close() }

// Truncate implements sourcetest.Conn.
func (c *Conn) Truncate(_ context.Context, t sourcetest.Table) error {
	return c.Exec("TRUNCATE TABLE " + quote.Table(&t.Table))
}

// IDExpr is an id as the column has it.
func IDExpr(t sourcetest.Table, id string) string {
	switch {
	case t.IDType == "BINARY(16)":
		return "UNHEX('" + strings.ReplaceAll(id, "-", "") + "')"
	case strings.HasPrefix(t.IDType, "VARBINARY"):
		return fmt.Sprintf("X'%x'", id)
	}
	return "'" + mysql.Escape(id) + "'"
}

// Delete implements sourcetest.Conn.
func (c *Conn) Delete(_ context.Context, t sourcetest.Table, ids ...string) error {
	for i, id := range ids {
		ids[i] = IDExpr(t, id)
	}
	return c.Exec(fmt.Sprintf("DELETE FROM %s WHERE %s IN (%s)", quote.Table(&t.Table), quote.Ident(t.Columns.ID), strings.Join(ids, ", ")))
}

// Update implements sourcetest.Conn.
func (c *Conn) Update(_ context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	for _, m := range ms {
		sql := fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s WHERE %s = %s", quote.Table(&t.Table), quote.Ident(t.Columns.Type), kitLiteral(t, "", m.Type),
			quote.Ident(t.Columns.Payload), kitLiteral(t, t.Columns.Payload, m.Payload), quote.Ident(t.Columns.ID), IDExpr(t, m.ID))
		if err := c.Exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// Insert implements sourcetest.Conn.
func (c *Conn) Insert(_ context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	var names, rows []string
	values := make([]map[string]any, len(ms))
	for i, m := range ms {
		values[i] = map[string]any{}
		for _, v := range t.Values(m) {
			values[i][v.Column] = v.V
			if !slices.Contains(names, v.Column) {
				names = append(names, v.Column)
			}
		}
	}
	quoted := make([]string, len(names))
	for _, row := range values {
		var places []string
		for i, name := range names {
			quoted[i] = quote.Ident(name)
			if v, ok := row[name]; ok {
				places = append(places, kitLiteral(t, name, v))
			} else {
				places = append(places, "DEFAULT")
			}
		}
		rows = append(rows, "("+strings.Join(places, ", ")+")")
	}
	return c.Exec("INSERT INTO " + quote.Table(&t.Table) + " (" + strings.Join(quoted, ", ") + ") VALUES " + strings.Join(rows, ", "))
}

// kitLiteral writes a value for a column.
func kitLiteral(t sourcetest.Table, column string, v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case int64:
		return fmt.Sprint(v)
	case time.Time:
		return "'" + v.In(time.FixedZone("", 5*3600)).Format("2006-01-02 15:04:05.999999") + "'"
	case []byte:
		switch {
		case v == nil:
			return "NULL"
		case strings.Contains(t.PayloadType, "B") && !strings.Contains(t.PayloadType, "TEXT"), t.PayloadType == "" && t.Shape == "tailbox":
			return fmt.Sprintf("X'%x'", v)
		}
		return "'" + mysql.Escape(string(v)) + "'"
	case string:
		if column == t.Columns.ID && column != "" {
			return IDExpr(t, v)
		}
		return "'" + mysql.Escape(v) + "'"
	}
	return fmt.Sprintf("'%v'", v)
}
