package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	kafka "github.com/segmentio/kafka-go"
)

const (
	pollBatch = 1000
	pollPause = 50 * time.Millisecond
)

// pollContender is what many services have in place of a relay: a loop that takes the oldest rows with FOR UPDATE SKIP LOCKED, produces them, deletes
// them, and commits. The table has a column for their order.
func pollContender(ctx context.Context, db *base, to destination) (*contender, error) {
	if err := db.exec(ctx, "ALTER TABLE outbox ADD COLUMN seq bigserial; CREATE INDEX ON outbox (seq)"); err != nil {
		return nil, err
	}
	var last int64
	return &contender{log: filepath.Join(db.dir, db.name+"-poller.log"), cmd: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, db.self, "poller", "-url", db.url(true), "-brokers", strings.Join(db.kafka.Brokers(), ","), "-topic", to.topic)
	}, reached: func(ctx context.Context) (active, done bool, err error) {
		if last == 0 { // the fill is over when this is first asked
			if err := db.conn.QueryRow(ctx, "SELECT max(seq) FROM outbox").Scan(&last); err != nil {
				return false, false, err
			}
		}
		err = db.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'poller' AND datname = $1), NOT EXISTS (SELECT FROM outbox WHERE seq = $2)",
			db.name, last).Scan(&active, &done)
		return active, done, err
	}}, nil
}

// poller is the poller's process.
func poller(args []string) error {
	set := flag.NewFlagSet("poller", flag.ContinueOnError)
	url := set.String("url", "", "database `URL`")
	brokers := set.String("brokers", "", "Kafka `LIST`")
	topic := set.String("topic", "", "Kafka `TOPIC`")
	if err := set.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	config, err := pgx.ParseConfig(*url)
	if err != nil {
		return err
	}
	config.RuntimeParams["application_name"] = "poller"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	client := &kafka.Client{Addr: kafka.TCP(strings.Split(*brokers, ",")...), Timeout: 30 * time.Second, Transport: &kafka.Transport{}}
	for ctx.Err() == nil {
		n, err := pollOnce(ctx, conn, client, *topic)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "poll:", err)
		}
		if n < pollBatch {
			select {
			case <-ctx.Done():
			case <-time.After(pollPause):
			}
		}
	}
	return nil
}

// pollOnce takes a batch, and returns how many rows it had.
func pollOnce(ctx context.Context, conn *pgx.Conn, client *kafka.Client, topic string) (n int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback(context.WithoutCancel(ctx)) // the first error is told
		}
	}()
	rows, err := tx.Query(ctx, "SELECT seq, aggregateid, payload::text FROM outbox ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED", pollBatch)
	if err != nil {
		return 0, err
	}
	var seqs []int64
	records := map[int][]kafka.Record{}
	var seq int64
	var key, payload []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &key, &payload}, func() error {
		seqs = append(seqs, seq)
		p := partitionOf(key)
		records[p] = append(records[p], kafka.Record{Key: kafka.NewBytes(append([]byte(nil), key...)), Value: kafka.NewBytes(append([]byte(nil), payload...))})
		return nil
	})
	if err != nil || len(seqs) == 0 {
		return 0, errors.Join(err, tx.Commit(ctx))
	}
	if err := produceAll(ctx, client, topic, records); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM outbox WHERE seq = ANY($1)", seqs); err != nil {
		return 0, err
	}
	return len(seqs), tx.Commit(ctx)
}

// produceAll produces to several partitions at once.
func produceAll(ctx context.Context, client *kafka.Client, topic string, records map[int][]kafka.Record) error {
	var mu sync.Mutex
	var all error
	var producing sync.WaitGroup
	for p, rs := range records {
		producing.Go(func() {
			answer, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, Partition: p, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(rs...)})
			if err == nil {
				err = answer.Error
			}
			mu.Lock()
			defer mu.Unlock()
			all = errors.Join(all, err)
		})
	}
	producing.Wait()
	return all
}
