package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/test/servers"
)

// A Keeper notes what came to a topic or a stream. [Ledger] is one.
type Keeper interface {
	Deliver(hidden bool, ds ...Delivery)
	Broke(kind, format string, args ...any)
}

// A Topic reads all partitions of a Kafka topic into a ledger, in each partition's order, from the broker itself: proxies
// stand between relay and broker only. The broker may go away and come back.
type Topic struct {
	Name   string
	Ledger *Ledger // nil if another keeper notes what comes

	keeper     Keeper
	broker     *servers.KafkaServer
	partitions int
	client     *kafka.Client
	tb         testing.TB

	mu   sync.Mutex
	next []int64 // by partition
}

// NewTopic makes a topic and reads it until the test ends.
func NewTopic(tb testing.TB, broker *servers.KafkaServer, partitions int, ledger *Ledger) *Topic {
	tb.Helper()
	return NewTopicWith(tb, broker, partitions, ledger, nil)
}

// NewTopicWith makes a topic with settings of its own.
func NewTopicWith(tb testing.TB, broker *servers.KafkaServer, partitions int, ledger *Ledger, settings map[string]string) *Topic {
	tb.Helper()
	t := ReadTopic(tb, broker, partitions, ledger, settings)
	t.Ledger = ledger
	return t
}

// ReadTopic makes a topic, and lets a keeper note what comes until the test ends.
func ReadTopic(tb testing.TB, broker *servers.KafkaServer, partitions int, keeper Keeper, settings map[string]string) *Topic {
	tb.Helper()
	name := fmt.Sprintf("e2e-%08x", rand.Uint32())
	if err := broker.CreateTopic(name, partitions, settings); err != nil {
		tb.Fatal(err)
	}
	transport := &kafka.Transport{DialTimeout: 2 * time.Second}
	t := &Topic{Name: name, keeper: keeper, broker: broker, partitions: partitions, tb: tb,
		client: &kafka.Client{Addr: kafka.TCP(broker.Brokers()...), Timeout: 5 * time.Second, Transport: transport},
		next:   make([]int64, partitions)}
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for p := range partitions {
		readers.Go(func() { t.follow(ctx, p) })
	}
	tb.Cleanup(func() {
		stop()
		readers.Wait()
		transport.CloseIdleConnections()
	})
	return t
}

// follow reads one partition until ctx ends.
func (t *Topic) follow(ctx context.Context, partition int) {
	for ctx.Err() == nil {
		if err := t.fetch(ctx, partition); err != nil {
			wait(ctx, 50*time.Millisecond)
		}
	}
}

// fetch reads a piece.
func (t *Topic) fetch(ctx context.Context, partition int) error {
	answer, err := t.client.Fetch(ctx, &kafka.FetchRequest{Topic: t.Name, Partition: partition, Offset: t.next[partition],
		MinBytes: 1, MaxBytes: 4 << 20, MaxWait: 100 * time.Millisecond})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		return err
	}
	for {
		record, err := answer.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if record.Offset < t.next[partition] {
			continue // a batch is sent whole
		}
		d, err := parseRecord(record)
		t.mu.Lock()
		if err != nil {
			t.keeper.Broke("changed", "record %d of partition %d: %v", record.Offset, partition, err)
		} else {
			t.keeper.Deliver(false, d)
		}
		t.next[partition] = record.Offset + 1
		t.mu.Unlock()
	}
}

func parseRecord(r *kafka.Record) (Delivery, error) {
	var d Delivery
	for _, h := range r.Headers {
		switch h.Key {
		case "id":
			d.ID = string(h.Value)
		case "tailbox-replaces":
			d.Replaces = string(h.Value)
		case "tailbox-group":
			d.Group = string(h.Value)
		case "tailbox-position":
			d.Position = string(h.Value)
		case "tailbox-attempt":
			n, err := strconv.Atoi(string(h.Value))
			if err != nil {
				return d, fmt.Errorf("header tailbox-attempt: %w", err)
			}
			d.Attempt = n
		}
	}
	var err error
	d.Payload, err = kafka.ReadAll(r.Value)
	return d, err
}

// CatchUp waits until everything that is in the topic now is in the ledger.
func (t *Topic) CatchUp() {
	t.tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		missing, err := t.missing()
		if missing == 0 && err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.tb.Fatalf("read topic %s: %d records are missing: %v", t.Name, missing, err)
		}
		wait(context.Background(), 20*time.Millisecond)
	}
}

// missing counts records that are in the topic and not in the ledger.
func (t *Topic) missing() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var asks []kafka.OffsetRequest
	for p := range t.partitions {
		asks = append(asks, kafka.LastOffsetOf(p))
	}
	answer, err := t.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{t.Name: asks}})
	if err != nil {
		return 0, err
	}
	var missing int64
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range answer.Topics[t.Name] {
		if p.Error != nil {
			return 0, p.Error
		}
		missing += max(0, p.LastOffset-t.next[p.Partition])
	}
	return missing, nil
}
