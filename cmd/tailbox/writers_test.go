package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
	"github.com/tailbox/tailbox/outbox/outboxsql"
	"github.com/tailbox/tailbox/test/servers"
)

const writersConfig = `
pipeline: "${PIPELINE}"
source:
  kind: "${KIND}"
  url: "${DATABASE_URL}"
  reconcile: 0s
  tables: [{name: outbox, shape: tailbox}, {name: fleeting, shape: debezium, on_delivered: keep}]
sinks: {out: {kind: file, path: lines.json}}
router: {route.topic.replacement: "${routedByValue}"}
admin: {listen: off}
`

// errUndo rolls a transaction back.
var errUndo = errors.New("undo")

// wrote is what is written in one transaction with each writer, and what arrives of it: a message with all parts, one that is gone from
// its table before the relay reads the log (not in MongoDB), and nothing of a transaction that was rolled back.
func wrote(key string) (full, fleeting, undone outbox.Draft) {
	full = outbox.Draft{Type: "full-" + key, Topic: "orders", Group: "order:" + key, Key: key, Payload: []byte(`{"order":` + key + `}`),
		Headers: map[string]string{"h": "ü"}, IdempotencyKey: "k" + key}
	fleeting = outbox.Draft{Type: "fleeting-" + key, Topic: "orders", Key: key, Payload: []byte(`{}`)}
	return full, fleeting, outbox.Draft{Type: "undone", Payload: []byte("{}")}
}

// arrived waits until the sink has a message for each id, and looks at them.
func (r *rig) arrived(full outbox.Draft, ids ...string) {
	r.t.Helper()
	type line struct {
		ID, Type, Topic, Group, Key string
		Headers                     map[string]string
		Payload                     json.RawMessage
	}
	var lines []line
	until(r.t, "the messages", func() bool {
		text, err := os.ReadFile(r.lines)
		if err != nil && !os.IsNotExist(err) {
			r.t.Fatal(err)
		}
		lines = nil
		for l := range strings.Lines(string(text)) {
			var m line
			if strings.HasSuffix(l, "\n") && json.Unmarshal([]byte(l), &m) == nil {
				lines = append(lines, m)
			}
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return !slices.ContainsFunc(lines, func(l line) bool { return l.ID == id }) })
	})
	for _, l := range lines {
		if l.Type == "undone" {
			r.t.Error("a message arrived whose transaction was rolled back")
		}
		if l.ID != ids[0] {
			continue
		}
		if l.Type != full.Type || l.Topic != full.Topic || l.Group != full.Group || l.Key != full.Key || l.Headers["h"] != "ü" || string(l.Payload) != string(full.Payload) {
			r.t.Errorf("got %+v, wrote %+v", l, full)
		}
	}
}

func newWritersRig(t *testing.T, kind, url, pipeline string) *rig {
	t.Helper()
	r := &rig{t: t, file: write(t, "tailbox.yaml", writersConfig), env: map[string]string{"DATABASE_URL": url, "KIND": kind, "PIPELINE": pipeline}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	r.must("init")
	r.relay()
	return r
}

func writersTables(t *testing.T) (full, fleeting outbox.Table) {
	t.Helper()
	full, err := outbox.NewTable("tailbox", "outbox")
	if err != nil {
		t.Fatal(err)
	}
	if fleeting, err = outbox.NewTable("debezium", "fleeting"); err != nil {
		t.Fatal(err)
	}
	fleeting.OnDelivered = outbox.Keep
	return full, fleeting
}

// TestWritersSQL: what outboxsql writes is delivered, and what is rolled back is not.
func TestWritersSQL(t *testing.T) {
	t.Parallel()
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testWritersSQL(t, kind)
		})
	}
}

func testWritersSQL(t *testing.T, kind string) {
	dialect, driver, dsn, address, name := outbox.Postgres, "pgx", "", "", ""
	if kind == "postgres" {
		pg := servers.Shared(t, "17")
		name = pg.NewDatabase(t)
		address, dsn = pg.URL(name), pg.URL(name)
	} else {
		my := servers.SharedMySQL(t, kind)
		name = my.NewDatabase(t)
		address = my.URL(name)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		c := mysql.NewConfig()
		c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), name
		c.Passwd, _ = u.User.Password()
		dialect, driver, dsn = outbox.MySQL, "mysql", c.FormatDSN()
	}
	r := newWritersRig(t, kind, address, name[max(0, len(name)-40):])
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := [2]outbox.Table{}
	tables[0], tables[1] = writersTables(t)
	var writers [2]*outboxsql.Writer
	for i := range tables {
		if writers[i], err = outboxsql.New(t.Context(), db, dialect, tables[i], outbox.Options{DeleteAtOnce: i == 1}); err != nil {
			t.Fatal(err)
		}
	}
	full, fleeting, undone := wrote("1")
	var ids [2]string
	in := func(f func(tx *sql.Tx) error) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		end := tx.Commit
		if err := f(tx); err != nil {
			end = tx.Rollback
			if !errors.Is(err, errUndo) {
				t.Error(err)
			}
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	in(func(tx *sql.Tx) error {
		_, err := writers[0].Write(t.Context(), tx, undone)
		return errors.Join(errUndo, err)
	})
	in(func(tx *sql.Tx) (err error) {
		if ids[0], err = writers[0].Write(t.Context(), tx, full); err != nil {
			return err
		}
		ids[1], err = writers[1].Write(t.Context(), tx, fleeting)
		return err
	})
	r.arrived(full, ids[:]...)
}

// TestWritersPgx is the same for outboxpgx.
func TestWritersPgx(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	r := newWritersRig(t, "postgres", pg.URL(name), name[max(0, len(name)-40):])
	conn, err := pgx.Connect(t.Context(), pg.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	table, gone := writersTables(t)
	w, err := outboxpgx.New(t.Context(), conn, table, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	once, err := outboxpgx.New(t.Context(), conn, gone, outbox.Options{DeleteAtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	full, fleeting, undone := wrote("1")
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := w.Write(t.Context(), tx, undone)
		return errors.Join(errUndo, err)
	}); !errors.Is(err, errUndo) {
		t.Error(err)
	}
	var ids [2]string
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) (err error) {
		if ids[0], err = w.Write(t.Context(), tx, full); err != nil {
			return err
		}
		ids[1], err = once.Write(t.Context(), tx, fleeting)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.arrived(full, ids[:]...)
}

// TestWritersMongo is the same for outboxmongo.
func TestWritersMongo(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	client, name := server.Client(t), server.NewDatabase(t)
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("authSource") == "" && u.User != nil {
		q.Set("authSource", "admin")
	}
	u.Path, u.RawQuery = "/"+name, q.Encode()
	r := newWritersRig(t, "mongodb", u.String(), name[max(0, len(name)-40):])
	table, err := outboxmongo.Table("tailbox", "outbox")
	if err != nil {
		t.Fatal(err)
	}
	w, err := outboxmongo.New(t.Context(), client.Database(name), table, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	full, _, undone := wrote("1")
	in := w.Transactor(client, nil)
	if _, err := in.Do(t.Context(), func(ctx context.Context, _ *mongo.Session) ([]outbox.Draft, error) {
		_, err := w.Write(ctx, undone)
		return nil, errors.Join(errUndo, err)
	}); !errors.Is(err, errUndo) {
		t.Error(err)
	}
	written, err := in.Do(t.Context(), func(context.Context, *mongo.Session) ([]outbox.Draft, error) { return []outbox.Draft{full}, nil })
	if err != nil {
		t.Fatal(err)
	}
	r.arrived(full, written[0].ID)
}
