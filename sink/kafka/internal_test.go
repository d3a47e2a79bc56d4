package kafka

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// TestChoose compares with the library's balancer that is like the Java client's, which hashes a message by its key.
func TestChoose(t *testing.T) {
	t.Parallel()
	java := kafkago.Murmur2Balancer{Consistent: true}
	all := make([]int, 17)
	for i := range all {
		all[i] = i
	}
	for _, key := range []string{"", "a", "ab", "abc", "abcd", "customer-17", "order:4711", "\xff\xfe\x00\x80", strings.Repeat("long", 100)} {
		want := int32(java.Balance(kafkago.Message{Key: []byte(key)}, all...))
		byKey := &sink.Delivery{Key: []byte(key), Message: &outbox.Message{Group: "other"}}
		if got := choose(byKey, len(all), nil); got != want {
			t.Errorf("key %q: partition %d, want %d", key, got, want)
		}
		if key == "" {
			continue
		}
		byGroup := &sink.Delivery{Message: &outbox.Message{Group: key}}
		if got := choose(byGroup, len(all), nil); got != want {
			t.Errorf("group %q: partition %d, want %d", key, got, want)
		}
	}
	round := uint32(0)
	next := func() uint32 { round++; return round }
	for want := int32(1); want < 40; want++ {
		if got := choose(&sink.Delivery{Message: &outbox.Message{}}, 17, next); got != want%17 {
			t.Errorf("round: partition %d, want %d", got, want%17)
		}
	}
	if got := choose(&sink.Delivery{Key: []byte{}, Message: &outbox.Message{}}, 0, next); got != -1 {
		t.Errorf("no partitions: %d", got)
	}
}

func TestJudgeTopic(t *testing.T) {
	t.Parallel()
	for code, want := range map[kafkago.Error]sink.Class{
		kafkago.UnknownTopicOrPartition: sink.ClassMisconfigured, kafkago.InvalidTopic: sink.ClassMisconfigured,
		kafkago.TopicAuthorizationFailed: sink.ClassMisconfigured, kafkago.LeaderNotAvailable: sink.ClassUnreachable,
		kafkago.Unknown: sink.ClassUnreachable,
	} {
		err := topicError("orders", code)
		if class, _, _ := sink.Classify(err); class != want || !strings.Contains(err.Error(), "orders") {
			t.Errorf("%v: %v: %v, want %v", code, class, err, want)
		}
	}
	for _, code := range []kafkago.Error{kafkago.TopicAuthorizationFailed, kafkago.InvalidTopic, kafkago.UnsupportedCompressionType, kafkago.InvalidRequiredAcks} {
		if class, _, _ := sink.Classify(deny("orders", code, code)); judge(code) != denied || class != sink.ClassMisconfigured {
			t.Errorf("%v: verdict %v, class %v", code, judge(code), class)
		}
	}
	for code, want := range map[kafkago.Error]verdict{
		kafkago.RequestTimedOut: late, kafkago.NotEnoughReplicasAfterAppend: late, kafkago.Unknown: ambiguous,
		kafkago.InvalidMessage: ambiguous, kafkago.NotEnoughReplicas: weak, kafkago.NotLeaderForPartition: elsewhere,
		kafkago.MessageSizeTooLarge: tooLarge, kafkago.InvalidRecord: poison, kafkago.ThrottlingQuotaExceeded: slow,
		kafkago.PolicyViolation: policy,
	} {
		if got := judge(code); got != want {
			t.Errorf("%v: verdict %v, want %v", code, got, want)
		}
	}
}

func TestTroubles(t *testing.T) {
	t.Parallel()
	to := sink.Destination{Name: "orders"}
	met := outages{known: make(map[sink.Destination]*outage)}
	cause := errors.New("no leader")
	if class, _, _ := sink.Classify(met.note(to, cause)); class != sink.ClassNotAttempted {
		t.Errorf("first: %v", class)
	}
	met.known[to].since = time.Now().Add(-2 * patience)
	if class, _, _ := sink.Classify(met.note(to, cause)); class != sink.ClassUnreachable {
		t.Errorf("for long: %v", class)
	}
	met.over(to)
	if class, _, _ := sink.Classify(met.note(to, cause)); class != sink.ClassNotAttempted {
		t.Errorf("after a success: %v", class)
	}

	// Partitions whose topic is gone are never met again.
	for i := range 1000 {
		_ = met.note(sink.Destination{Name: fmt.Sprint("gone ", i)}, cause)
	}
	for _, one := range met.known {
		one.last = time.Now().Add(-2 * outageKept)
	}
	_ = met.note(to, cause) // it is met again: that is one outage all the time
	_ = met.note(sink.Destination{Name: "new"}, cause)
	if len(met.known) != 2 || met.count.Load() != 2 {
		t.Errorf("%d outages are remembered, want those that were met lately", len(met.known))
	}
}

// TestUnusedTopicsAreForgotten: what goes to ever new topics must not grow for ever.
func TestUnusedTopicsAreForgotten(t *testing.T) {
	t.Parallel()
	cfg := Config{Brokers: []string{"localhost:1"}}.withDefaults()
	c := newCluster(&dialer{cfg: cfg})
	learn := func(name string, asked time.Time) *topic {
		found := &topic{name: name, leaders: []int32{0}, asked: asked, state: new(state)}
		c.learn(&metadata.Response{}, map[string]*topic{name: found})
		return found
	}
	now := time.Now()
	for i := range 1000 {
		learn(fmt.Sprint("old ", i), now.Add(-10*cfg.MetadataAge))
	}
	inUse := learn("in use", now.Add(-cfg.MetadataAge))
	c.learn(&metadata.Response{}, map[string]*topic{"unknown": nil})
	if n := len(c.known.Load().topics); n != 1 || c.topic("in use") != inUse {
		t.Errorf("%d topics are known, want the one in use", n)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	bad := Config{
		Brokers: []string{"kafka", "x:70000", ":1"}, Topics: []string{""}, Compression: "rar", Concurrency: -1, MaxBatch: -1, MaxBytes: -1,
		Timeout: -1, ConnectTimeout: -1, MetadataAge: -1, ClientID: strings.Repeat("x", 300), TLS: &sink.TLS{Key: "k"},
		SASL: &SASL{Mechanism: "gssapi"},
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{`brokers: "kafka"`, `brokers: "x:70000"`, `brokers: ":1"`, "topics", "compression", "concurrency", "max_batch", "max_bytes",
		"timeout", "connect_timeout", "metadata_age", "client_id", "tls.cert", "sasl.mechanism", "sasl.username", "sasl.password"} {
		if !strings.Contains("\n"+err.Error(), "\n"+key) {
			t.Errorf("no problem with %s in\n%v", key, err)
		}
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "brokers") {
		t.Errorf("no brokers: %v", err)
	}
	if _, err := New(Config{Brokers: []string{"[::1]:9092"}}); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

// TestScram has the example of RFC 7677, and brokers that cheat.
func TestScram(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{"", "r=other,s=AAAA,i=4096", "r=N1,s=!,i=4096", "r=N1,s=AAAA,i=0", "r=N1,s=AAAA,i=1", "r=N1,s=AAAA,i=4095", "r=N,s=AAAA,i=4096", "r=N1,s=AAAA,i=999999999", "r=N1,s=AAAA,i=x", "e=other-error"} {
		if _, _, err := scramProof("p", "n=u,r=N", "N", challenge, sha256.New); err == nil {
			t.Errorf("challenge %q was accepted", challenge)
		}
	}
	answer, signature, err := scramProof("pencil", "n=user,r=rOprNGfwEbeRWgbNEkqO", "rOprNGfwEbeRWgbNEkqO",
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", sha256.New)
	if err != nil {
		t.Fatal(err)
	}
	const want = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	if string(answer) != want {
		t.Errorf("answer %s, want %s", answer, want)
	}
	if got := base64.StdEncoding.EncodeToString(signature); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("server signature %s", got)
	}
	e := scram(SASL{Username: "u", Password: "p"}, sha256.New)
	first, _, _ := e(nil)
	nonce := string(first[strings.Index(string(first), "r=")+2:])
	if _, _, err := e([]byte("r=" + nonce + "x,s=AAAA,i=4096")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e([]byte("v=AAAA")); err == nil {
		t.Error("a broker that does not know the password was accepted")
	}
}

// TestManyMissingTopics: however many topics do not exist, the answer of each is known at the second try. It is not waited for without end.
func TestManyMissingTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions()
		ask := func(name string) sink.Class {
			class, _, _ := sink.Classify(q.patient(name, topicError(name, kafkago.UnknownTopicOrPartition)))
			return class
		}
		for range 2 {
			for i := range 3 * mostMissing {
				ask(fmt.Sprint("missing-", i))
			}
			<-time.After(creationTime)
		}
		for i := range 3 * mostMissing {
			if class := ask(fmt.Sprint("missing-", i)); class != sink.ClassMisconfigured {
				t.Fatalf("topic %d of %d: %v, want misconfigured", i, 3*mostMissing, class)
			}
		}
		<-time.After(missingFor + time.Second)
		if class := ask("new"); class != sink.ClassNotAttempted || len(q.missing) != 1 {
			t.Errorf("after the others are forgotten: %v, with %d remembered, want not attempted, and 1", class, len(q.missing))
		}
	})
}

// TestManyAnswers: a call that leaves its question to others finds the answer when it comes back, also behind ten thousand others.
func TestManyAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const topics = 10_000
		q := newQuestions()
		for first := 0; first < topics; first += askedTogether {
			for i := range askedTogether {
				q.leave(fmt.Sprint("missing-", first+i))
			}
			for name, one := range q.take(fmt.Sprint("missing-", first)) {
				q.close(name, one, nil, topicError(name, kafkago.UnknownTopicOrPartition))
			}
			<-time.After(300 * time.Millisecond)
		}
		for i := range topics {
			if name := fmt.Sprint("missing-", i); q.answer(name) == nil {
				t.Fatalf("the answer about %s, of %d, is lost", name, topics)
			}
		}
		for i := range 2 * mostUnread {
			q.keep(fmt.Sprint("gone-", i), errAsked, time.Now())
		}
		<-time.After(unreadFor + time.Second)
		if q.keep("new", errAsked, time.Now()); len(q.unread) != 1 {
			t.Errorf("%d answers are kept that nobody came back for", len(q.unread))
		}
	})
}
