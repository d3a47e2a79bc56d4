package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/servers"
)

// SchemaPostgres is the two outbox tables of a bed, and what the truth is read from. Both tables take their ids from one
// sequence, so that an id names a message. Rows of outbox are deleted when they are delivered, rows of events are marked.
const SchemaPostgres = `
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

// postgres is a database of Postgres.
type postgres struct{ *Bed }

func newPostgres(b *Bed, o *Options) postgres {
	version := os.Getenv("TAILBOX_E2E_POSTGRES")
	if version == "" {
		version = "17"
	}
	if o.Own {
		b.PG = servers.Postgres(b.tb, version, o.Settings...)
	} else {
		b.PG = servers.Shared(b.tb, version)
	}
	b.DB = b.PG.NewDatabase(b.tb)
	schema := o.Schema
	if schema == "" {
		schema = SchemaPostgres
	}
	for statement := range strings.SplitSeq(strings.ReplaceAll(schema, "SLOT", b.Slot("truth")), ";\n") {
		if strings.TrimSpace(statement) != "" {
			b.Exec(statement)
		}
	}
	return postgres{b}
}

func (p postgres) url() string { return p.PG.URL(p.DB) }

func (p postgres) source() []string {
	return []string{"slot: " + p.Slot("relay"), "publication: tailbox_e2e"}
}

func (p postgres) kill() error  { return p.PG.Kill() }
func (p postgres) start() error { return p.PG.Start() }

// away: a server that is going down or coming up says so in a class of its own.
func (p postgres) away(err error) bool { return strings.Contains(err.Error(), "SQLSTATE 57P") }

func (p postgres) pending(ctx context.Context) ([]int64, error) {
	next, err := Rows[string](ctx, p.Bed, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		over, err := Rows[bool](ctx, p.Bed, `SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8`, next[0])
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
	ids, err := Rows[int64](ctx, p.Bed, sql)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	return ids, nil
}

func (p postgres) unsettled(ctx context.Context) ([]string, error) {
	return Rows[string](ctx, p.Bed, `
		SELECT count(*) || ' rows in outbox' FROM outbox HAVING count(*) > 0
		UNION ALL SELECT count(*) || ' rows of events are ' || status FROM events WHERE status <> 'delivered' GROUP BY status
		UNION ALL SELECT count(*) || ' deliveries are ' || state || coalesce(': ' || min(last_error), '') FROM tailbox_parked GROUP BY state`)
}

func (p postgres) confirmedEarly(context.Context) (string, error) {
	return TryAsk[string](p.Bed, `SELECT CASE WHEN s.confirmed_flush_lsn > c.resume::pg_lsn
		THEN 'the slot is confirmed up to ' || s.confirmed_flush_lsn || ', the checkpoint is ' || c.resume ELSE '' END
		FROM pg_replication_slots s, tailbox_checkpoint c WHERE s.slot_name = $1`, p.Slot("relay"))
}

// HeldWAL is how much log the relay's slot keeps from being discarded beyond what it has confirmed, in bytes.
func (b *Bed) HeldWAL() int64 {
	b.tb.Helper()
	return Ask[int64](b, `SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1`,
		b.Slot("relay"))
}

// AwaitReading waits until a relay reads the log. A slot is active while it is made, too.
func (b *Bed) AwaitReading() {
	b.tb.Helper()
	b.Eventually(30*time.Second, func() string {
		active, err := TryAsk[bool](b, `SELECT EXISTS (SELECT FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
			WHERE s.slot_name = $1 AND r.state IN ('catchup', 'streaming'))`, b.Slot("relay"))
		if err != nil || !active {
			return fmt.Sprintf("no relay reads from its slot (%v)", err)
		}
		return ""
	})
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

// writer implements database.
func (p postgres) writer(ctx context.Context, prepare string) (writer, error) {
	conn, err := pgx.Connect(ctx, p.PG.SocketURL(p.DB))
	if err != nil {
		return nil, err
	}
	if prepare != "" {
		if _, err := conn.Exec(ctx, prepare); err != nil {
			return nil, fmt.Errorf("%s: %w", prepare, err)
		}
	}
	return &postgresWriter{conn: conn}, nil
}

type postgresWriter struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

func (w *postgresWriter) broken() bool { return w.conn.IsClosed() }

func (w *postgresWriter) close() { _ = w.conn.Close(context.Background()) } // whatever state it is in

func (w *postgresWriter) ids(ctx context.Context, n int) ([]int64, error) {
	got, err := w.conn.Query(ctx, `SELECT nextval('message_id') FROM generate_series(1, $1)`, n)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows(make([]int64, 0, n), got, pgx.RowTo[int64])
}

func (w *postgresWriter) begin(ctx context.Context, _ bool) (err error) {
	w.tx, err = w.conn.Begin(ctx)
	return err
}

func (w *postgresWriter) commit(ctx context.Context) error   { return w.tx.Commit(ctx) }
func (w *postgresWriter) rollback(ctx context.Context) error { return w.tx.Rollback(ctx) }

func (w *postgresWriter) insert(ctx context.Context, table string, rows []written) error {
	ids, keys, groups, payloads := make([]int64, len(rows)), make([]string, len(rows)), make([]*string, len(rows)), make([]string, len(rows))
	for i := range rows {
		r := &rows[i]
		ids[i], keys[i], payloads[i] = r.id, r.key, string(r.payload)
		if r.group != "" {
			groups[i] = &r.group
		}
	}
	var err error
	if table == "events" {
		_, err = w.tx.Exec(ctx, `INSERT INTO events (id, type, topic, message_group, key, payload)
			SELECT id, 'Changed', $5, g, k, convert_to(p, 'UTF8')
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS u(id, g, k, p)`, ids, groups, keys, payloads, rows[0].topic)
	} else {
		_, err = w.tx.Exec(ctx, `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
			SELECT id, 'order', k, 'Placed', p::jsonb FROM unnest($1::bigint[], $2::text[], $3::text[]) AS u(id, k, p)`,
			ids, keys, payloads)
	}
	return err
}

func (w *postgresWriter) remove(ctx context.Context, ids []int64) error {
	_, err := w.tx.Exec(ctx, `DELETE FROM outbox WHERE id = ANY($1)`, ids)
	return err
}
