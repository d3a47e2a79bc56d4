package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// debeziumProperties configure Debezium Server for throughput: batches and queue four times as large as by default, no schemas, bytes of the column as
// they are, and polling without a pause. The JVM gets a heap of 512 MiB and its default collector.
const debeziumProperties = `quarkus.http.port=0
quarkus.log.level=WARN
quarkus.log.console.stderr=true
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.offset.storage.file.filename=offsets.dat
debezium.source.offset.flush.interval.ms=1000
debezium.source.database.hostname=%s
debezium.source.database.port=%s
debezium.source.database.user=%s
debezium.source.database.password=%s
debezium.source.database.dbname=%s
debezium.source.topic.prefix=rival
debezium.source.table.include.list=public.outbox
debezium.source.plugin.name=pgoutput
debezium.source.slot.name=%s
debezium.source.publication.name=bench
debezium.source.publication.autocreate.mode=disabled
debezium.source.snapshot.mode=no_data
debezium.source.tombstones.on.delete=false
debezium.source.max.batch.size=8192
debezium.source.max.queue.size=32768
debezium.source.poll.interval.ms=1
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.route.topic.replacement=%s
debezium.format.key=simplestring
debezium.format.value=simplestring
debezium.format.header.schemas.enable=false
`

const debeziumToKafka = `debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=%s
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.linger.ms=0
debezium.sink.kafka.producer.batch.size=262144
debezium.sink.kafka.producer.max.request.size=8388608
`

const debeziumToHTTP = `debezium.sink.type=http
debezium.sink.http.url=%s
`

// debeziumContender starts Debezium Server once and lets it send one row, so that it has stored where it stands.
func debeziumContender(ctx context.Context, db *base, to destination) (_ *contender, err error) {
	home, err := servers.DebeziumServer()
	if err != nil {
		return nil, err
	}
	db.count++
	slot := fmt.Sprintf("debezium_%d", db.count)
	dir := filepath.Join(db.dir, slot)
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		return nil, err
	}
	at, err := url.Parse(db.url(true))
	if err != nil {
		return nil, err
	}
	password, _ := at.User.Password()
	text := fmt.Sprintf(debeziumProperties, at.Hostname(), at.Port(), at.User.Username(), password, db.name, slot, to.topic)
	if to.url == "" {
		text += fmt.Sprintf(debeziumToKafka, strings.Join(db.kafka.Brokers(), ","))
	} else {
		text += fmt.Sprintf(debeziumToHTTP, to.url)
	}
	if err := os.WriteFile(filepath.Join(dir, "config", "application.properties"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := db.publish(ctx); err != nil {
		return nil, err
	}
	runner, err := filepath.Glob(filepath.Join(home, "debezium-server-*runner.jar"))
	if err != nil || len(runner) != 1 {
		return nil, errors.Join(fmt.Errorf("find Debezium Server's runner in %s: %q", home, runner), err)
	}
	c := &contender{log: filepath.Join(dir, "log"), reached: db.slotReached(slot), cmd: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(home, "java", "bin", "java"), "-Xms512m", "-Xmx512m", "-cp", runner[0]+":"+filepath.Join(home, "lib")+"/*", "io.debezium.server.Main")
		cmd.Dir = dir
		return cmd
	}}
	p, err := launch(c.cmd(ctx), c.log, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.stop() }()
	deadline := time.After(2 * time.Minute)
	const first = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('first', '0', 'First', '{}')"
	const active = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active)"
	if err := db.poll(ctx, p, deadline, active, slot); err != nil {
		return nil, fmt.Errorf("start Debezium Server: %w: %s", err, lastLine(c.log))
	}
	if err := db.exec(ctx, first); err != nil {
		return nil, err
	}
	var end string
	if err := db.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&end); err != nil {
		return nil, err
	}
	const passed = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND confirmed_flush_lsn >= $2::pg_lsn)"
	for { // it confirms only what a later row stands behind
		err := db.poll(ctx, p, time.After(2*time.Second), passed, slot, end)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errNotYet) {
			return nil, fmt.Errorf("let Debezium Server send a row: %w: %s", err, lastLine(c.log))
		}
		select {
		case <-deadline:
			return nil, fmt.Errorf("let Debezium Server send a row: %w: %s", err, lastLine(c.log))
		default:
		}
		if err := db.exec(ctx, first); err != nil {
			return nil, err
		}
	}
}

var errNotYet = errors.New("it does not come to that")

// poll waits until a query answers true, while a process runs.
func (db *base) poll(ctx context.Context, p *process, deadline <-chan time.Time, query string, args ...any) error {
	for {
		var yes bool
		if err := db.conn.QueryRow(ctx, query, args...).Scan(&yes); err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return errEndedEarly
		case <-deadline:
			return errNotYet
		case <-time.After(20 * time.Millisecond):
		}
	}
}
