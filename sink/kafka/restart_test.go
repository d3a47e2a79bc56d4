package kafka_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestOrderOverKills kills the broker twice while lanes on all partitions are delivered, as the relay does it: run by run,
// what failed again. Nothing is lost, the first arrivals of each lane are in order, and only what was in flight at a
// kill arrives twice.
func TestOrderOverKills(t *testing.T) {
	t.Parallel()
	const partitions, length, run, kills = 6, 6000, 100, 2
	k := servers.Kafka(t)
	topic := k.NewTopic(t, partitions)
	s := newSink(t, kafka.Config{Brokers: k.Brokers(), Timeout: 10 * time.Second})
	var delivered atomic.Int64
	var wg sync.WaitGroup
	for p := range int32(partitions) {
		wg.Go(func() {
			ds := deliveries(topic, fmt.Sprint("lane-", p), 0, length)
			for i := range ds {
				ds[i].Partition = &p
			}
			deadline := time.Now().Add(6 * time.Minute)
			for done := 0; done < length && time.Now().Before(deadline); {
				for _, err := range sinktest.Call(t.Context(), t, s, ds[done:min(done+run, length)]) {
					if err != nil {
						break
					}
					done++
					delivered.Add(1)
				}
			}
		})
	}
	for kill := range int64(kills) {
		sinktest.Eventually(t, "enough deliveries to kill the broker in the middle", func() bool {
			return delivered.Load() > (kill+1)*partitions*length/(kills+2)
		})
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if got := delivered.Load(); got != partitions*length {
		t.Fatalf("%d delivered, want %d", got, partitions*length)
	}
	for p := range partitions {
		next, repeats := 0, 0
		for _, a := range readPartition(t, k.Brokers()[0], topic, p) {
			var n int
			if _, err := fmt.Sscanf(string(a.Value), `{"n":%d}`, &n); err != nil {
				t.Fatalf("value %s: %v", a.Value, err)
			}
			switch {
			case n == next:
				next++
			case n > next:
				t.Fatalf("partition %d: number %d arrived before number %d", p, n, next)
			default:
				repeats++
			}
		}
		if next != length {
			t.Errorf("partition %d: %d of %d arrived", p, next, length)
		}
		if repeats > kills*run {
			t.Errorf("partition %d: %d arrived twice, want at most one run a kill", p, repeats)
		}
	}
}

// TestPermissions takes away what the relay's user may do with a topic.
func TestPermissions(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	for _, test := range []struct {
		name      string
		operation kafkago.ACLOperationType
	}{{"write", kafkago.ACLOperationTypeWrite}, {"describe", kafkago.ACLOperationTypeDescribe}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			topic, other := k.NewTopic(t, 1), k.NewTopic(t, 1)
			deny(t, k, topic, test.operation)
			s := newSink(t, kafka.Config{Brokers: k.SASLBrokers(), Topics: []string{topic, other},
				SASL: &kafka.SASL{Mechanism: "plain", Username: servers.KafkaUsername, Password: servers.KafkaPassword}})
			sinktest.Eventually(t, "the permission to be gone", func() bool { return len(s.Check(t.Context())) == 1 })
			wantClass(t, settled(t, s, deliveries(topic, "g", 0, 2))[0], sink.ClassMisconfigured, "kafka-acls.sh")
			send(t, s, deliveries(other, "g", 0, 2))
		})
	}
}

func deny(t *testing.T, k *servers.KafkaServer, topic string, operation kafkago.ACLOperationType) {
	t.Helper()
	transport := new(kafkago.Transport)
	defer transport.CloseIdleConnections()
	client := kafkago.Client{Addr: kafkago.TCP(k.Brokers()[0]), Transport: transport}
	entry := func(permission kafkago.ACLPermissionType, operation kafkago.ACLOperationType) kafkago.ACLEntry {
		return kafkago.ACLEntry{ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic, ResourcePatternType: kafkago.PatternTypeLiteral,
			Principal: "User:" + servers.KafkaUsername, Host: "*", Operation: operation, PermissionType: permission}
	}
	r, err := client.CreateACLs(t.Context(), &kafkago.CreateACLsRequest{ACLs: []kafkago.ACLEntry{
		entry(kafkago.ACLPermissionTypeAllow, kafkago.ACLOperationTypeAll), entry(kafkago.ACLPermissionTypeDeny, operation),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Errors {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	s := newSink(t, kafka.Config{Brokers: append(k.Brokers(), "127.0.0.1:1"), Topics: []string{topic, "missing", "two words"}})
	problems := s.Check(t.Context())
	if len(problems) != 3 {
		t.Fatalf("problems: %v, want three", problems)
	}
	for i, says := range []string{"127.0.0.1:1", "missing does not exist", "two words"} {
		found := false
		for _, p := range problems {
			found = found || strings.Contains(p.Error(), says)
		}
		if !found {
			t.Errorf("no problem %d says %q: %v", i, says, problems)
		}
	}
}

// A listener that can be reached, of a broker that tells clients to go where nobody listens.
func TestCheckAdvertised(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	brokers, advertised := k.MisadvertisedBrokers(t)
	s := newSink(t, kafka.Config{Brokers: brokers, Topics: []string{topic}, ConnectTimeout: 5 * time.Second})
	problems := s.Check(t.Context())
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), advertised) || !strings.Contains(problems[0].Error(), "advertised.listeners") {
		t.Errorf("problems: %v, want one with %s", problems, advertised)
	}
}
