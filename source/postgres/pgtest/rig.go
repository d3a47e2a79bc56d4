package pgtest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/migration"
	"github.com/tailbox/tailbox/test/servers"
)

// Patience bounds every wait for an event.
const Patience = 4 * time.Minute

// DebeziumDDL makes a table of shape debezium.
const DebeziumDDL = `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
	aggregateid text NOT NULL, type text NOT NULL, payload jsonb)`

// A Rig is a database with outbox tables, and a source that reads it.
type Rig struct {
	T    testing.TB
	PG   *servers.PG
	DB   string
	Conn *pgx.Conn
	Cfg  session.Config
	Src  *stream.Source

	Mu      sync.Mutex
	Ignored map[string]int
	Log     strings.Builder
}

// NewRig makes tables and a publication of them, and no slot.
func NewRig(t testing.TB, pg *servers.PG, ddl string, tables ...outbox.Table) *Rig {
	t.Helper()
	return newRigIn(t, pg, pg.NewDatabase(t), ddl, tables...)
}

// newRigIn is NewRig in a database that exists already.
func newRigIn(t testing.TB, pg *servers.PG, db, ddl string, tables ...outbox.Table) *Rig {
	t.Helper()
	r := &Rig{T: t, PG: pg, DB: db, Ignored: map[string]int{}}
	r.Conn = r.Connect()
	for _, sql := range strings.Split(ddl, ";;") {
		r.Exec(sql)
	}
	r.Cfg = session.Config{Slot: r.DB, Publication: "pub " + r.DB, Config: source.Config{Pipeline: r.DB, URL: pg.SocketURL(r.DB), Tables: tables,
		Ignored: func(why string, n int) {
			r.Mu.Lock()
			defer r.Mu.Unlock()
			r.Ignored[why] += n
		},
		Logger: slog.New(slog.NewTextHandler(rigLog{r}, nil)),
	}}
	if len(r.Cfg.Pipeline) > 50 {
		r.Cfg.Pipeline = r.Cfg.Pipeline[:50]
	}
	var names []string
	for i := range tables {
		names = append(names, sqltext.Table(&tables[i]))
	}
	r.Exec("CREATE PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " FOR TABLE " + strings.Join(names, ", ") +
		" WITH (publish = 'insert', publish_via_partition_root = true)")
	r.Src = stream.New(r.Cfg)
	t.Cleanup(func() { r.DropSlot() })
	return r
}

type rigLog struct{ r *Rig }

// Write implements io.Writer.
func (l rigLog) Write(p []byte) (int, error) {
	l.r.Mu.Lock()
	defer l.r.Mu.Unlock()
	return l.r.Log.Write(p)
}

// Shape is a table of a known shape.
func Shape(name, table string) outbox.Table {
	s, ok := outbox.ShapeNamed(name)
	if !ok {
		panic(name)
	}
	return outbox.Table{Schema: "public", Name: table, Shape: name, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
}

// Connect opens a session of an application.
func (r *Rig) Connect() *pgx.Conn {
	r.T.Helper()
	conn, err := pgx.Connect(context.Background(), r.PG.SocketURL(r.DB))
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs SQL on the rig's own session.
func (r *Rig) Exec(sql string, args ...any) {
	r.T.Helper()
	if _, err := r.Conn.Exec(context.Background(), sql, args...); err != nil {
		r.T.Fatalf("%s: %v", sql, err)
	}
}

// Text is the only value of a query.
func (r *Rig) Text(sql string, args ...any) string {
	r.T.Helper()
	var s *string
	if err := r.Conn.QueryRow(context.Background(), sql, args...).Scan(&s); err != nil {
		r.T.Fatalf("%s: %v", sql, err)
	}
	if s == nil {
		return ""
	}
	return *s
}

// DropSlot drops the slot, once nobody reads it.
func (r *Rig) DropSlot() {
	conn, err := pgx.Connect(context.Background(), r.PG.SocketURL(r.DB))
	if err != nil {
		return // the server was stopped by its test
	}
	defer func() { _ = conn.Close(context.Background()) }()
	r.Until("slot dropped", func() bool {
		_, err := conn.Exec(context.Background(),
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot)
		return err == nil
	})
}

// Until polls.
func (r *Rig) Until(what string, ok func() bool) {
	r.T.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(Patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.T.Fatalf("waited for: %s", what)
		}
	}
}

// Own makes the slot the pipeline's own, as a store does, whether it is there or not.
func (r *Rig) Own() {
	r.T.Helper()
	r.Exec(migrate.TablesIn("").Script())
	r.Exec("INSERT INTO tailbox_checkpoint (pipeline, slot, schema_version) VALUES ($1, $2, $3) ON CONFLICT (pipeline) DO UPDATE SET slot = excluded.slot",
		r.Cfg.Pipeline, r.Cfg.Slot, migration.Version)
}

// Establish makes the slot and returns its position.
func (r *Rig) Establish() source.Resume {
	r.T.Helper()
	r.Own()
	snap, err := r.Src.Establish(context.Background())
	if err != nil {
		r.T.Fatal(err)
	}
	if err := snap.Close(context.Background()); err != nil {
		r.T.Fatal(err)
	}
	return snap.Resume()
}

// Other is a source of the same tables with a slot of its own.
func (r *Rig) Other() *stream.Source {
	cfg := r.Cfg
	cfg.Slot += "_2"
	r.T.Cleanup(func() {
		r.Until("second slot dropped", func() bool {
			conn, err := pgx.Connect(context.Background(), r.PG.SocketURL(r.DB))
			if err != nil {
				return true
			}
			defer func() { _ = conn.Close(context.Background()) }()
			_, err = conn.Exec(context.Background(),
				"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", cfg.Slot)
			return err == nil
		})
	})
	return stream.New(cfg)
}

// Confirmed returns the slot's confirmed_flush_lsn.
func (r *Rig) Confirmed() pgrepl.LSN {
	r.T.Helper()
	at, err := pgrepl.ParseLSN(r.Text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot))
	if err != nil {
		r.T.Fatal(err)
	}
	return at
}

// SmallDDL makes a table that has what shape tailbox needs.
const SmallDDL = "CREATE TABLE a (id text PRIMARY KEY, type text, payload text, message_group text)"
