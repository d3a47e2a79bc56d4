package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

func TestSourceKit(t *testing.T) {
	t.Parallel()
	for _, k := range kitKinds(t) {
		t.Run(k.version, func(t *testing.T) {
			t.Parallel()
			sourcetest.Source(t, k.Kind)
		})
	}
}

func TestStoreKit(t *testing.T) {
	t.Parallel()
	for _, k := range kitKinds(t) {
		t.Run(k.version, func(t *testing.T) {
			t.Parallel()
			sourcetest.Store(t, k.Kind)
		})
	}
}

// TestPollKit runs the kit on a source that polls.
func TestPollKit(t *testing.T) {
	t.Parallel()
	versions := servers.Versions(t)
	k := kitKind(versions[len(versions)-1])
	k.Open = func(t *testing.T, s sourcetest.Setup) sourcetest.Database {
		return openKit(t, versions[len(versions)-1], s, true)
	}
	k.Polls, k.Counted, k.ResumeInside, k.Outlast = true, nil, true, nil
	k.Number = func(_ context.Context, db sourcetest.Database, t sourcetest.Table, m *outbox.Message, number uint64, instead string) error {
		db.(*kitDatabase).Exec("DELETE FROM "+sqltext.Table(&t.Table)+" WHERE id = $1", instead)
		db.(*kitDatabase).Exec("INSERT INTO "+sqltext.Table(&t.Table)+" (id, type, aggregatetype, aggregateid, payload, seq) VALUES ($1, $2, $3, $4, '{}', $5)",
			m.ID, m.Type, m.Topic, string(m.Key), int64(number))
		return nil
	}
	k.Lacks = sourcetest.PollLacks()
	k.Cut = func(ctx context.Context, db sourcetest.Database) error {
		d := db.(*kitDatabase)
		return d.PG.Exec(ctx, d.DB, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", session.AppName(d.Cfg.Pipeline))
	}
	k.Gap = func(_ context.Context, db sourcetest.Database) error {
		d := db.(*kitDatabase)
		d.Exec("SELECT setval(pg_get_serial_sequence('" + d.tables[0].Name + "', 'seq'), 1, false)")
		return nil
	}
	sourcetest.Poll(t, k)
}

type kitVersion struct {
	version string
	sourcetest.Kind
}

// kitKinds are the oldest version and the newest one: what those between them have of their own is tested by itself.
func kitKinds(t *testing.T) []kitVersion {
	versions := servers.Versions(t)
	newest := versions[len(versions)-1]
	kinds := []kitVersion{{newest, kitKind(newest)}}
	if oldest := versions[0]; oldest != newest {
		k := kitKind(oldest)
		k.Outlast = nil
		k.Lacks = map[string]string{sourcetest.CanOutlast: "it takes long, and the version makes no difference"}
		kinds = append(kinds, kitVersion{oldest, k})
	}
	return kinds
}

func kitKind(version string) sourcetest.Kind {
	same := func(texts ...string) (ps []sourcetest.Payload) {
		for _, text := range texts {
			ps = append(ps, sourcetest.Payload{Written: []byte(text), Read: []byte(text)})
		}
		return append(ps, sourcetest.Payload{})
	}
	return sourcetest.Kind{
		Open: func(t *testing.T, s sourcetest.Setup) sourcetest.Database { return openKit(t, version, s, false) },
		IDs: map[string][]string{
			"uuid":   {"0b0e8f6a-8a3e-4b58-9d3c-111111111111", "ffffffff-8a3e-4b58-9d3c-111111111111"},
			"bigint": {"-9000000000", "3", "20"}, "integer": {"7", "10"}, "smallint": {"3", "20"}, "text": {"'\\x", "7", "\u00e4"},
			"varchar(13)": {"0HZXEQ5Y8JY5Z", "1HZXEQ5Y8JY5Z"}, "char(5)": {"abc", "abcd"}, "numeric": {"1.50", "10"},
			"timestamp": {"2024-02-03 04:05:06.789", "2025-01-01 00:00:00"}, "my_id": {"42", "100"}, "my_enum": {"z", "a"},
		},
		TextID: "text",
		Payloads: map[string][]sourcetest.Payload{
			"bytea": same("", "\x00\xff\x10", "text"), "text": same("", "x \n\t'\\\u00e4\U0001F600"), "varchar": same("", "v"),
			"char(6)": {{Written: []byte("ab"), Read: []byte("ab    ")}}, "json": same(`{ "a":1.0,"a" : 2}`, `"\u0000"`),
			"jsonb": append(same(`{"n": 1.50}`, `[]`, `"x"`), sourcetest.Payload{Written: []byte(`{"b":1,"a" : [1.0]}`), Read: []byte(`{"a": [1.0], "b": 1}`)}),
		},
		Counted:  []string{"update", "delete", "truncate"},
		Business: kitBusiness(),
		Refuse: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, `ALTER TABLE tailbox_parked ADD CHECK ((sink <> 'mail' OR type <> 'refused')
				AND (message_group <> 'stay' OR next_attempt_at IS NOT NULL))`)
		},
		Forge: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, "INSERT INTO tailbox_request (pipeline, verb, selection, done_at, result, in_force) VALUES ('"+d.Cfg.Pipeline+
				`', 'feedback', '{}', now(), '{}', '{"sinks": ["forged"]}')`)
		},
		RefuseDead: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, "ALTER TABLE "+sqltext.Table(&t.Table)+" ADD CHECK (status OPERATOR(pg_catalog.<>) 'dead')")
		},
		Kill: func(ctx context.Context, db sourcetest.Database, st checkpoint.Store) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, "SELECT pg_terminate_backend($1)", st.(*pgstore.Store).Conn.PgConn().PID())
		},
		Txn: func(ctx context.Context, c sourcetest.Conn) (uint64, error) {
			var xid int64
			err := c.(*kitConn).conn.QueryRow(ctx, "SELECT txid_current() % (2^32)::bigint").Scan(&xid)
			return uint64(xid), err
		},
		AddColumn: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, name string) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, "ALTER TABLE "+sqltext.Table(&t.Table)+" ADD "+sqltext.Ident(name)+" text")
		},
		DropTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, "DROP TABLE "+sqltext.Table(&t.Table))
		},
		CreateTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			d := db.(*kitDatabase)
			sql, err := ddl.Outbox(&t.Table)
			if err != nil {
				return err
			}
			if d.Cfg.Poll {
				sql += ddl.SeqIndex(&t.Table)
			}
			return d.PG.Exec(ctx, d.DB, sql)
		},
		NullStatus: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, ids ...string) error {
			d, status := db.(*kitDatabase), sqltext.Ident(t.Columns.Status)
			if err := d.PG.Exec(ctx, d.DB, "ALTER TABLE "+sqltext.Table(&t.Table)+" ALTER "+status+" DROP NOT NULL"); err != nil {
				return err
			}
			return d.PG.Exec(ctx, d.DB, "UPDATE "+sqltext.Table(&t.Table)+" SET "+status+" = NULL WHERE id::text = ANY ($1)", ids)
		},
		Outlast: func(_ context.Context, db sourcetest.Database) error { return db.(*kitDatabase).outlast() },
		Cut: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1", d.Cfg.Slot)
		},
		Restart: func(_ context.Context, db sourcetest.Database) error {
			r := db.(*kitDatabase).Rig
			if err := r.PG.Restart(); err != nil {
				return err
			}
			r.Conn = r.Connect()
			return nil
		},
		Gap: func(_ context.Context, db sourcetest.Database) error {
			db.(*kitDatabase).DropSlot()
			return nil
		},
	}
}

// A kitDatabase is a rig as the kit wants it.
type kitDatabase struct {
	*pgtest.Rig
	tables []sourcetest.Table
}

func openKit(t *testing.T, version string, s sourcetest.Setup, polled bool) *kitDatabase {
	t.Helper()
	var pg *servers.PG
	if s.Own {
		pg = servers.Postgres(t, version)
	} else {
		pg = servers.Shared(t, version)
	}
	statements := []string{migrate.TablesIn("").Script(), "CREATE DOMAIN my_id AS bigint", "CREATE TYPE my_enum AS ENUM ('z', 'a')"}
	var tables []outbox.Table
	d := &kitDatabase{}
	for _, table := range s.Tables {
		table.Schema = "public"
		if polled {
			table.Columns.Seq = "seq"
		}
		d.tables, tables = append(d.tables, table), append(tables, table.Table)
		sql, err := ddl.Outbox(&table.Table)
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, sql)
		if polled {
			statements = append(statements, ddl.SeqIndex(&table.Table), "SELECT setval(pg_get_serial_sequence('"+table.Name+"', 'seq'), 1000)")
		}
		alter := func(column, typ string) {
			if typ != "" {
				statements = append(statements, fmt.Sprintf("ALTER TABLE %s ALTER %[2]s DROP DEFAULT, ALTER %[2]s DROP NOT NULL, ALTER %[2]s TYPE %[3]s USING %[2]s::text::%[3]s",
					sqltext.Table(&table.Table), sqltext.Ident(column), typ))
			}
		}
		alter(table.Columns.Payload, table.PayloadType)
		if table.Wide {
			table.IDType = "text"
		}
		if table.IDType != "" {
			statements = append(statements, fmt.Sprintf("ALTER TABLE %s ALTER %[2]s DROP DEFAULT, ALTER %[2]s TYPE %[3]s USING %[2]s::text::%[3]s",
				sqltext.Table(&table.Table), sqltext.Ident(table.Columns.ID), table.IDType))
		}
	}
	d.Rig = pgtest.NewRig(t, pg, strings.Join(statements, ";;"), tables...)
	if !polled {
		d.Own()
	}
	for i := range tables {
		if status := tables[i].Columns.Status; status != "" { // so that others could create an operator that fits better
			d.Exec("ALTER TABLE " + sqltext.Table(&tables[i]) + " ALTER " + sqltext.Ident(status) + " TYPE varchar(40)")
		}
	}
	d.Traps()
	d.Exec("ALTER PUBLICATION " + sqltext.Ident(d.Cfg.Publication) + " SET (publish = 'insert, update, delete, truncate')")
	d.Cfg.Poll = polled
	role := d.Role("relay", "")
	d.Exec(setup.RoleSQL(d.Cfg, role))
	d.Cfg.URL = d.As(role).URL
	d.Cfg.Start, d.Cfg.MaxMessage, d.Cfg.Ignored = s.Start, s.MaxMessage, s.Ignored
	return d
}

func (d *kitDatabase) Tables() []sourcetest.Table { return d.tables }

func (d *kitDatabase) Source() source.Source {
	if d.Cfg.Poll {
		return polling.New(d.Cfg)
	}
	return stream.New(d.Cfg)
}

func (d *kitDatabase) Store(ctx context.Context) (checkpoint.Store, error) {
	return Config(d.Cfg).Open(ctx)
}

func (d *kitDatabase) Conn(ctx context.Context) (sourcetest.Conn, error) {
	conn, err := pgx.Connect(ctx, d.PG.SocketURL(d.DB))
	if err != nil {
		return nil, err
	}
	return &kitConn{conn}, nil
}

func (d *kitDatabase) Rows(ctx context.Context, t sourcetest.Table) ([]sourcetest.Row, error) {
	id, c := sqltext.Ident(t.Columns.ID), t.Columns
	columns := id + "::text, '', 0, '', false"
	receipt := ", ''"
	if c.Receipt != "" {
		receipt = ", coalesce(" + sqltext.Ident(c.Receipt) + ", '')"
	}
	if c.Status != "" {
		columns = fmt.Sprintf("%s::text, %s::text, %s, coalesce(%s, ''), %s IS NOT NULL", id, sqltext.Ident(c.Status), sqltext.Ident(c.Attempts),
			sqltext.Ident(c.LastError), sqltext.Ident(c.DeliveredAt))
	}
	// The other connections are used by one goroutine.
	conn, err := pgx.Connect(ctx, d.PG.SocketURL(d.DB))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, "SELECT "+columns+receipt+" FROM "+sqltext.Table(&t.Table)+" ORDER BY "+id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[sourcetest.Row])
}

func (d *kitDatabase) Reset(ctx context.Context, t sourcetest.Table, ids ...string) error {
	return d.PG.Exec(ctx, d.DB, fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s::text = ANY ($2)", sqltext.Table(&t.Table), sqltext.Ident(t.Columns.Status),
		sqltext.Ident(t.Columns.ID)), t.Words.Pending, ids)
}

func (d *kitDatabase) Parked(ctx context.Context) ([]checkpoint.Parked, error) {
	conn, err := pgx.Connect(ctx, d.PG.SocketURL(d.DB))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, "SELECT "+pgstore.ParkedColumns()+" FROM tailbox_parked p WHERE pipeline = $1 AND state <> 'delivered' ORDER BY position, sink", d.Cfg.Pipeline)
	if err != nil {
		return nil, err
	}
	return pgstore.CollectParked(rows)
}

func (d *kitDatabase) Ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	return Config(d.Cfg).Operator().Ask(ctx, r)
}

func (d *kitDatabase) Answer(ctx context.Context, id int64) (sourcetest.Answer, error) {
	result, done, err := Config(d.Cfg).Operator().Result(ctx, id)
	if err != nil || result == nil {
		return sourcetest.Answer{}, err
	}
	return sourcetest.Answer{Done: done, Changed: result.Changed, Refused: result.Refused, Error: result.Error}, nil
}

// outlast waits for as many reports of the reader as come within wal_sender_timeout.
func (d *kitDatabase) outlast() error {
	last, replies := "", 0
	d.Until("reports of a reader that reads nothing", func() bool {
		now := d.Text("SELECT coalesce(max(reply_time)::text, '') FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = $1", d.Cfg.Slot)
		if now != last && now != "" {
			last = now
			replies++
		}
		return replies > 4
	})
	return nil
}

// A kitConn is an application's connection.
type kitConn struct{ conn *pgx.Conn }

func (c *kitConn) exec(ctx context.Context, sql string, args ...any) error {
	_, err := c.conn.Exec(ctx, sql, args...)
	return err
}

func (c *kitConn) Begin(ctx context.Context) error { return c.exec(ctx, "BEGIN") }

func (c *kitConn) Commit(ctx context.Context) error { return c.exec(ctx, "COMMIT") }

func (c *kitConn) Rollback(ctx context.Context) error { return c.exec(ctx, "ROLLBACK") }

func (c *kitConn) Savepoint(ctx context.Context) error { return c.exec(ctx, "SAVEPOINT s") }

func (c *kitConn) RollbackTo(ctx context.Context) error { return c.exec(ctx, "ROLLBACK TO s") }

func (c *kitConn) Close(ctx context.Context) error { return c.conn.Close(ctx) }

func (c *kitConn) Truncate(ctx context.Context, t sourcetest.Table) error {
	return c.exec(ctx, "TRUNCATE "+sqltext.Table(&t.Table))
}

func (c *kitConn) Delete(ctx context.Context, t sourcetest.Table, ids ...string) error {
	return c.exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s::text = ANY ($1)", sqltext.Table(&t.Table), sqltext.Ident(t.Columns.ID)), ids)
}

func (c *kitConn) Update(ctx context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	for _, m := range ms {
		sql := fmt.Sprintf("UPDATE %s SET %s = $1, %s = $2 WHERE %s::text = $3", sqltext.Table(&t.Table), sqltext.Ident(t.Columns.Type),
			sqltext.Ident(t.Columns.Payload), sqltext.Ident(t.Columns.ID))
		if err := c.exec(ctx, sql, m.Type, payloadArg(t, m.Payload), m.ID); err != nil {
			return err
		}
	}
	return nil
}

func (c *kitConn) Insert(ctx context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	var names, rows []string
	values := make([]map[string]any, len(ms))
	for i, m := range ms {
		values[i] = map[string]any{}
		for _, v := range t.Values(m) {
			if b, ok := v.V.([]byte); ok {
				v.V = payloadArg(t, b)
			}
			values[i][v.Column] = v.V
			if !slices.Contains(names, v.Column) {
				names = append(names, v.Column)
			}
		}
	}
	var args []any
	quoted := make([]string, len(names))
	for _, row := range values {
		var places []string
		for i, name := range names {
			quoted[i] = sqltext.Ident(name)
			v, ok := row[name]
			if !ok {
				places = append(places, "DEFAULT")
				continue
			}
			args = append(args, v)
			places = append(places, fmt.Sprintf("$%d", len(args)))
		}
		rows = append(rows, "("+strings.Join(places, ", ")+")")
	}
	return c.exec(ctx, "INSERT INTO "+sqltext.Table(&t.Table)+" ("+strings.Join(quoted, ", ")+") VALUES "+strings.Join(rows, ", "), args...)
}

// payloadArg is a payload as an argument: text but for a column of bytes.
func payloadArg(t sourcetest.Table, b []byte) any {
	switch {
	case b == nil:
		return nil
	case t.PayloadType == "bytea" || t.PayloadType == "" && t.Shape == "tailbox":
		return b
	}
	return string(b)
}
