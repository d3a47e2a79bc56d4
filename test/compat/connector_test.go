package compat

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

// A typed is a column of a type, with values as SQL writes them. differs says why Debezium writes it otherwise.
type typed struct {
	declared string
	values   []string
	differs  string
}

// payload reports whether one would keep a payload in a column of the type.
func (c typed) payload() bool {
	for _, name := range []string{"text", "varchar", "json", "xml", "bytea"} {
		if strings.HasPrefix(c.declared, name) {
			return true
		}
	}
	return false
}

func typedColumns() []typed {
	const notDone = "it is the database's text"
	return []typed{
		{"text", []string{"'a \"b\" \\ ü😀'", "''"}, ""},
		{"varchar(20)", []string{"'{\"a\": 1}'"}, ""},
		{"json", []string{`'{"a" : [1, 2], "b": "x"}'`, `'"x"'`}, ""},
		{"jsonb", []string{`'{"a" : [1, 2], "b": "x"}'`, `'"x"'`}, ""},
		{"bytea", []string{`'{"a":1}'`, `'\xdeadff'`, `''`}, ""},
		{"uuid", []string{"'0F3C1F5E-0000-4000-8000-00000000000a'"}, ""},
		{"boolean", []string{"true", "false"}, ""},
		{"smallint", []string{"-32768", "7"}, ""},
		{"integer", []string{"2147483647", "0"}, ""},
		{"bigint", []string{"-9223372036854775808", "9007199254740993"}, ""},
		{"oid", []string{"4294967295"}, ""},
		{"real", []string{"1.5", "0.1", "1e10", "-1e-5", "100", "'NaN'"}, ""},
		{"double precision", []string{"1.5", "0.1", "12345678.9", "1e7", "0.001", "1e-4", "1e300", "'-0'", "3", "'Infinity'", "'NaN'"}, ""},
		{"timestamptz", []string{"'2024-01-02 03:04:05.123456+00'", "'2024-01-02 03:04:05.5+02'", "'1969-12-31 23:59:59+00'", "'12024-01-02 03:04:05+00'"}, ""},
		{"timestamptz(0)", []string{"'2024-01-02 03:04:05.7+00'"}, ""},
		{"timestamptz(3)", []string{"'2024-01-02 03:04:05.123456+00'", "'2024-01-02 03:04:05+00'"}, ""},
		{"timestamp", []string{"'2024-01-02 03:04:05.123456'", "'1969-12-31 23:59:59.5'", "'2024-01-02 03:04:05'"}, ""},
		{"timestamp(3)", []string{"'2024-01-02 03:04:05.123456'", "'1969-12-31 23:59:59.5'"}, ""},
		{"timestamp(0)", []string{"'2024-01-02 03:04:05.7'"}, ""},
		{"date", []string{"'2024-02-29'", "'1969-12-31'", "'0001-01-01'"}, ""},
		{"time", []string{"'03:04:05.123456'", "'24:00:00'", "'00:00:00'"}, ""},
		{"time(3)", []string{"'03:04:05.123456'"}, ""},
		{"xml", []string{"'<a>1</a>'"}, ""},
		{"inet", []string{"'10.0.0.1/8'"}, ""},
		{"mood", []string{"'happy'"}, ""},
		{"label", []string{"'x'"}, ""},
		{"moment", []string{"'2024-01-02 03:04:05.123456'"}, ""},
		{"moments", []string{"'2024-01-02 03:04:05.123456'"}, ""},
		{"char(5)", []string{"'ab'"}, "the blanks that fill it up are left out"},
		{"numeric(10,2)", []string{"12.50"}, notDone},
		{"money", []string{"12.5"}, notDone},
		{"interval", []string{"'1 day'"}, notDone},
		{"timetz", []string{"'03:04:05.5+02'"}, notDone},
		{"bit(3)", []string{"B'101'"}, notDone},
		{"integer[]", []string{"'{1,2}'"}, notDone},
		{"hstore", []string{"'a=>1'"}, notDone},
		{"timestamp", []string{"'infinity'", "'0044-03-15 01:02:03 BC'"}, notDone},
		{"timestamptz", []string{"'infinity'", "'0044-03-15 01:02:03+00 BC'"}, notDone},
		{"date", []string{"'infinity'", "'0044-03-15 BC'"}, notDone},
	}
}

// A connected is one database, which Debezium's connector and tailbox's source read.
type connected struct {
	t       *testing.T
	pg      *servers.PG
	db      string
	columns []typed
	rows    int
}

func (c *connected) name(i int) string { return fmt.Sprintf("c%d", i) }

func (c *connected) exec(sql string) {
	c.t.Helper()
	if err := c.pg.Exec(c.t.Context(), c.db, sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

func (c *connected) create() {
	sql := "CREATE TABLE inventory.outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload jsonb"
	for i, column := range c.columns {
		sql += fmt.Sprintf(", %s %s", c.name(i), column.declared)
		c.rows = max(c.rows, len(column.values)+1)
	}
	for _, statement := range []string{"CREATE EXTENSION hstore", "CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE DOMAIN label AS varchar(50)",
		"CREATE DOMAIN moment AS timestamp", "CREATE DOMAIN moments AS timestamp(3)", "CREATE SCHEMA inventory", sql + ")", "CREATE PUBLICATION compared FOR TABLE inventory.outbox"} {
		c.exec(statement)
	}
}

// insert writes the values row by row; a column that has no more has NULL.
func (c *connected) insert() {
	for n := range c.rows {
		names, values := "aggregatetype, aggregateid, type, payload", "'a', 'b', 'T', '{}'"
		for i, column := range c.columns {
			if n < len(column.values) {
				names += ", " + c.name(i)
				values += ", " + column.values[n]
			}
		}
		c.exec("INSERT INTO inventory.outbox (" + names + ") VALUES (" + values + ")")
	}
}

// cases are the options for one column: where it is placed, and as a key and payload.
func (c *connected) cases(i int) []router.Options {
	const placement = "table.fields.additional.placement"
	name := c.name(i)
	list := []router.Options{{placement: name + ":header," + name + ":envelope"}, {placement: name + ":header", "format.header": "json"},
		{"table.field.event.key": name, "format.key": "json"}}
	if c.columns[i].payload() {
		list = append(list, router.Options{"table.field.event.payload": name, "format.value": "json"},
			router.Options{"table.field.event.payload": name, "format.value": "json", "table.expand.json.payload": "true"},
			router.Options{"table.field.event.payload": name, placement: "type:envelope"})
	}
	return list
}

// debezium runs the connector; the rows are inserted once it reads the log.
func (c *connected) debezium(sets []router.Options) [][]answer {
	u, err := url.Parse(c.pg.URL(c.db))
	if err != nil {
		c.t.Fatal(err)
	}
	password, _ := u.User.Password()
	answers := make(chan [][]answer, 1)
	go func() {
		defer close(answers)
		answers <- theirs(c.t, map[string]any{"cases": sets, "count": c.rows, "connector": map[string]string{
			"name": "compare", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
			"topic.prefix": "server", "database.hostname": u.Hostname(), "database.port": u.Port(), "database.user": u.User.Username(), "database.password": password,
			"database.dbname": c.db, "plugin.name": "pgoutput", "slot.name": c.db + "_dbz", "publication.name": "compared", "publication.autocreate.mode": "disabled",
			"snapshot.mode": "no_data", "table.include.list": "inventory.outbox"}})
	}()
	c.until("SELECT coalesce(bool_or(active), false) FROM pg_replication_slots WHERE slot_name = '" + c.db + "_dbz'")
	c.insert()
	return <-answers
}

func (c *connected) until(sql string) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.pg.URL(c.db))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(c.t.Context()) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for yes := false; !yes; {
		if err := conn.QueryRow(c.t.Context(), sql).Scan(&yes); err != nil {
			c.t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-limit:
			c.t.Fatalf("waited for: %s", sql)
		}
	}
}

func (c *connected) config(o router.Options) postgres.Config {
	return postgres.Config{Config: source.Config{Pipeline: "compare", URL: c.pg.URL(c.db), Tables: []outbox.Table{tableOf(o)}, MaxMessage: 1 << 20, Logger: slog.New(slog.DiscardHandler)}, Slot: c.db, Publication: "compared"}
}

// ours reads the log from where it was before the rows, and routes them.
func (c *connected) ours(o router.Options, from source.Resume) []answer {
	cfg := c.config(o)
	made, err := router.New(router.Config{Tables: cfg.Tables, Options: o, Sinks: []string{"out"}})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var answers []answer
	err = cfg.Source().Run(ctx, source.Start{From: from}, func(_ context.Context, b *source.Batch) error {
		for _, m := range b.Messages {
			if m.Fault != nil {
				c.t.Errorf("%s: %+v", name(o), m.Fault)
			}
			answers = append(answers, routed(made, m))
		}
		if len(answers) >= c.rows {
			cancel()
		}
		return nil
	})
	if len(answers) != c.rows {
		c.t.Fatalf("%s: %d rows of %d were read: %v", name(o), len(answers), c.rows, err)
	}
	return answers
}

// What tailbox makes of a column of Postgres is what Debezium's connector and router make of it, from the same log.
func TestColumnsAreDebezium(t *testing.T) {
	t.Parallel()
	c := &connected{t: t, pg: servers.Shared(t, "17"), columns: typedColumns()}
	c.db = c.pg.NewDatabase(t)
	c.create()
	snap, err := c.config(router.Options{}).Source().Establish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var sets []router.Options
	var of []int
	for i := range c.columns {
		for _, o := range c.cases(i) {
			sets, of = append(sets, o), append(of, i)
		}
	}
	debezium := c.debezium(sets)
	if len(debezium) != len(sets) {
		t.Fatalf("Debezium answered %d cases of %d", len(debezium), len(sets))
	}
	for n, o := range sets {
		column, different := c.columns[of[n]], 0
		for i, got := range c.ours(o, snap.Resume()) {
			want := debezium[n][i]
			got.Timestamp, want.Timestamp = nil, nil // that of the commit, and that of reading
			want.Headers = slices.DeleteFunc(want.Headers, func(h [2]header) bool { return strings.HasPrefix(*h[0], "__debezium.context.") })
			if want.equal(got) {
				continue
			}
			if different++; column.differs == "" {
				value := "NULL"
				if i < len(column.values) {
					value = column.values[i]
				}
				t.Errorf("%s %s, %s\nDebezium: %v\ntailbox:  %v", column.declared, value, name(o), want, got)
			}
		}
		if different == 0 && column.differs != "" {
			t.Errorf("%s, %s: a difference that does not occur: %s", column.declared, name(o), column.differs)
		}
	}
}
