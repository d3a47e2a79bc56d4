package mysql

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
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// A kitBase is a database for tests, with tables and a configuration.
type kitBase struct {
	my     *servers.My
	db     string
	cfg    config
	tables []sourcetest.Table
}

func openOn(t testing.TB, my *servers.My, s sourcetest.Setup) *kitBase {
	t.Helper()
	d := &kitBase{my: my, db: my.NewDatabase(t)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ddl := relayTables()
	var tables []outbox.Table
	for _, table := range s.Tables {
		table.Schema = d.db
		sql, err := outboxSQL(&table.Table)
		if err != nil {
			t.Fatal(err)
		}
		ddl = append(ddl, sql)
		d.tables, tables = append(d.tables, table), append(tables, table.Table)
		for column, typ := range map[string]string{table.Columns.Payload: table.PayloadType, table.Columns.ID: table.IDType} {
			if typ == "" {
				continue
			}
			if column == table.Columns.ID {
				typ += " NOT NULL"
			}
			ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s MODIFY %s %s", tableName(&table.Table), quoteIdent(column), typ))
		}
		if c := &table.Columns; table.Wide {
			ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s MODIFY %s VARCHAR(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", tableName(&table.Table), quoteIdent(c.ID)))
			for _, column := range append([]string{c.Type, c.Topic, c.Key, c.Tenant, c.ContentType, c.CorrelationID}, c.Group...) {
				ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s MODIFY %s LONGTEXT", tableName(&table.Table), quoteIdent(column)))
			}
		}
	}
	if err := d.my.Exec(ctx, d.db, ddl...); err != nil {
		t.Fatal(err)
	}
	d.cfg = config{Kind: my.Kind, Pipeline: "p", URL: d.my.SocketURL(d.db), Tables: tables, Start: s.Start, MaxMessage: s.MaxMessage, Ignored: s.Ignored,
		Logger: slog.New(slog.DiscardHandler)}
	return d
}

func (d *kitBase) Tables() []sourcetest.Table { return d.tables }

// cut ends the connections of readers whose default database is this one.
func (d *kitBase) cut(ctx context.Context) error {
	conn, err := d.my.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		r, err := conn.Execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' AND db = '" + d.db + "'")
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

// purge removes all binlog files but a new one.
func (d *kitBase) purge(ctx context.Context) error {
	conn, err := d.my.Connect(ctx, "")
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
func (d *kitBase) Conn(ctx context.Context) (sourcetest.Conn, error) {
	conn, err := d.my.Connect(ctx, d.db)
	if err != nil {
		return nil, err
	}
	c := &kitConn{conn}
	return c, c.exec("SET NAMES utf8mb4, time_zone = '+05:00', lock_wait_timeout = 30")
}

// A kitConn is an application's connection.
type kitConn struct{ conn *client.Conn }

func (c *kitConn) exec(sql string, args ...any) error {
	_, err := c.conn.Execute(sql, args...)
	if err != nil {
		return fmt.Errorf("execute %.200q: %w", sql, err)
	}
	return nil
}

func (c *kitConn) Begin(context.Context) error      { return c.exec("BEGIN") }
func (c *kitConn) Commit(context.Context) error     { return c.exec("COMMIT") }
func (c *kitConn) Rollback(context.Context) error   { return c.exec("ROLLBACK") }
func (c *kitConn) Savepoint(context.Context) error  { return c.exec("SAVEPOINT s") }
func (c *kitConn) RollbackTo(context.Context) error { return c.exec("ROLLBACK TO s") }
func (c *kitConn) Close(context.Context) error      { return c.conn.Close() }

func (c *kitConn) Truncate(_ context.Context, t sourcetest.Table) error {
	return c.exec("TRUNCATE TABLE " + tableName(&t.Table))
}

// idExpr is an id as the column has it.
func idExpr(t sourcetest.Table, id string) string {
	switch {
	case t.IDType == "BINARY(16)":
		return "UNHEX('" + strings.ReplaceAll(id, "-", "") + "')"
	case strings.HasPrefix(t.IDType, "VARBINARY"):
		return fmt.Sprintf("X'%x'", id)
	}
	return "'" + mysql.Escape(id) + "'"
}

func (c *kitConn) Delete(_ context.Context, t sourcetest.Table, ids ...string) error {
	for i, id := range ids {
		ids[i] = idExpr(t, id)
	}
	return c.exec(fmt.Sprintf("DELETE FROM %s WHERE %s IN (%s)", tableName(&t.Table), quoteIdent(t.Columns.ID), strings.Join(ids, ", ")))
}

func (c *kitConn) Update(_ context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	for _, m := range ms {
		sql := fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s WHERE %s = %s", tableName(&t.Table), quoteIdent(t.Columns.Type), kitLiteral(t, "", m.Type),
			quoteIdent(t.Columns.Payload), kitLiteral(t, t.Columns.Payload, m.Payload), quoteIdent(t.Columns.ID), idExpr(t, m.ID))
		if err := c.exec(sql); err != nil {
			return err
		}
	}
	return nil
}

func (c *kitConn) Insert(_ context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
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
			quoted[i] = quoteIdent(name)
			if v, ok := row[name]; ok {
				places = append(places, kitLiteral(t, name, v))
			} else {
				places = append(places, "DEFAULT")
			}
		}
		rows = append(rows, "("+strings.Join(places, ", ")+")")
	}
	return c.exec("INSERT INTO " + tableName(&t.Table) + " (" + strings.Join(quoted, ", ") + ") VALUES " + strings.Join(rows, ", "))
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
			return idExpr(t, v)
		}
		return "'" + mysql.Escape(v) + "'"
	}
	return fmt.Sprintf("'%v'", v)
}
