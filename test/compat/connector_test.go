package compat

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
	for _, name := range []string{"text", "varchar", "json", "xml", "bytea", "blob"} {
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
	columns []typed
	rows    int
	exec    func(sql string)
	// connector are the options of Debezium's connector, and reading says once it reads the log.
	connector map[string]string
	reading   func()
	// source reads the same table.
	source func(outbox.Table) source.Source
	// table is where it is.
	table string
}

func (c *connected) name(i int) string { return fmt.Sprintf("c%d", i) }

func (c *connected) tableOf(o router.Options) outbox.Table {
	table := tableOf(o)
	table.Schema, table.Name, _ = strings.Cut(c.table, ".")
	return table
}

// create makes the table, of which some columns are always the same.
func (c *connected) create(columns string) {
	sql := "CREATE TABLE " + c.table + " (" + columns
	for i, column := range c.columns {
		sql += fmt.Sprintf(", %s %s", c.name(i), column.declared)
		c.rows = max(c.rows, len(column.values)+1)
	}
	c.exec(sql + ")")
}

// insert writes the values row by row; a column that has no more has NULL.
func (c *connected) insert() {
	for n := range c.rows {
		names, values := "id, aggregatetype, aggregateid, type, payload", fmt.Sprintf("'00000000-0000-4000-8000-%012d', 'a', 'b', 'T', '{}'", n)
		for i, column := range c.columns {
			if n < len(column.values) {
				names += ", " + c.name(i)
				values += ", " + column.values[n]
			}
		}
		c.exec("INSERT INTO " + c.table + " (" + names + ") VALUES (" + values + ")")
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
	connector := map[string]string{"name": "compare", "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "topic.prefix": "server",
		"snapshot.mode": "no_data"}
	maps.Copy(connector, c.connector)
	answers := make(chan [][]answer, 1)
	go func() {
		defer close(answers)
		answers <- theirs(c.t, map[string]any{"cases": sets, "count": c.rows, "connector": connector})
	}()
	c.reading()
	c.insert()
	return <-answers
}

// until waits until something is so.
func until(t *testing.T, what string, ok func() (bool, error)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for yes := false; !yes; {
		var err error
		if yes, err = ok(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited for: %s", what)
		}
	}
}

// ours reads the log from where it was before the rows, and routes them.
func (c *connected) ours(o router.Options, from source.Resume) []answer {
	table := c.tableOf(o)
	made, err := router.New(router.Config{Tables: []outbox.Table{table}, Options: o, Sinks: []string{"out"}})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var answers []answer
	err = c.source(table).Run(ctx, source.Start{From: from}, func(_ context.Context, b *source.Batch) error {
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

// compare has both read the same rows with each column in each place.
func (c *connected) compare() {
	t := c.t
	snap, err := c.source(c.tableOf(router.Options{})).Establish(t.Context())
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
	t.Logf("%d sets of options, %d rows", len(sets), c.rows)
	different := make([]int, len(c.columns))
	for n, o := range sets {
		column := c.columns[of[n]]
		for i, got := range c.ours(o, snap.Resume()) {
			want := comparable(debezium[n][i])
			got.Timestamp = nil // that of the commit
			if want.equal(got) {
				continue
			}
			if different[of[n]]++; column.differs == "" {
				value := "NULL"
				if i < len(column.values) {
					value = column.values[i]
				}
				t.Errorf("%s %s, %s\nDebezium: %v\ntailbox:  %v", column.declared, value, name(o), want, got)
			}
		}
	}
	for i, column := range c.columns {
		if different[i] == 0 && column.differs != "" {
			t.Errorf("%s: a difference that does not occur: %s", column.declared, column.differs)
		}
	}
}

// comparable is an answer of Debezium's without the time of reading, and what it says of itself.
func comparable(a answer) answer {
	a.Timestamp = nil
	a.Headers = slices.DeleteFunc(a.Headers, func(h [2]header) bool { return strings.HasPrefix(*h[0], "__debezium.context.") })
	return a
}

// What tailbox makes of a column of Postgres is what Debezium's connector and router make of it, from the same log.
func TestColumnsAreDebezium(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	db := pg.NewDatabase(t)
	u, err := url.Parse(pg.URL(db))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	c := &connected{t: t, columns: typedColumns(), table: "inventory.outbox", connector: map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": u.Hostname(), "database.port": u.Port(),
		"database.user": u.User.Username(), "database.password": password, "database.dbname": db, "plugin.name": "pgoutput", "slot.name": db + "_dbz",
		"publication.name": "compared", "publication.autocreate.mode": "disabled", "table.include.list": "inventory.outbox"}}
	c.exec = func(sql string) {
		t.Helper()
		if err := pg.Exec(t.Context(), db, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	c.reading = func() {
		conn, err := pgx.Connect(t.Context(), pg.URL(db))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(t.Context()) }()
		until(t, "Debezium to read", func() (yes bool, err error) {
			err = conn.QueryRow(t.Context(), "SELECT coalesce(bool_or(active), false) FROM pg_replication_slots WHERE slot_name = '"+db+"_dbz'").Scan(&yes)
			return yes, err
		})
	}
	c.source = func(table outbox.Table) source.Source {
		return postgres.Config{Config: source.Config{Pipeline: "compare", URL: pg.URL(db), Tables: []outbox.Table{table}, MaxMessage: 1 << 20,
			Logger: slog.New(slog.DiscardHandler)}, Slot: db, Publication: "compared"}.Source()
	}
	for _, statement := range []string{"CREATE EXTENSION hstore", "CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE DOMAIN label AS varchar(50)",
		"CREATE DOMAIN moment AS timestamp", "CREATE DOMAIN moments AS timestamp(3)", "CREATE SCHEMA inventory"} {
		c.exec(statement)
	}
	c.create("id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb")
	c.exec("CREATE PUBLICATION compared FOR TABLE inventory.outbox")
	c.compare()
}
