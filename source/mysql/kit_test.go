package mysql_test

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/setup"
	"github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/mysql/stream"
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
				return d.My.Exec(ctx, d.DB, "UPDATE outbox SET seq = seq - 900", "ALTER TABLE outbox AUTO_INCREMENT = 1")
			}
			k.Number = func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, m *outbox.Message, number uint64, instead string) error {
				d := db.(*kitDatabase)
				return d.My.Exec(ctx, d.DB, "DELETE FROM "+quote.Table(&t.Table)+" WHERE id = "+quote.Text(instead),
					fmt.Sprintf("INSERT INTO %s (id, type, aggregatetype, aggregateid, payload, seq) VALUES (%s, %s, %s, %s, '{}', %d)", quote.Table(&t.Table),
						quote.Text(m.ID), quote.Text(m.Type), quote.Text(m.Topic), quote.Text(string(m.Key)), number))
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
			return d.My.Exec(ctx, d.DB, fmt.Sprintf("KILL %d", st.(*store.Store).Conn.Client.GetConnectionID()))
		},
		Refuse: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.My.Exec(ctx, d.DB, `ALTER TABLE tailbox_parked ADD CHECK ((sink <> 'mail' OR type <> 'refused')
				AND (message_group <> 'stay' OR next_attempt_at IS NOT NULL))`)
		},
		Forge: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.My.Exec(ctx, d.DB, "INSERT INTO tailbox_request (pipeline, verb, selection, done_at, result, in_force) VALUES ('"+d.Cfg.Pipeline+
				`', 'feedback', '{}', now(), '{}', '{"sinks": ["forged"]}')`)
		},
		RefuseDead: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			return d.My.Exec(ctx, d.DB, "ALTER TABLE "+quote.Table(&t.Table)+" ADD CHECK (status <> 'dead')")
		},
		Txn: func(context.Context, sourcetest.Conn) (uint64, error) { return stream.Txn, nil },
		AddColumn: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, name string) error {
			d := db.(*kitDatabase)
			return d.My.Exec(ctx, d.DB, "ALTER TABLE "+quote.Table(&t.Table)+" ADD "+quote.Ident(name)+" TEXT")
		},
		NullStatus: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, ids ...string) error {
			d, status := db.(*kitDatabase), quote.Ident(t.Columns.Status)
			ddl := []string{"ALTER TABLE " + quote.Table(&t.Table) + " MODIFY " + status + " VARCHAR(32) DEFAULT 'pending'"}
			for _, id := range ids {
				ddl = append(ddl, "UPDATE "+quote.Table(&t.Table)+" SET "+status+" = NULL WHERE id = "+quote.Text(id))
			}
			return d.My.Exec(ctx, d.DB, ddl...)
		},
		DropTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			return d.My.Exec(ctx, d.DB, "DROP TABLE "+quote.Table(&t.Table))
		},
		CreateTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			sql, err := schema.OutboxSQL(&t.Table)
			if err != nil {
				return err
			}
			return d.My.Exec(ctx, d.DB, sql)
		},
		Outlast: func(ctx context.Context, _ sourcetest.Database) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(binlog.SilenceLimit + binlog.Heartbeat):
				return nil
			}
		},
		Cut: func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).Cut(ctx) },
		Restart: func(_ context.Context, db sourcetest.Database) error {
			return db.(*kitDatabase).My.Restart()
		},
		Gap:   func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).Purge(ctx) },
		Lacks: map[string]string{},
	}
	if kind == server.KindMySQL {
		k.Payloads["JSON"] = append(same(`{"n": 1.5}`, `[]`, `"x"`), sourcetest.Payload{Written: []byte(`{"bb":1,"a" : [1.0]}`), Read: []byte(`{"a": [1.0], "bb": 1}`)})
	} else {
		k.IDs["UUID"] = []string{"ffffffff-8a3e-4b58-9d3c-111111111100", "0b0e8f6a-8a3e-4b58-9d3c-111111111111"}
		k.Payloads["JSON"] = same(`{ "a":1.0,"a" : 2}`, `"\u0000"`)
	}
	return k
}

// A kitDatabase is a database as the kit wants it.
type kitDatabase struct {
	*mysqltest.Database
	// account and relayURL are the relay's, where it has one of its own.
	account, relayURL string
}

func openKit(t *testing.T, kind string, s sourcetest.Setup, polled bool) *kitDatabase {
	t.Helper()
	my := servers.SharedMySQL
	if s.Own {
		my = func(t testing.TB, kind string) *servers.My { return servers.MySQL(t, kind) }
	}
	d := &kitDatabase{}
	if polled {
		d.Database = openPolled(t, my(t, kind), s)
	} else {
		d.Database = mysqltest.NewDatabase(t, my(t, kind), s)
	}
	d.least(t)
	return d
}

// least makes an account with what RoleSQL grants, which the relay has from then on.
func (d *kitDatabase) least(t *testing.T) {
	t.Helper()
	name := "relay" + d.DB[len(d.DB)-8:]
	d.account = "'" + name + "'@'%'"
	grants := strings.Split(strings.TrimSuffix(strings.TrimSpace(setup.RoleSQL(d.Cfg, d.account, d.DB)), ";"), ";\n")
	if err := d.My.Exec(t.Context(), d.DB, append([]string{"CREATE USER " + d.account + " IDENTIFIED BY 'pass'"}, grants...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.My.Exec(context.Background(), d.DB, "DROP USER "+d.account) }) // the server may be stopped
	u, err := url.Parse(d.My.SocketURL(d.DB))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pass")
	d.relayURL = u.String()
}

// relay is the configuration of the relay.
func (d *kitDatabase) relay() server.Config {
	cfg := d.Cfg
	cfg.URL = cmp.Or(d.relayURL, cfg.URL)
	return cfg
}

// openPolled makes tables whose numbers begin at 1000, so that there is something to fall back behind.
func openPolled(t testing.TB, my *servers.My, s sourcetest.Setup) *mysqltest.Database {
	t.Helper()
	s.Tables = slices.Clone(s.Tables)
	for i := range s.Tables {
		s.Tables[i].Columns.Seq = "seq"
	}
	d := mysqltest.NewDatabase(t, my, s)
	d.Cfg.Poll = true
	for _, table := range d.Configured {
		if err := my.Exec(context.Background(), d.DB, "ALTER TABLE "+quote.Table(&table.Table)+" AUTO_INCREMENT = 1000"); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *kitDatabase) Source() source.Source {
	if d.Cfg.Poll {
		return polling.New(d.relay())
	}
	return stream.New(d.relay())
}

// cutPoll ends the connections that read this database's tables.
func (d *kitDatabase) cutPoll(ctx context.Context) error {
	conn, err := d.My.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for ended := false; !ended; {
		r, err := conn.Execute("SELECT id FROM information_schema.processlist WHERE db = '" + d.DB + "' AND info LIKE 'SELECT%FORCE INDEX%'")
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
