package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// patience bounds every wait for an event.
const patience = 4 * time.Minute

const debeziumDDL = `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
	aggregateid text NOT NULL, type text NOT NULL, payload jsonb)`

// A rig is a database with outbox tables, and a source that reads it.
type rig struct {
	t    testing.TB
	pg   *servers.PG
	db   string
	conn *pgx.Conn
	cfg  Config
	src  *Source

	mu      sync.Mutex
	ignored map[string]int
	log     strings.Builder
}

// newRig makes tables and a publication of them, and no slot.
func newRig(t testing.TB, pg *servers.PG, ddl string, tables ...outbox.Table) *rig {
	t.Helper()
	return newRigIn(t, pg, pg.NewDatabase(t), ddl, tables...)
}

// newRigIn does it in a database that is there already.
func newRigIn(t testing.TB, pg *servers.PG, db, ddl string, tables ...outbox.Table) *rig {
	t.Helper()
	r := &rig{t: t, pg: pg, db: db, ignored: map[string]int{}}
	r.conn = r.connect()
	for _, sql := range strings.Split(ddl, ";;") {
		r.exec(sql)
	}
	r.cfg = Config{Pipeline: r.db, URL: pg.SocketURL(r.db), Slot: r.db, Publication: "pub " + r.db, Tables: tables,
		Ignored: func(why string, n int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ignored[why] += n
		},
		Logger: slog.New(slog.NewTextHandler(rigLog{r}, nil)),
	}
	if len(r.cfg.Pipeline) > 50 {
		r.cfg.Pipeline = r.cfg.Pipeline[:50]
	}
	var names []string
	for i := range tables {
		names = append(names, tableName(&tables[i]))
	}
	r.exec("CREATE PUBLICATION " + quoteIdent(r.cfg.Publication) + " FOR TABLE " + strings.Join(names, ", ") +
		" WITH (publish = 'insert', publish_via_partition_root = true)")
	r.src = New(r.cfg)
	t.Cleanup(func() { r.dropSlot() })
	return r
}

type rigLog struct{ r *rig }

func (l rigLog) Write(p []byte) (int, error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	return l.r.log.Write(p)
}

// shape is a table of a known shape.
func shape(name, table string) outbox.Table {
	s, ok := outbox.ShapeNamed(name)
	if !ok {
		panic(name)
	}
	return outbox.Table{Schema: "public", Name: table, Shape: name, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
}

func (r *rig) connect() *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(context.Background(), r.pg.SocketURL(r.db))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.conn.Exec(context.Background(), sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) text(sql string, args ...any) string {
	r.t.Helper()
	var s *string
	if err := r.conn.QueryRow(context.Background(), sql, args...).Scan(&s); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	if s == nil {
		return ""
	}
	return *s
}

func (r *rig) dropSlot() {
	conn, err := pgx.Connect(context.Background(), r.pg.SocketURL(r.db))
	if err != nil {
		return // the server was stopped by its test
	}
	defer func() { _ = conn.Close(context.Background()) }()
	r.until("slot dropped", func() bool {
		_, err := conn.Exec(context.Background(),
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot)
		return err == nil
	})
}

// until polls.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("waited for: %s", what)
		}
	}
}

// own makes the slot the pipeline's own, as a store does, whether it is there or not.
func (r *rig) own() {
	r.t.Helper()
	r.exec(tableNames("").ownTables())
	r.exec("INSERT INTO tailbox_checkpoint (pipeline, slot, schema_version) VALUES ($1, $2, $3) ON CONFLICT (pipeline) DO UPDATE SET slot = excluded.slot",
		r.cfg.Pipeline, r.cfg.Slot, store.SchemaVersion)
}

// establish makes the slot and returns its position.
func (r *rig) establish() source.Resume {
	r.t.Helper()
	r.own()
	snap, err := r.src.Establish(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := snap.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	return snap.Resume()
}

// other is a source of the same tables with a slot of its own.
func (r *rig) other() *Source {
	cfg := r.cfg
	cfg.Slot += "_2"
	r.t.Cleanup(func() {
		r.until("second slot dropped", func() bool {
			conn, err := pgx.Connect(context.Background(), r.pg.SocketURL(r.db))
			if err != nil {
				return true
			}
			defer func() { _ = conn.Close(context.Background()) }()
			_, err = conn.Exec(context.Background(),
				"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", cfg.Slot)
			return err == nil
		})
	})
	return New(cfg)
}

func (r *rig) confirmed() pgrepl.LSN {
	r.t.Helper()
	at, err := pgrepl.ParseLSN(r.text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot))
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

// A running is a Run in the background.
type running struct {
	r       *rig
	cancel  context.CancelFunc
	batches chan *source.Batch
	done    chan error
}

func (r *rig) run(start source.Start) *running { return r.runOf(r.src, start) }

func (r *rig) runOf(src source.Source, start source.Start) *running {
	ctx, cancel := context.WithCancel(context.Background())
	x := &running{r: r, cancel: cancel, batches: make(chan *source.Batch), done: make(chan error, 1)}
	go func() {
		x.done <- src.Run(ctx, start, func(ctx context.Context, b *source.Batch) error {
			select {
			case x.batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(x.batches)
	}()
	r.t.Cleanup(func() {
		cancel()
		for range x.batches {
		}
	})
	return x
}

// next waits for a batch.
func (x *running) next() *source.Batch {
	x.r.t.Helper()
	select {
	case b, ok := <-x.batches:
		if !ok {
			x.r.t.Fatalf("Run ended: %v", <-x.done)
		}
		return b
	case <-time.After(patience):
		x.r.t.Fatal("waited for a batch")
	}
	return nil
}

// messages waits for n messages, and returns them with the highest Resume that was emitted once all of them are covered.
func (x *running) messages(n int) (ms []*outbox.Message, resume source.Resume) {
	x.r.t.Helper()
	for {
		b := x.next()
		ms = append(ms, b.Messages...)
		checkBatch(x.r.t, b)
		if len(ms) > n {
			x.r.t.Fatalf("got %d messages, want %d", len(ms), n)
		}
		if len(ms) == n && b.Resume != "" {
			return ms, b.Resume
		}
	}
}

// checkBatch holds what is promised of every batch.
func checkBatch(t testing.TB, b *source.Batch) {
	t.Helper()
	last := 0
	for _, m := range b.Marks {
		if m.N <= last || m.N >= len(b.Messages) || m.Resume == "" {
			t.Errorf("mark %+v after %d in a batch of %d messages", m, last, len(b.Messages))
		}
		last = m.N
	}
	for i := 1; i < len(b.Messages); i++ {
		if b.Messages[i-1].Position.Compare(b.Messages[i].Position) >= 0 {
			t.Errorf("positions %s, %s are not in order", b.Messages[i-1].Position, b.Messages[i].Position)
		}
	}
	if b.Barrier != "" && len(b.Messages) > 0 {
		t.Errorf("a barrier with %d messages", len(b.Messages))
	}
}

// stop ends Run as the relay does.
func (x *running) stop() error {
	x.r.t.Helper()
	x.cancel()
	return x.wait()
}

// wait returns what Run returned. Batches that come until then are dropped.
func (x *running) wait() error {
	x.r.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case err := <-x.done:
			return err
		case <-x.batches:
		case <-limit:
			x.r.t.Fatal("waited for the end of Run")
		}
	}
}

// fails waits for the end of Run and looks at its error.
func (x *running) fails(target error, text string) {
	x.r.t.Helper()
	err := x.wait()
	if !errors.Is(err, target) || !strings.Contains(fmt.Sprint(err), text) {
		x.r.t.Fatalf("Run ended with %v, want %v and %q in it", err, target, text)
	}
}

func ids(ms []*outbox.Message) string {
	var s []string
	for _, m := range ms {
		s = append(s, m.ID)
	}
	return strings.Join(s, " ")
}
