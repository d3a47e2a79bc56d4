package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/servers"
)

// bench is what the scenarios share.
type bench struct {
	flags
	dir  string
	self string // this program, for bare readers
	// Servers are nil until they are needed.
	pg      *servers.PG
	kafka   *servers.KafkaServer
	warm    bool // kafka has run before
	servers map[string]server
	table   table
	relays  bool // no bare readers
	count   int  // of databases
	// part is the contest that a scenario is to run alone, of parts, if two versions are compared.
	part, parts int
}

func newBench(o flags) (*bench, error) {
	for name, file := range map[string]*string{"binary": &o.binary, "before": &o.before} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("find the relay: %w: run make build, or name it with -%s", err, name)
		}
		*file = path
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tailbox-bench-")
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d processors, %d rounds, %d rows in transactions of %d\n", runtime.NumCPU(), o.rounds, o.rows, perTxn)
	return &bench{flags: o, dir: dir, self: self, servers: map[string]server{}, relays: o.before != ""}, nil
}

func (b *bench) close() (err error) {
	for _, s := range b.servers {
		err = errors.Join(err, s.close())
	}
	if b.pg != nil {
		err = errors.Join(err, b.pg.Close())
	}
	if b.kafka != nil {
		err = errors.Join(err, b.kafka.Close())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// postgresServer starts Postgres when it is first needed.
func (b *bench) postgresServer() error {
	if b.pg == nil {
		pg, err := servers.StartPostgres(b.postgres, servers.WithSetting("max_wal_size", "16GB"),
			servers.WithSetting("shared_buffers", "256MB"), servers.WithSetting("autovacuum", "off"))
		if err != nil {
			return err
		}
		fmt.Printf("Postgres %s\n", b.postgres)
		b.pg = pg
	}
	return nil
}

// brokerJVM is the collector of Kafka's own start script, with a heap of 4 GiB instead of 1, as brokers in production have, and a young generation that is
// large and has all its pages from the start. The collector itself would choose one of 200 MB for its aim of 20 ms. Then it stops the broker every three
// seconds, for 15 to 25 ms: that is the slow hundredth of all deliveries, whoever sends. A page that the broker touches for the first time costs it time, too.
func brokerJVM() []string {
	return []string{"-Xms4g", "-Xmx4g", "-Xmn3g", "-XX:+AlwaysPreTouch", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExplicitGCInvokesConcurrent"}
}

// broker starts Kafka when it is first needed.
func (b *bench) broker() (*servers.KafkaServer, error) {
	if b.kafka == nil {
		k, err := servers.StartKafka(servers.WithKafkaJVM(brokerJVM()...))
		if err != nil {
			return nil, err
		}
		b.kafka = k
	}
	return b.kafka, nil
}

// topic makes a topic and returns its name.
func (b *bench) topic(partitions int) (string, error) {
	k, err := b.broker()
	if err != nil {
		return "", err
	}
	b.count++
	name := fmt.Sprintf("bench-%d", b.count)
	return name, k.CreateTopic(name, partitions, nil)
}

// base is a database with one outbox table.
type base struct {
	*bench
	name  string
	conn  *pgx.Conn
	table string
	end   string // LSN of the backlog's end
	token string // of the API; "" without one
}

// newBase makes a database. Its outbox table is made by the first relay's init.
func (b *bench) newBase(ctx context.Context) (*base, error) {
	if err := b.postgresServer(); err != nil {
		return nil, err
	}
	b.count++
	db := &base{bench: b, name: fmt.Sprintf("bench_%d", b.count), table: "outbox", end: "0/0"}
	if err := b.pg.Exec(ctx, "postgres", "CREATE DATABASE "+db.name); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, b.pg.SocketURL(db.name))
	if err != nil {
		return nil, err
	}
	db.conn = conn
	return db, nil
}

// drop removes the database and its slots.
func (db *base) drop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	deadline := time.Now().Add(30 * time.Second)
	for {
		var left int
		_, err := db.conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1 AND NOT active`, db.name)
		if err == nil {
			err = db.conn.QueryRow(ctx, `SELECT count(*) FROM pg_replication_slots WHERE database = $1`, db.name).Scan(&left)
		}
		if err != nil || time.Now().After(deadline) {
			return fmt.Errorf("drop slots, of which %d are left: %w", left, err)
		}
		if left == 0 {
			break
		}
		pause(20 * time.Millisecond)
	}
	if err := db.conn.Close(ctx); err != nil {
		return err
	}
	return errors.Join(db.pg.Exec(ctx, "postgres", "DROP DATABASE "+db.name+" WITH (FORCE)"), db.pg.Exec(ctx, "postgres", "CHECKPOINT"))
}

func (db *base) exec(ctx context.Context, sql string, args ...any) error {
	if _, err := db.conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("execute %.60q: %w", sql, err)
	}
	return nil
}

const (
	perTxn = 10
	spread = 1000 // groups
)

// fill writes rows in transactions of perTxn, of about 200 bytes of payload each, in so many groups.
func (db *base) fill(ctx context.Context, rows, perTxn, groups int) error {
	columns, values := "aggregatetype, aggregateid, type, payload", "'order', (%[1]s)::text, 'OrderPlaced', %[2]s"
	payload := `jsonb_build_object('customer', %[1]s, 'note', repeat('x', 170))`
	if db.table == "events" {
		columns, values = "type, topic, message_group, key, payload", "'OrderPlaced', 'order', 'order:' || (%[1]s), (%[1]s)::text, convert_to((%[2]s)::text, 'UTF8')"
	}
	group := fmt.Sprintf("(n * %d + i) %% %d", perTxn, groups)
	sql := fmt.Sprintf(`DO $$ BEGIN FOR n IN 0..%d LOOP
		INSERT INTO %s (%s) SELECT %s FROM generate_series(0, %d) AS i; COMMIT; END LOOP; END $$`, rows/perTxn-1, db.table, columns,
		fmt.Sprintf(values, group, fmt.Sprintf(payload, "n")), perTxn-1)
	if err := db.exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	if err := db.exec(ctx, sql); err != nil {
		return err
	}
	if err := db.exec(ctx, "RESET synchronous_commit"); err != nil {
		return err
	}
	if err := db.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&db.end); err != nil {
		return err
	}
	// One row beyond what is called the end: whoever has it may confirm the end. It also flushes everything.
	last := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s", db.table, columns, fmt.Sprintf(values, "0", fmt.Sprintf(payload, "0")))
	if err := db.exec(ctx, last); err != nil {
		return err
	}
	return db.exec(ctx, "CHECKPOINT")
}

// reached reports whether a slot is confirmed up to the backlog's end, and whether somebody reads from it.
func (db *base) reached(ctx context.Context, slot string) (active, done bool, err error) {
	err = db.conn.QueryRow(ctx, `SELECT active, confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1`,
		slot, db.end).Scan(&active, &done)
	return active, done, err
}

// url is the database's address: over TCP, or the Unix socket.
func (db *base) url(tcp bool) string {
	if tcp {
		return db.pg.URL(db.name)
	}
	return db.pg.SocketURL(db.name)
}

func pause(d time.Duration) { <-time.After(d) }

func network(tcp bool) string {
	if tcp {
		return "TCP"
	}
	return "Unix"
}

func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
