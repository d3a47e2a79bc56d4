package mysql

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

func TestSourceKit(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sourcetest.Source(t, kitKind(kind))
		})
	}
}

// TestPollKit runs the kit on a source that polls.
func TestPollKit(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			k := kitKind(kind)
			k.Open = func(t *testing.T, s sourcetest.Setup) sourcetest.Database { return openKit(t, kind, s, true) }
			k.Polls, k.Counted, k.ResumeInside, k.Outlast, k.Lacks = true, nil, true, nil, sourcetest.PollLacks()
			k.Cut = func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).cutPoll(ctx) }
			k.Gap = func(ctx context.Context, db sourcetest.Database) error {
				d := db.(*kitDatabase)
				return d.my.Exec(ctx, d.db, "UPDATE outbox SET seq = seq - 900", "ALTER TABLE outbox AUTO_INCREMENT = 1")
			}
			k.Number = func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, m *outbox.Message, number uint64, instead string) error {
				d := db.(*kitDatabase)
				return d.my.Exec(ctx, d.db, "DELETE FROM "+tableName(&t.Table)+" WHERE id = "+quoteLiteral(instead),
					fmt.Sprintf("INSERT INTO %s (id, type, aggregatetype, aggregateid, payload, seq) VALUES (%s, %s, %s, %s, '{}', %d)", tableName(&t.Table),
						quoteLiteral(m.ID), quoteLiteral(m.Type), quoteLiteral(m.Topic), quoteLiteral(string(m.Key)), number))
			}
			sourcetest.Poll(t, k)
		})
	}
}

func TestStoreKit(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sourcetest.Store(t, kitKind(kind))
		})
	}
}

func kitKind(kind string) sourcetest.Kind {
	same := func(texts ...string) (ps []sourcetest.Payload) {
		for _, text := range texts {
			ps = append(ps, sourcetest.Payload{Written: []byte(text), Read: []byte(text)})
		}
		return append(ps, sourcetest.Payload{})
	}
	k := sourcetest.Kind{
		Open: func(t *testing.T, s sourcetest.Setup) sourcetest.Database { return openKit(t, kind, s, false) },
		IDs: map[string][]string{
			"CHAR(36)":   {"0b0e8f6a-8a3e-4b58-9d3c-111111111111", "ffffffff-8a3e-4b58-9d3c-111111111111"},
			"BINARY(16)": {"00000000-8a3e-4b58-9d3c-111111110000", "ffffffff-8a3e-4b58-9d3c-111111111111"},
			"BIGINT":     {"-9000000000", "3", "20"}, "INT": {"7", "10"}, "SMALLINT": {"3", "20"}, "BIGINT UNSIGNED": {"3", "18446744073709551615"},
			"VARCHAR(100) COLLATE utf8mb4_bin": {"'\\x", "7", "\u00e4"}, "VARCHAR(13) CHARACTER SET latin1": {"0HZXEQ5Y8JY5Z", "1HZXEQ5Y8JY5Z"},
			"CHAR(5)": {"abc", "abcd"}, "DECIMAL(10,2)": {"1.50", "10.00"}, "DATETIME(3)": {"2024-02-03 04:05:06.789", "2025-01-01 00:00:00.000"},
			"ENUM('z','a')": {"z", "a"}, "VARBINARY(20)": {"\x01a", "b"},
		},
		Payloads: map[string][]sourcetest.Payload{
			"LONGBLOB": same("", "\x00\xff\x10", "text"), "LONGTEXT": same("", "x \n\t'\\\u00e4\U0001F600"), "VARCHAR(200)": same("", "v "),
			"VARBINARY(200)": same("", "v\x00"), "BINARY(4)": {{Written: []byte("ab"), Read: []byte("ab\x00\x00")}},
			"TEXT CHARACTER SET latin1": same("\u00e4\u20ac"),
		},
		TextID:   "VARCHAR(100) COLLATE utf8mb4_bin",
		Counted:  []string{"update", "delete", "truncate"},
		Business: kitBusiness(),
		Kill: func(ctx context.Context, db sourcetest.Database, st checkpoint.Store) error {
			d := db.(*kitDatabase)
			return d.my.Exec(ctx, d.db, fmt.Sprintf("KILL %d", st.(*stateStore).sess.conn.GetConnectionID()))
		},
		Refuse: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.my.Exec(ctx, d.db, `ALTER TABLE tailbox_parked ADD CHECK ((sink <> 'mail' OR type <> 'refused')
				AND (message_group <> 'stay' OR next_attempt_at IS NOT NULL))`)
		},
		Forge: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.my.Exec(ctx, d.db, "INSERT INTO tailbox_request (pipeline, verb, selection, done_at, result, in_force) VALUES ('"+d.cfg.Pipeline+
				`', 'feedback', '{}', now(), '{}', '{"sinks": ["forged"]}')`)
		},
		RefuseDead: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			return d.my.Exec(ctx, d.db, "ALTER TABLE "+tableName(&t.Table)+" ADD CHECK (status <> 'dead')")
		},
		Txn: func(context.Context, sourcetest.Conn) (uint64, error) { return invisible, nil },
		AddColumn: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, name string) error {
			d := db.(*kitDatabase)
			return d.my.Exec(ctx, d.db, "ALTER TABLE "+tableName(&t.Table)+" ADD "+quoteIdent(name)+" TEXT")
		},
		NullStatus: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, ids ...string) error {
			d, status := db.(*kitDatabase), quoteIdent(t.Columns.Status)
			ddl := []string{"ALTER TABLE " + tableName(&t.Table) + " MODIFY " + status + " VARCHAR(32) DEFAULT 'pending'"}
			for _, id := range ids {
				ddl = append(ddl, "UPDATE "+tableName(&t.Table)+" SET "+status+" = NULL WHERE id = "+quoteLiteral(id))
			}
			return d.my.Exec(ctx, d.db, ddl...)
		},
		DropTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			return d.my.Exec(ctx, d.db, "DROP TABLE "+tableName(&t.Table))
		},
		CreateTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			sql, err := outboxSQL(&t.Table)
			if err != nil {
				return err
			}
			return d.my.Exec(ctx, d.db, sql)
		},
		Outlast: func(ctx context.Context, _ sourcetest.Database) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(binlog.SilenceLimit + binlog.Heartbeat):
				return nil
			}
		},
		Cut: func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).cut(ctx) },
		Restart: func(_ context.Context, db sourcetest.Database) error {
			return db.(*kitDatabase).my.Restart()
		},
		Gap:   func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).purge(ctx) },
		Lacks: map[string]string{},
	}
	if kind == KindMySQL {
		k.Payloads["JSON"] = append(same(`{"n": 1.5}`, `[]`, `"x"`), sourcetest.Payload{Written: []byte(`{"bb":1,"a" : [1.0]}`), Read: []byte(`{"a": [1.0], "bb": 1}`)})
	} else {
		k.IDs["UUID"] = []string{"ffffffff-8a3e-4b58-9d3c-111111111100", "0b0e8f6a-8a3e-4b58-9d3c-111111111111"}
		k.Payloads["JSON"] = same(`{ "a":1.0,"a" : 2}`, `"\u0000"`)
	}
	return k
}

// A kitDatabase is a database as the kit wants it.
type kitDatabase struct {
	my     *servers.My
	db     string
	cfg    Config
	tables []sourcetest.Table
	// account and relayURL are the relay's, where it has one of its own.
	account, relayURL string
}

func openKit(t *testing.T, kind string, s sourcetest.Setup, polled bool) *kitDatabase {
	t.Helper()
	my := servers.SharedMySQL
	if s.Own {
		my = func(t testing.TB, kind string) *servers.My { return servers.MySQL(t, kind) }
	}
	d := (*kitDatabase)(nil)
	if polled {
		d = openPolled(t, my(t, kind), s)
	} else {
		d = openOn(t, my(t, kind), s)
	}
	d.least(t)
	return d
}

// least makes an account with what RoleSQL grants, which the relay has from then on.
func (d *kitDatabase) least(t *testing.T) {
	t.Helper()
	name := "relay" + d.db[len(d.db)-8:]
	d.account = "'" + name + "'@'%'"
	grants := strings.Split(strings.TrimSuffix(strings.TrimSpace(RoleSQL(d.cfg, d.account, d.db)), ";"), ";\n")
	if err := d.my.Exec(t.Context(), d.db, append([]string{"CREATE USER " + d.account + " IDENTIFIED BY 'pass'"}, grants...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.my.Exec(context.Background(), d.db, "DROP USER "+d.account) }) // the server may be stopped
	u, err := url.Parse(d.my.SocketURL(d.db))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pass")
	d.relayURL = u.String()
}

// relay is the configuration of the relay.
func (d *kitDatabase) relay() Config {
	cfg := d.cfg
	cfg.URL = cmp.Or(d.relayURL, cfg.URL)
	return cfg
}

// openPolled makes tables whose numbers begin at 1000, so that there is something to fall back behind.
func openPolled(t testing.TB, my *servers.My, s sourcetest.Setup) *kitDatabase {
	t.Helper()
	s.Tables = slices.Clone(s.Tables)
	for i := range s.Tables {
		s.Tables[i].Columns.Seq = "seq"
	}
	d := openOn(t, my, s)
	d.cfg.Poll = true
	for _, table := range d.tables {
		if err := my.Exec(context.Background(), d.db, "ALTER TABLE "+tableName(&table.Table)+" AUTO_INCREMENT = 1000"); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func openOn(t testing.TB, my *servers.My, s sourcetest.Setup) *kitDatabase {
	t.Helper()
	d := &kitDatabase{my: my, db: my.NewDatabase(t)}
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
	d.cfg = Config{Kind: my.Kind, Pipeline: "p", URL: d.my.SocketURL(d.db), Tables: tables, Start: s.Start, MaxMessage: s.MaxMessage, Ignored: s.Ignored,
		Logger: slog.New(slog.DiscardHandler)}
	return d
}

func (d *kitDatabase) Tables() []sourcetest.Table { return d.tables }

func (d *kitDatabase) Source() source.Source {
	if d.cfg.Poll {
		return NewPoll(d.relay())
	}
	return New(d.relay())
}

// cut ends the connections of readers whose default database is this one.
func (d *kitDatabase) cut(ctx context.Context) error {
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

// cutPoll ends the connections that read this database's tables.
func (d *kitDatabase) cutPoll(ctx context.Context) error {
	conn, err := d.my.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for ended := false; !ended; {
		r, err := conn.Execute("SELECT id FROM information_schema.processlist WHERE db = '" + d.db + "' AND info LIKE 'SELECT%FORCE INDEX%'")
		if err != nil {
			return err
		}
		for i := range r.Values {
			id, err := r.GetString(i, 0)
			if err != nil {
				return err
			}
			if _, err := conn.Execute("KILL " + id); err == nil {
				ended = true
			}
		}
	}
	return nil
}

// purge removes all binlog files but a new one.
func (d *kitDatabase) purge(ctx context.Context) error {
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
func (d *kitDatabase) Conn(ctx context.Context) (sourcetest.Conn, error) {
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
