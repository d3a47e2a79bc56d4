package kafka_test

import (
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/sinktest"
)

// produceRequests is how many the broker got.
func (b *counting) produceRequests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.produced
}

func (b *counting) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

// wantThrottled wants an error that names the broker, and the time for which it takes nothing more.
func wantThrottled(t *testing.T, err error, broker string) {
	t.Helper()
	wantClass(t, err, sink.ClassThrottled, "produce to broker "+broker+": not sent: the quota of this client (client_id tailbox) is used up")
	if _, after, whole := sink.Classify(err); after <= 0 || after > time.Minute || whole {
		t.Errorf("throttled for %v (whole %v), want the rest of a minute", after, whole)
	}
}

// TestUsedUpQuota: a broker whose quota is used up takes the batch, and reads nothing more from that connection for a minute. The batch is delivered;
// until then nothing is written to this broker, and questions about topics go over another connection.
func TestUsedUpQuota(t *testing.T) {
	t.Parallel()
	b := newCounting(t)
	b.version, b.throttle = 8, 60_000
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	send(t, s, deliveries("good", "g", 0, 1))
	for i := range 3 {
		answers := sinktest.Call(t.Context(), t, s, deliveries("good", "g", 1+i, 2))
		wantThrottled(t, answers[0], b.address)
		wantThrottled(t, answers[1], b.address)
	}
	wantThrottled(t, settled(t, s, deliveries("good-new", "g", 0, 1))[0], b.address)
	if n, conns := b.produceRequests(), b.connections(); n != 1 || conns != 2 {
		t.Errorf("the broker got %d batches over %d connections, want 1, and a second connection for the new topic", n, conns)
	}
}

// TestQuotaOfOneBroker: another broker goes on.
func TestQuotaOfOneBroker(t *testing.T) {
	t.Parallel()
	b, other := newCounting(t), newCounting(t)
	b.version, b.throttle, b.other, other.of = 8, 60_000, other, b
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	send(t, s, deliveries("good", "g", 0, 1))
	for i := range 2 {
		send(t, s, deliveries("good-other", "g", i, 1))
		wantThrottled(t, sinktest.Call(t.Context(), t, s, deliveries("good", "g", 1, 1))[0], b.address)
	}
	if n, m := b.produceRequests(), other.produceRequests(); n != 1 || m != 2 {
		t.Errorf("the brokers got %d and %d batches, want 1 and 2", n, m)
	}
}

// TestQuotaWithinCall: what was delivered before the throttle stays delivered.
func TestQuotaWithinCall(t *testing.T) {
	t.Parallel()
	b := newCounting(t)
	b.version = 7
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	send(t, s, deliveries("good", "known", 0, 1))
	b.mu.Lock()
	b.throttle = 60_000
	b.mu.Unlock()
	ds := deliveries("good", "g", 0, 4)
	for i := range ds {
		ds[i].Value = []byte(strings.Repeat("x", 600_000)) // one in a batch
	}
	answers := sinktest.Call(t.Context(), t, s, ds)
	if answers[0] != nil {
		t.Errorf("the message before the throttle: %v", answers[0])
	}
	wantThrottled(t, answers[1], b.address)
	wantClass(t, answers[2], sink.ClassNotAttempted, "")
	wantClass(t, answers[3], sink.ClassNotAttempted, "")
}

// TestQuotaOfOldBrokers: before Kafka 2.0 a broker waited before it answered.
func TestQuotaOfOldBrokers(t *testing.T) {
	t.Parallel()
	b := newCounting(t)
	b.version, b.throttle = 5, 60_000
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	for i := range 3 {
		send(t, s, deliveries("good", "g", i, 1))
	}
}

// TestPolicy: a policy that refuses a batch as a whole is about the client or the topic, and waits for an operator. One that names records is about
// these.
func TestPolicy(t *testing.T) {
	t.Parallel()
	b := newCounting(t)
	b.version = 8
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	send(t, s, deliveries("good", "known", 0, 1))
	say := func(p produce.ResponsePartition) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.answers = p
	}
	say(produce.ResponsePartition{ErrorCode: int16(kafkago.PolicyViolation)})
	for n := 1; n <= 2; n++ {
		for _, err := range sinktest.Call(t.Context(), t, s, deliveries("good", "g", 0, n)) {
			wantClass(t, err, sink.ClassMisconfigured, "check the sink's compression, and whether the policy demands an idempotent producer")
			if _, _, whole := sink.Classify(err); whole != (n > 1) {
				t.Errorf("%d messages: whole = %v", n, whole)
			}
		}
	}
	say(produce.ResponsePartition{ErrorCode: int16(kafkago.PolicyViolation), RecordErrors: []produce.ResponseError{{BatchIndex: 1, BatchIndexErrorMessage: "no header"}}})
	answers := sinktest.Call(t.Context(), t, s, deliveries("good", "g", 0, 2))
	wantClass(t, answers[0], sink.ClassNotAttempted, "")
	wantClass(t, answers[1], sink.ClassPermanent, "no header")
}
