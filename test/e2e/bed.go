package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/servers"
)

// Schema is the two outbox tables of a bed, and what the truth is read from. Both tables take their ids from one
// sequence, so that an id names a message. Rows of outbox are deleted when they are delivered, rows of events are marked.
const Schema = `
CREATE SEQUENCE message_id;
CREATE TABLE outbox (
	id bigint PRIMARY KEY DEFAULT nextval('message_id'),
	aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb NOT NULL);
CREATE TABLE events (
	id bigint PRIMARY KEY DEFAULT nextval('message_id'),
	type text NOT NULL, topic text, message_group text, key text, payload bytea NOT NULL,
	status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0, next_attempt_at timestamptz,
	last_error text, delivered_at timestamptz, created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX events_pending ON events (id) WHERE status = 'pending';
CREATE PUBLICATION truth FOR TABLE outbox, events WITH (publish = 'insert');
SELECT pg_create_logical_replication_slot('SLOT', 'pgoutput');
`

// bothTables is the configuration of the tables of Schema.
const bothTables = `
    - name: public.outbox
      shape: debezium
      router: {route.topic.replacement: TOPIC}
    - name: public.events
      shape: tailbox
`

// A Bed is what a relay works on: a database with outbox tables, and a configuration file.
type Bed struct {
	PG         *servers.PG
	DB         string
	Dir        string
	ConfigFile string
	LogFile    string
	Rand       *rand.Rand // for the test's own goroutine; seeded
	Seed       uint64

	tb     testing.TB
	relays []*Relay
	name   string // of slots; unique on the server
}

// Options of a Bed.
type Options struct {
	// Own asks for a server of its own, which the test may kill; else the shared one is used.
	Own bool
	// Settings of an own server.
	Settings []servers.Option
	// Topic that all messages go to, where the sink has topics. Default "events".
	Topic string
	// Schema in place of the tables of Schema; SLOT in it becomes the name of the truth's slot.
	Schema string
	// Tables in place of the configuration of the tables.
	Tables string
	// URL of the database for the relay, given the bed; nil = over TCP.
	URL func(*Bed) string
	// Source and Top are further lines of the configuration, in the section source and at its top, such as reconcile: 1s.
	Source, Top []string
	// Sinks are the lines below sinks.
	Sinks []string
}

// NewBed makes tables, configuration and truth's slot. It does not run `tailbox init`.
func NewBed(tb testing.TB, o Options) *Bed {
	tb.Helper()
	version := os.Getenv("TAILBOX_E2E_POSTGRES")
	if version == "" {
		version = "17"
	}
	b := &Bed{tb: tb, Seed: seed(tb)}
	b.Rand = rand.New(rand.NewPCG(b.Seed, 0))
	if o.Own {
		b.PG = servers.Postgres(tb, version, o.Settings...)
	} else {
		b.PG = servers.Shared(tb, version)
	}
	b.DB = b.PG.NewDatabase(tb)
	b.name = fmt.Sprintf("%08x", rand.Uint32())
	b.Dir = b.keep()
	b.ConfigFile = filepath.Join(b.Dir, "tailbox.yaml")
	b.LogFile = filepath.Join(b.Dir, "log")
	if o.Schema == "" {
		o.Schema = Schema
	}
	for statement := range strings.SplitSeq(strings.ReplaceAll(o.Schema, "SLOT", b.Slot("truth")), ";\n") {
		if strings.TrimSpace(statement) != "" {
			b.Exec(statement)
		}
	}
	b.Configure(o)
	tb.Cleanup(b.end)
	return b
}

// keep makes the bed's directory: temporary, or kept where the environment says.
func (b *Bed) keep() string {
	root := os.Getenv("TAILBOX_E2E_KEEP")
	if root == "" {
		return b.tb.TempDir()
	}
	dir := filepath.Join(root, strings.ReplaceAll(b.tb.Name(), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.tb.Fatal(err)
	}
	return dir
}

// seed is the test's seed: the environment's, else a new one.
func seed(tb testing.TB) uint64 {
	tb.Helper()
	s := rand.Uint64()
	if text := os.Getenv("TAILBOX_E2E_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("TAILBOX_E2E_SEED: %v", err)
		}
	}
	tb.Logf("TAILBOX_E2E_SEED=%d", s)
	return s
}

// Slot is a name for a slot that no other bed of the server has.
func (b *Bed) Slot(purpose string) string { return "e2e_" + purpose + "_" + b.name }

// Configure writes the configuration file anew; a running relay has read the old one.
func (b *Bed) Configure(o Options) {
	b.tb.Helper()
	b.ConfigureAs(b.ConfigFile, o)
}

// ConfigureAs writes a configuration to another file, for a second relay of the same pipeline.
func (b *Bed) ConfigureAs(path string, o Options) {
	b.tb.Helper()
	if o.Topic == "" {
		o.Topic = "events"
	}
	if o.Tables == "" {
		o.Tables = bothTables
	}
	url := b.PG.URL(b.DB)
	if o.URL != nil {
		url = o.URL(b)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "pipeline: e2e\nsource:\n  kind: postgres\n  url: %q\n  slot: %s\n  publication: tailbox_e2e\n", url, b.Slot("relay"))
	for _, line := range o.Source {
		fmt.Fprintln(&text, "  "+line)
	}
	fmt.Fprintf(&text, "  tables:%s", strings.ReplaceAll(o.Tables, "TOPIC", o.Topic))
	top := strings.Join(o.Top, "\n")
	fmt.Fprintln(&text, top)
	if !strings.Contains("\n"+top, "\nadmin:") {
		fmt.Fprintln(&text, `admin: {listen: "off"}`)
	}
	fmt.Fprintln(&text, "sinks:\n  "+strings.Join(o.Sinks, "\n  "))
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.tb.Fatal(err)
	}
}

// end stops what is left, and shows the logs of a test that failed.
func (b *Bed) end() {
	for _, r := range b.relays {
		r.Kill()
	}
	if b.tb.Failed() {
		b.tb.Log(Tail(b.LogFile, 40))
	}
}

// Exec runs one statement as superuser.
func (b *Bed) Exec(sql string, args ...any) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.PG.Exec(ctx, b.DB, sql, args...); err != nil {
		b.tb.Fatal(err)
	}
}

// Ask runs a query that returns one value.
func Ask[T any](b *Bed, sql string, args ...any) T {
	b.tb.Helper()
	v, err := TryAsk[T](b, sql, args...)
	if err != nil {
		b.tb.Fatalf("ask %q: %v", sql, err)
	}
	return v
}

// TryAsk is Ask for a server that may be down.
func TryAsk[T any](b *Bed, sql string, args ...any) (v T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	vs, err := Rows[T](ctx, b, sql, args...)
	if err == nil && len(vs) != 1 {
		err = fmt.Errorf("%d rows, want one", len(vs))
	}
	if err == nil {
		v = vs[0]
	}
	return v, err
}

// Rows runs a query of one column on a connection of its own.
func Rows[T any](ctx context.Context, b *Bed, sql string, args ...any) ([]T, error) {
	conn, err := pgx.Connect(ctx, b.PG.SocketURL(b.DB))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// context ends with the test.
func (b *Bed) context() context.Context { return b.tb.Context() }

// Eventually polls until ask says "", which tells what is still missing; then the test fails with that.
func (b *Bed) Eventually(most time.Duration, ask func() string) {
	b.tb.Helper()
	deadline := time.After(most)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := ask()
		if missing == "" {
			return
		}
		select {
		case <-deadline:
			b.tb.Fatalf("after %v: %s", most, missing)
		case <-tick.C:
		}
	}
}

// Pause waits for d, during which the system under test works on its own: the length of a trial, not a wait for an event.
func Pause(d time.Duration) { <-time.After(d) }

// AwaitReading waits until a relay reads the log.
func (b *Bed) AwaitReading() {
	b.tb.Helper()
	b.Eventually(30*time.Second, func() string {
		active, err := TryAsk[bool](b, `SELECT active FROM pg_replication_slots WHERE slot_name = $1`, b.Slot("relay"))
		if err != nil || !active {
			return fmt.Sprintf("no relay reads from its slot (%v)", err)
		}
		return ""
	})
}

// FreeAddr is a loopback address that nobody listens on, of a port that outgoing connections do not take meanwhile.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(11000+rand.IntN(8000))))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
		return l.Addr().String()
	}
	tb.Fatal("find a free port: none of 100 was free")
	return ""
}

// Pending lists the ids of messages that are not durably settled as delivered: rows that are still pending, and parked
// deliveries. It shows what a crash at this moment may repeat. The log shows a transaction before it is visible, so it waits
// for those that are about to be, but not for ever: a frozen relay may hold one open.
func (b *Bed) Pending(ctx context.Context) ([]int64, error) {
	next, err := Rows[string](ctx, b, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		over, err := Rows[bool](ctx, b, `SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8`, next[0])
		if err != nil {
			return nil, fmt.Errorf("list pending messages: %w", err)
		}
		if over[0] {
			break
		}
		wait(ctx, 10*time.Millisecond)
	}
	const sql = `SELECT id FROM outbox UNION ALL SELECT id FROM events WHERE status <> 'delivered'
		UNION ALL SELECT message_id::bigint FROM tailbox_parked WHERE state IN ('retrying', 'waiting', 'dead')`
	ids, err := Rows[int64](ctx, b, sql)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	return ids, nil
}
