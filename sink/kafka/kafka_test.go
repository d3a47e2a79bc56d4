package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

func newSink(t testing.TB, cfg kafka.Config) *kafka.Sink {
	t.Helper()
	s, err := kafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns what a topic holds, partition by partition.
func read(t testing.TB, broker, topic string) (as []sinktest.Arrival) {
	t.Helper()
	for partition := range partitions(t, broker, topic) {
		as = append(as, readPartition(t, broker, topic, partition)...)
	}
	return as
}

func partitions(t testing.TB, broker, topic string) int {
	t.Helper()
	c, err := kafkago.Dial("tcp", broker)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found, err := c.ReadPartitions(topic)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// readPartition reads by the library's own fetch request, because its readers make no difference between nil and empty.
func readPartition(t testing.TB, broker, topic string, partition int) (as []sinktest.Arrival) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	transport := new(kafkago.Transport)
	defer transport.CloseIdleConnections()
	client := kafkago.Client{Addr: kafkago.TCP(broker), Transport: transport}
	for at := int64(0); ; {
		r, err := client.Fetch(ctx, &kafkago.FetchRequest{Topic: topic, Partition: partition, Offset: at, MinBytes: 0, MaxBytes: 8 << 20, MaxWait: time.Millisecond})
		if err == nil {
			err = r.Error
		}
		if err != nil {
			t.Fatalf("read topic %s: %v", topic, err)
		}
		for {
			record, err := r.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("read topic %s: %v", topic, err)
			}
			at = record.Offset + 1
			as = append(as, arrival(t, record))
		}
		if at >= r.HighWatermark {
			return as
		}
	}
}

func arrival(t testing.TB, r *kafkago.Record) sinktest.Arrival {
	t.Helper()
	key, keyErr := protocol.ReadAll(r.Key)
	value, valueErr := protocol.ReadAll(r.Value)
	if err := errors.Join(keyErr, valueErr); err != nil {
		t.Fatal(err)
	}
	a := sinktest.Arrival{Key: key, Value: value}
	for _, h := range r.Headers {
		a.Headers = append(a.Headers, outbox.Header{Name: h.Key, Value: h.Value})
		if h.Key == sink.HeaderID && a.ID == "" {
			a.ID = string(h.Value)
		}
	}
	return a
}

func TestKit(t *testing.T) {
	t.Parallel()
	shared := servers.SharedKafka(t)
	own := servers.Kafka(t)
	must := func(f func() error) func(testing.TB) {
		return func(t testing.TB) {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
	}
	place := func(t *testing.T, k *servers.KafkaServer) sinktest.Place {
		topic := k.NewTopic(t, 3)
		return sinktest.Place{
			Sink:  newSink(t, kafka.Config{Brokers: k.Brokers(), Topics: []string{topic}}),
			Topic: topic,
			Arrived: func(t testing.TB) []sinktest.Arrival {
				return read(t, k.Brokers()[0], topic)
			},
		}
	}
	sinktest.Run(t, sinktest.Harness{
		Big: 1_000_000,
		New: func(t *testing.T) sinktest.Place { return place(t, shared) },
		Faulty: func(t *testing.T) sinktest.Place {
			p := place(t, own)
			p.Stop, p.Start = must(own.Kill), must(own.Start)
			p.Hang = func(t testing.TB) func() {
				must(own.Pause)(t)
				return func() { must(own.Resume)(t) }
			}
			return p
		},
	})
}

func deliveries(topic, group string, from, n int) []*sink.Delivery {
	ds := make([]*sink.Delivery, n)
	for i := range ds {
		ds[i] = &sink.Delivery{
			Message: &outbox.Message{ID: fmt.Sprintf("%s-%d", group, from+i), Type: "Counted", Group: group},
			Topic:   topic, Key: []byte(group), Value: fmt.Appendf(nil, `{"n":%d}`, from+i), Attempt: 1, Source: "test",
		}
	}
	return ds
}
