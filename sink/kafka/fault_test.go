package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// send delivers ds within limits, and fails the test if one fails.
func send(t *testing.T, s sink.Sink, ds []*sink.Delivery) {
	t.Helper()
	for d, err := range sinktest.Send(t.Context(), t, s, ds) {
		t.Fatalf("deliver %s: %v", d.Message.ID, err)
	}
}

// settled calls Deliver until it is known what becomes of the topic, and returns the answers of the first call that tried.
func settled(t *testing.T, s *kafka.Sink, ds []*sink.Delivery) (answers []error) {
	t.Helper()
	sinktest.Eventually(t, "an attempt", func() bool {
		answers = sinktest.Call(t.Context(), t, s, ds)
		class, _, _ := sink.Classify(answers[0])
		return answers[0] == nil || class != sink.ClassNotAttempted
	})
	return answers
}

func wantClass(t *testing.T, err error, want sink.Class, says string) {
	t.Helper()
	if err == nil {
		t.Fatalf("delivered, want %v", want)
	}
	if class, _, _ := sink.Classify(err); class != want || !strings.Contains(err.Error(), says) {
		t.Errorf("%v: %v, want %v, with %q", class, err, want, says)
	}
}

func ids(as []sinktest.Arrival) string {
	names := make([]string, len(as))
	for i := range as {
		names[i] = as[i].ID
	}
	return strings.Join(names, " ")
}

func TestCompression(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	for _, name := range []string{"gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := k.NewTopic(t, 1)
			s := newSink(t, kafka.Config{Brokers: k.Brokers(), Compression: name})
			ds := deliveries(topic, "g", 0, 3000)
			for range 2 {
				send(t, s, ds)
			}
			got := read(t, k.Brokers()[0], topic)
			if len(got) != 6000 {
				t.Fatalf("%d messages, want 6000", len(got))
			}
			for i, a := range got {
				if d := ds[i%3000]; a.ID != d.Message.ID || !bytes.Equal(a.Value, d.Value) {
					t.Fatalf("message %d is %s %s, want %s %s", i, a.ID, a.Value, d.Message.ID, d.Value)
				}
			}
		})
	}
}

func TestTimestampsAndPlacement(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 4)
	s := newSink(t, kafka.Config{Brokers: k.Brokers(), OmitMetadata: true})
	placed := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	committed := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	ds := deliveries(topic, "", 0, 3)
	partition := int32(3)
	for i := range ds {
		ds[i].Partition = &partition
		ds[i].Message.CommitTime = committed
	}
	ds[1].Timestamp = placed
	ds[2].Message.CommitTime = time.Time{}
	start := time.Now().Truncate(time.Millisecond)
	send(t, s, ds)

	c, err := kafkago.DialLeader(t.Context(), "tcp", k.Brokers()[0], topic, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got []kafkago.Message
	for range ds {
		m, err := c.ReadMessage(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Headers) != 1 || m.Headers[0].Key != "id" {
			t.Errorf("headers without metadata: %v", m.Headers)
		}
		got = append(got, m)
	}
	if !got[0].Time.Equal(committed) || !got[1].Time.Equal(placed) || got[2].Time.Before(start) || got[2].Time.After(time.Now()) {
		t.Errorf("times %v, %v, %v; want commit %v, placed %v, now", got[0].Time, got[1].Time, got[2].Time, committed, placed)
	}
}

func TestImpossiblePlacement(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 2)
	s := newSink(t, kafka.Config{Brokers: k.Brokers()})
	for _, partition := range []int32{-5, -1, 2, 1 << 30} {
		ds := deliveries(topic, "g", 0, 1)
		ds[0].Partition = &partition
		for range 2 {
			wantClass(t, sinktest.Call(t.Context(), t, s, ds)[0], sink.ClassPermanent, fmt.Sprintf("no partition %d", partition))
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	good := k.NewTopic(t, 1)
	s := newSink(t, kafka.Config{Brokers: k.Brokers()})
	wantClass(t, settled(t, s, deliveries("no-such-topic", "g", 0, 2))[1], sink.ClassMisconfigured, "kafka-topics.sh --create --topic no-such-topic")
	for _, name := range []string{"", ".", "two words", "é", strings.Repeat("x", 250), strings.Repeat("x", 70_000)} {
		wantClass(t, settled(t, s, deliveries(name, "g", 0, 1))[0], sink.ClassPermanent, "249 letters")
	}
	send(t, s, deliveries(good, "g", 0, 1))

	// What was missing is found as soon as it is there.
	name := good + "-later"
	wantClass(t, settled(t, s, deliveries(name, "g", 0, 1))[0], sink.ClassMisconfigured, "does not exist")
	if err := k.CreateTopic(name, 1, nil); err != nil {
		t.Fatal(err)
	}
	send(t, s, deliveries(name, "g", 0, 1))

	// And what was there and is removed is misconfigured again, not lost.
	remove(t, k, name)
	sinktest.Eventually(t, "the removed topic to be misconfigured", func() bool {
		answers := sinktest.Call(t.Context(), t, s, deliveries(name, "g", 1, 1))
		class, _, _ := sink.Classify(answers[0])
		return class == sink.ClassMisconfigured
	})
	if err := k.CreateTopic(name, 1, nil); err != nil {
		t.Fatal(err)
	}
	send(t, s, deliveries(name, "g", 2, 1))
	if got := ids(read(t, k.Brokers()[0], name)); got != "g-2" {
		t.Errorf("the new topic holds %s", got)
	}
}

func remove(t *testing.T, k *servers.KafkaServer, topic string) {
	t.Helper()
	transport := new(kafkago.Transport)
	defer transport.CloseIdleConnections()
	client := kafkago.Client{Addr: kafkago.TCP(k.Brokers()[0]), Transport: transport}
	r, err := client.DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil || r.Errors[topic] != nil {
		t.Fatal(err, r.Errors)
	}
}

func TestPartitionGrowth(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	s := newSink(t, kafka.Config{Brokers: k.Brokers(), MetadataAge: time.Millisecond})
	var first []*sink.Delivery
	for g := range 20 {
		first = append(first, deliveries(topic, fmt.Sprint("g", g), 0, 1)...)
	}
	send(t, s, first)
	transport := new(kafkago.Transport)
	defer transport.CloseIdleConnections()
	client := kafkago.Client{Addr: kafkago.TCP(k.Brokers()[0]), Transport: transport}
	if _, err := client.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 8}}}); err != nil {
		t.Fatal(err)
	}
	used := make(map[int32]bool)
	sinktest.Eventually(t, "the new partitions to be used", func() bool {
		var ds []*sink.Delivery
		for g := range 20 {
			ds = append(ds, deliveries(topic, fmt.Sprint("g", g), 1, 1)...)
		}
		send(t, s, ds)
		for _, d := range ds {
			used[d.Destination.Partition] = true
		}
		return len(used) > 3
	})
}

// TestPartitionLoss makes a topic anew with fewer partitions, behind the back of a call that is for one that is gone.
func TestPartitionLoss(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1) + "-anew"
	if err := k.CreateTopic(topic, 8, nil); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, kafka.Config{Brokers: k.Brokers(), MetadataAge: time.Millisecond})
	last := int32(7)
	free, placed := deliveries(topic, "free", 0, 1)[0], deliveries(topic, "placed", 0, 1)[0]
	placed.Partition = &last
	send(t, s, []*sink.Delivery{free, placed})
	remove(t, k, topic)
	if err := k.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	// The relay chose the partition while the old topic was known.
	free.Destination = sink.Destination{Name: topic, Partition: last}
	placed.Destination = free.Destination
	answers := s.Deliver(t.Context(), []*sink.Delivery{free, placed})
	if len(answers) != 2 {
		t.Fatalf("answers: %v, want two", answers)
	}
	wantClass(t, answers[0], sink.ClassNotAttempted, "partitions")
	wantClass(t, answers[1], sink.ClassPermanent, "no partition 7")
	send(t, s, []*sink.Delivery{free})
	if got := ids(read(t, k.Brokers()[0], topic)); got != "free-0" {
		t.Errorf("the new topic holds %s", got)
	}
}

// TestTooLarge has messages that the topic refuses, alone and in company.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1) + "-small"
	if err := k.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "20000"}); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, kafka.Config{Brokers: k.Brokers()})

	// Many small messages make one batch that is too large: the sink makes smaller ones, and no message pays.
	ds := deliveries(topic, "g", 0, 1000)
	send(t, s, ds)
	if got := read(t, k.Brokers()[0], topic); len(got) != 1000 {
		t.Errorf("%d messages, want 1000", len(got))
	}

	// One message alone is too large for good.
	large := deliveries(topic, "g", 1000, 1)
	large[0].Value = make([]byte, 30_000)
	answers := settled(t, s, large)
	wantClass(t, answers[0], sink.ClassPermanent, "max.message.bytes")

	// In company it gets a batch of its own: what is before it is delivered, what is behind waits.
	mixed := append(deliveries(topic, "g", 2000, 2), large[0])
	mixed = append(mixed, deliveries(topic, "g", 2002, 2)...)
	answers = sinktest.Call(t.Context(), t, s, mixed)
	if answers[0] != nil || answers[1] != nil {
		t.Errorf("the messages before it: %v", answers[:2])
	}
	wantClass(t, answers[2], sink.ClassPermanent, "max.message.bytes")
	wantClass(t, answers[3], sink.ClassNotAttempted, "")
	wantClass(t, answers[4], sink.ClassNotAttempted, "")
}

// TestGuiltyMessage has a compacted topic, which refuses messages without a key, and names them.
func TestGuiltyMessage(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1) + "-compacted"
	if err := k.CreateTopic(topic, 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, kafka.Config{Brokers: k.Brokers()})
	ds := deliveries(topic, "g", 0, 5)
	ds[2].Key = nil
	send(t, s, deliveries(topic, "known", 0, 1))
	answers := sinktest.Call(t.Context(), t, s, ds)
	for i, err := range answers {
		want := sink.ClassNotAttempted
		if i == 2 {
			want = sink.ClassPermanent
		}
		wantClass(t, err, want, "")
		if _, _, whole := sink.Classify(err); whole {
			t.Errorf("answer %d is about the whole, though the broker named the guilty one", i)
		}
	}
	send(t, s, append(ds[:2:2], ds[3:]...))
	if got := ids(read(t, k.Brokers()[0], topic)); got != "known-0 g-0 g-1 g-3 g-4" {
		t.Errorf("the topic holds %s", got)
	}
}

// TestLostAnswer loses the broker's answer: the batch may have been appended, and it was.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	k := servers.Kafka(t)
	p := k.Proxy(t)
	topic := k.NewTopic(t, 1)
	s := newSink(t, kafka.Config{Brokers: []string{p.Addr}, Timeout: 2 * time.Second})
	ds := deliveries(topic, "g", 0, 3)
	send(t, s, ds[:1])
	p.LoseAnswers()
	answers := sinktest.Call(t.Context(), t, s, ds[1:])
	wantClass(t, answers[0], sink.ClassUnavailable, "possible duplicate")
	if _, _, whole := sink.Classify(answers[1]); !whole {
		t.Error("the guilty one of two is not known, but the answer is not about the whole")
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	send(t, s, ds[1:])
	if got := ids(read(t, k.Brokers()[0], topic)); got != "g-0 g-1 g-2 g-1 g-2" {
		t.Errorf("the topic holds %s", got)
	}

	// Connections that were reset while they were idle cost nothing.
	p.Reset()
	sinktest.Eventually(t, "the resets to arrive", func() bool { return p.Connections() == 0 })
	send(t, s, deliveries(topic, "g", 3, 1))

	// A request that is stuck on its way ends with its context.
	p.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	wantClass(t, sinktest.Call(ctx, t, s, deliveries(topic, "g", 4, 1))[0], sink.ClassUnavailable, "possible duplicate")
	if err := p.Cut(); err != nil {
		t.Fatal(err)
	}
	wantClass(t, sinktest.Call(t.Context(), t, s, deliveries(topic, "g", 4, 1))[0], sink.ClassUnreachable, p.Addr)
}

// TestEndOfAnotherContext ends the context of a call while the next call, with a context of its own, is under way on the same connection.
func TestEndOfAnotherContext(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	s := newSink(t, kafka.Config{Brokers: k.Brokers()})
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for d, err := range sinktest.Send(ctx, t, s, deliveries(topic, "g", i, 1)) {
			t.Fatalf("deliver %s: %v", d.Message.ID, err)
		}
		switch i % 3 {
		case 0:
			cancel()
		case 1:
			go cancel()
		}
	}
	if got := len(read(t, k.Brokers()[0], topic)); got != 100 {
		t.Errorf("the topic holds %d messages, want 100", got)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	cert := k.Certificates
	ca := &sink.TLS{CA: cert.CA}
	mutual := &sink.TLS{CA: cert.CA, Cert: cert.ClientCert, Key: cert.ClientKey}
	user := func(mechanism string) *kafka.SASL {
		return &kafka.SASL{Mechanism: mechanism, Username: servers.KafkaUsername, Password: servers.KafkaPassword}
	}
	wrong := func(mechanism string) *kafka.SASL {
		return &kafka.SASL{Mechanism: mechanism, Username: servers.KafkaUsername, Password: "wrong"}
	}
	for _, test := range []struct {
		name    string
		brokers []string
		tls     *sink.TLS
		sasl    *kafka.SASL
		class   sink.Class
		says    string // empty: works
	}{
		{name: "plain", brokers: k.SASLBrokers(), sasl: user("plain")},
		{name: "scram-sha-256", brokers: k.SASLBrokers(), sasl: user("scram-sha-256")},
		{name: "SCRAM-SHA-512", brokers: k.SASLBrokers(), sasl: user("SCRAM-SHA-512")},
		{name: "TLS", brokers: k.TLSBrokers(), tls: ca},
		{name: "mutual TLS", brokers: k.MutualTLSBrokers(), tls: mutual},
		{name: "scram over TLS", brokers: k.SASLTLSBrokers(), tls: ca, sasl: user("scram-sha-512")},
		{name: "plain, wrong password", brokers: k.SASLBrokers(), sasl: wrong("plain"), class: sink.ClassMisconfigured, says: "sasl.password"},
		{name: "scram, wrong password", brokers: k.SASLBrokers(), sasl: wrong("scram-sha-256"), class: sink.ClassMisconfigured, says: "sasl.password"},
		{name: "scram, unknown user", brokers: k.SASLBrokers(), sasl: &kafka.SASL{Mechanism: "scram-sha-512", Username: "a=b,c", Password: "x"},
			class: sink.ClassMisconfigured, says: "sasl.username"},
		{name: "SASL where there is none", brokers: k.Brokers(), sasl: user("plain"), class: sink.ClassMisconfigured, says: "authenticate"},
		{name: "no SASL where there is", brokers: k.SASLBrokers(), class: sink.ClassUnreachable, says: "set sasl"},
		{name: "no TLS where there is", brokers: k.TLSBrokers(), class: sink.ClassUnreachable, says: "tls: {}"},
		{name: "TLS where there is none", brokers: k.Brokers(), tls: ca, class: sink.ClassUnreachable, says: "tls"},
		{name: "unknown authority", brokers: k.TLSBrokers(), tls: &sink.TLS{}, class: sink.ClassUnreachable, says: "unknown authority"},
		{name: "wrong name", brokers: k.TLSBrokers(), tls: &sink.TLS{CA: cert.CA, ServerName: "wrong.example"}, class: sink.ClassUnreachable, says: "wrong.example"},
		{name: "no client certificate", brokers: k.MutualTLSBrokers(), tls: ca, class: sink.ClassUnreachable, says: "tls"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, kafka.Config{Brokers: test.brokers, Topics: []string{topic}, TLS: test.tls, SASL: test.sasl, ConnectTimeout: 5 * time.Second})
			problems := s.Check(t.Context())
			if (len(problems) == 0) != (test.says == "") {
				t.Errorf("check: %v", problems)
			}
			ds := deliveries(topic, test.name, 0, 2)
			if test.says == "" {
				send(t, s, ds)
				return
			}
			err := sinktest.Call(t.Context(), t, s, ds)[0]
			wantClass(t, err, test.class, test.says)
			if strings.Contains(err.Error(), servers.KafkaPassword) {
				t.Errorf("the password in %v", err)
			}
		})
	}
}

// TestNotKafka connects to what is something else.
func TestNotKafka(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n", "silence": "", "nonsense": "\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00", "TLS": "\x15\x03\x03\x00\x02\x02\x46",
		"an empty answer": "\x00\x00\x00\x00", "another request's answer": "\x00\x00\x00\x04\x00\x00\x00\x63",
		"a list without end": "\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff", "bytes without end": "\x04\x00\x00\x00\x00\x00\x00\x01",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer l.Close()
			wg.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					wg.Go(func() {
						defer c.Close()
						buf := make([]byte, 4096)
						if _, err := c.Read(buf); err == nil && answer != "" {
							if _, err := c.Write([]byte(answer)); err != nil {
								return
							}
						}
						for err == nil {
							_, err = c.Read(buf)
						}
					})
				}
			})
			s := newSink(t, kafka.Config{Brokers: []string{l.Addr().String()}, ConnectTimeout: 500 * time.Millisecond})
			wantClass(t, sinktest.Call(t.Context(), t, s, deliveries("t", "g", 0, 1))[0], sink.ClassUnreachable, l.Addr().String())
			if problems := s.Check(t.Context()); len(problems) != 1 {
				t.Errorf("check: %v", problems)
			}
		})
	}
}
