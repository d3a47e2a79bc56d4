// Command rivals is go-pq-cdc with a handler that produces to Kafka, for the comparison in package bench: the library reads a slot, and the handler
// collects up to 2,000 messages or for 10 ms, produces them to all partitions at once, and acknowledges the last. The project's own connector to Kafka,
// go-pq-cdc-kafka, works in the same way. It is a module of its own, because nothing else needs the library.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	cdc "github.com/Trendyol/go-pq-cdc"
	"github.com/Trendyol/go-pq-cdc/config"
	"github.com/Trendyol/go-pq-cdc/pq/message/format"
	"github.com/Trendyol/go-pq-cdc/pq/publication"
	"github.com/Trendyol/go-pq-cdc/pq/replication"
	"github.com/Trendyol/go-pq-cdc/pq/slot"
	kafka "github.com/segmentio/kafka-go"
)

const (
	partitions = 8
	batchSize  = 2000
	batchWait  = 10 * time.Millisecond
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func run() error {
	from := flag.String("url", "", "database `URL`")
	name := flag.String("slot", "", "`NAME` of the slot")
	brokers := flag.String("brokers", "", "Kafka `LIST`")
	topic := flag.String("topic", "", "Kafka `TOPIC`")
	port := flag.Int("metrics", 0, "`PORT` of its metrics")
	flag.Parse()
	at, err := url.Parse(*from)
	if err != nil {
		return err
	}
	server, err := strconv.Atoi(at.Port())
	if err != nil {
		return err
	}
	password, given := at.User.Password()
	if !given {
		password = "none" // the library insists on one
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	p := &producer{client: &kafka.Client{Addr: kafka.TCP(strings.Split(*brokers, ",")...), Timeout: 30 * time.Second, Transport: &kafka.Transport{}},
		topic: *topic, records: map[int][]record{}}
	connector, err := cdc.NewConnector(ctx, config.Config{Host: at.Hostname(), Port: server, Username: at.User.Username(), Password: password,
		Database: strings.TrimPrefix(at.Path, "/"),
		Publication: publication.Config{Name: "bench", Operations: publication.Operations{publication.OperationInsert},
			Tables: publication.Tables{{Name: "outbox", Schema: "public", ReplicaIdentity: publication.ReplicaIdentityDefault}}},
		Slot:   slot.Config{Name: *name, SlotActivityCheckerInterval: 3000},
		Metric: config.MetricConfig{Port: *port}, Logger: config.LoggerConfig{LogLevel: slog.LevelWarn}}, p.take)
	if err != nil {
		return err
	}
	defer connector.Close()
	go p.flushInTime(ctx)
	context.AfterFunc(ctx, func() { os.Exit(0) })
	connector.Start(ctx)
	return errors.New("the connector ended")
}

// A record is what goes to Kafka.
type record struct{ key, value []byte }

// A producer collects records for its partitions. It is safe for concurrent use.
type producer struct {
	client *kafka.Client
	topic  string

	mu      sync.Mutex
	records map[int][]record
	count   int
	ack     func() error
}

func (p *producer) take(l *replication.ListenerContext) {
	insert, ok := l.Message.(*format.Insert)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		key, _ := insert.Decoded["aggregateid"].(string)
		payload, err := json.Marshal(insert.Decoded["payload"]) // the library has decoded it
		if err != nil {
			slog.Error("marshal", "error", err)
			return
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(key)) // it never fails
		n := int(h.Sum32() % partitions)
		p.records[n] = append(p.records[n], record{[]byte(key), payload})
		p.count++
	}
	p.ack = l.Ack
	if p.count >= batchSize {
		p.flush()
	}
}

func (p *producer) flushInTime(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(batchWait)
		p.mu.Lock()
		p.flush()
		p.mu.Unlock()
	}
}

// flush produces what was collected, for ever, and acknowledges it.
func (p *producer) flush() {
	if p.ack == nil {
		return
	}
	var producing sync.WaitGroup
	for n, records := range p.records {
		producing.Go(func() {
			for {
				again := make([]kafka.Record, len(records)) // an attempt reads them to the end
				for i, r := range records {
					again[i] = kafka.Record{Key: kafka.NewBytes(r.key), Value: kafka.NewBytes(r.value)}
				}
				answer, err := p.client.Produce(context.Background(), &kafka.ProduceRequest{Topic: p.topic, Partition: n, RequiredAcks: kafka.RequireAll,
					Records: kafka.NewRecordReader(again...)})
				if err == nil {
					err = answer.Error
				}
				if err == nil {
					return
				}
				slog.Error("produce", "error", err)
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	producing.Wait()
	clear(p.records)
	p.count = 0
	if err := p.ack(); err != nil {
		slog.Error("acknowledge", "error", err)
	}
	p.ack = nil
}
