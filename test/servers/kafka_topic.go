package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// sharedKafka is started once a process; see shared.
//
//nolint:gochecknoglobals // one server a process
var sharedKafka = sync.OnceValues(func() (*KafkaServer, error) {
	if text := os.Getenv("TAILBOX_TEST_KAFKA_BROKERS"); text != "" {
		k := &KafkaServer{external: strings.Split(text, ",")}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := k.answers(ctx); err != nil {
			return nil, fmt.Errorf("connect to TAILBOX_TEST_KAFKA_BROKERS: %w", err)
		}
		return k, nil
	}
	k, err := StartKafka()
	if err != nil {
		return nil, err
	}
	atEnd(k.Close)
	return k, nil
})

// SharedKafka returns the broker that all tests of this process use. Stop it or
// start it anew in no test: use [Kafka] for that. With
// TAILBOX_TEST_KAFKA_BROKERS (comma-separated) it is that broker.
func SharedKafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	k, err := sharedKafka()
	if err != nil {
		unavailable(tb, err)
	}
	return k
}

// NewTopic creates a topic of a name that nobody else has, and returns the name.
func (k *KafkaServer) NewTopic(tb testing.TB, partitions int) string {
	tb.Helper()
	name := strings.TrimPrefix(databaseName(tb.Name()), "t_")
	if err := k.CreateTopic(name, partitions, nil); err != nil {
		tb.Fatal(err)
	}
	return name
}

// CreateTopic creates a topic with Kafka's own per-topic settings (such as
// "max.message.bytes") and waits until each partition has a leader.
func (k *KafkaServer) CreateTopic(name string, partitions int, configs map[string]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	topic := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: max(1, k.replicas)}
	for key, value := range configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: key, ConfigValue: value})
	}
	// A transport of our own: the default one would keep its connections, and
	// its idea of the topics, beyond this call.
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(k.Brokers()...), Timeout: 20 * time.Second, Transport: transport}
	answer, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err == nil {
		err = answer.Errors[name]
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := k.leaders(ctx, name, partitions)
		if err == nil && found == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("create topic %s: %d of %d partitions have a leader after 30 s: %w",
				name, found, partitions, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// leaders counts the partitions of a topic whose leader answers. A broker lists itself as the leader before it takes messages.
func (k *KafkaServer) leaders(ctx context.Context, topic string, partitions int) (found int, err error) {
	transport := &kafka.Transport{} // that of another call may remember that nobody leads
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(k.Brokers()...), Timeout: 20 * time.Second, Transport: transport}
	var asked []kafka.OffsetRequest
	for p := range partitions {
		asked = append(asked, kafka.LastOffsetOf(p))
	}
	answer, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return 0, err
	}
	for _, p := range answer.Topics[topic] {
		if p.Error == nil {
			found++
		}
	}
	return found, nil
}
