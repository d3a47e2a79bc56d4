package servers_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/tailbox/tailbox/test/servers"
)

// produce writes one value to partition 0 of a topic.
func produce(ctx context.Context, brokers []string, transport *kafka.Transport, topic, value string) error {
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 10 * time.Second, Transport: transport}
	answer, err := client.Produce(ctx, &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(value))}),
	})
	if err != nil {
		return err
	}
	return answer.Error
}

// consume reads n values of partition 0 of a topic.
func consume(t *testing.T, ctx context.Context, k *servers.KafkaServer, topic string, n int) []string {
	t.Helper()
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: k.Brokers(), Topic: topic, MaxWait: 50 * time.Millisecond})
	defer reader.Close()
	var values []string
	for range n {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("read from %s after %d: %v", topic, len(values), err)
		}
		values = append(values, string(m.Value))
	}
	return values
}

func TestKafkaListeners(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	authority, err := os.ReadFile(k.Certificates.CA)
	if err != nil {
		t.Fatalf("read authority: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	clientCert, err := tls.LoadX509KeyPair(k.Certificates.ClientCert, k.Certificates.ClientKey)
	if err != nil {
		t.Fatalf("load client certificate: %v", err)
	}
	trusting := &tls.Config{RootCAs: pool}
	presenting := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{clientCert}}
	scramOf := func(algorithm scram.Algorithm, password string) sasl.Mechanism {
		m, err := scram.Mechanism(algorithm, servers.KafkaUsername, password)
		if err != nil {
			t.Fatalf("prepare SCRAM: %v", err)
		}
		return m
	}
	plainOf := func(password string) sasl.Mechanism {
		return plain.Mechanism{Username: servers.KafkaUsername, Password: password}
	}
	for _, test := range []struct {
		name    string
		brokers []string
		tls     *tls.Config
		sasl    sasl.Mechanism
		want    bool
	}{
		{"plaintext", k.Brokers(), nil, nil, true},
		{"plain", k.SASLBrokers(), nil, plainOf(servers.KafkaPassword), true},
		{"plain, wrong password", k.SASLBrokers(), nil, plainOf("wrong"), false},
		{"scram-sha-256", k.SASLBrokers(), nil, scramOf(scram.SHA256, servers.KafkaPassword), true},
		{"scram-sha-512", k.SASLBrokers(), nil, scramOf(scram.SHA512, servers.KafkaPassword), true},
		{"scram, wrong password", k.SASLBrokers(), nil, scramOf(scram.SHA512, "wrong"), false},
		{"sasl left out", k.SASLBrokers(), nil, nil, false},
		{"tls", k.TLSBrokers(), trusting, nil, true},
		{"tls, authority not trusted", k.TLSBrokers(), &tls.Config{}, nil, false},
		{"mutual tls", k.MutualTLSBrokers(), presenting, nil, true},
		{"mutual tls, no certificate", k.MutualTLSBrokers(), trusting, nil, false},
		{"scram over tls", k.SASLTLSBrokers(), trusting, scramOf(scram.SHA512, servers.KafkaPassword), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 4*time.Minute)
			err := produce(ctx, test.brokers, &kafka.Transport{TLS: test.tls, SASL: test.sasl}, topic, test.name)
			if got := err == nil; got != test.want {
				t.Errorf("produce: got error %v, want success: %v", err, test.want)
			}
		})
	}
}

func TestKafkaKeepsDataOverKillAndStop(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	k := servers.Kafka(t)
	topic := k.NewTopic(t, 1)
	if err := produce(ctx, k.Brokers(), &kafka.Transport{}, topic, "first"); err != nil {
		t.Fatalf("produce: %v", err)
	}
	if err := k.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	if err := produce(ctx, k.Brokers(), &kafka.Transport{}, topic, "nobody listens"); err == nil {
		t.Error("produce to a killed broker: got no error")
	}
	if err := k.Start(); err != nil {
		t.Fatalf("start after kill: %v", err)
	}
	if err := produce(ctx, k.Brokers(), &kafka.Transport{}, topic, "second"); err != nil {
		t.Fatalf("produce after kill: %v", err)
	}
	if err := k.Restart(); err != nil {
		t.Fatalf("restart: %v", err)
	}
	got := consume(t, ctx, k, topic, 2)
	if got[0] != "first" || got[1] != "second" {
		t.Errorf("values after restarts: got %q, want first, second", got)
	}
}

func TestKafkaTopicSettings(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 3) + "_small"
	if err := k.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "1000"}); err != nil {
		t.Fatal(err)
	}
	if err := produce(ctx, k.Brokers(), &kafka.Transport{}, topic, string(make([]byte, 2000))); err == nil {
		t.Error("produce 2,000 bytes where 1,000 are allowed: got no error")
	}
}
