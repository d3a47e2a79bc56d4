package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/test/servers"
)

const talkieConfig = `
pipeline: talkie
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 500ms, tables: [{shape: talkie}]}
sinks: {kafka: {kind: kafka, brokers: "${BROKERS}", timeout: 1s}}
retry: {schedule: [2100ms]}
admin: {listen: off}
`

// TestTalkie: rows of a table made by init become Kafka messages of their topic and key, in order per key; one whose answer is lost is retried
// as failed, one that is too large is a dead letter until plain SQL mends it.
func TestTalkie(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	proxy := broker.Proxy(t)
	r := newRig(t, talkieConfig)
	r.env["BROKERS"] = proxy.Addr
	topic := r.env["SLOT"]
	if err := broker.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	r.must("init")
	r.must("check")
	stop := r.relay()
	insert := func(key, idempotency, payload string) string {
		t.Helper()
		return r.insert(`INSERT INTO outbox (topic, key, idempotency_key, payload_json) VALUES ($1, $2, $3, $4) RETURNING id::text`, topic, key, idempotency, payload)
	}
	const show = `SELECT concat_ws(' ', status, retry_count, published_at IS NOT NULL, last_error IS NOT NULL, next_attempt_at > created_at + interval '1 s') FROM outbox WHERE id = $1`
	first := insert("k1", "once", `{"n": 1}`)
	r.shows("published 0 t f f", show, first)
	// The same key again is refused in the same topic, as it always was.
	if _, err := r.conn.Exec(t.Context(), `INSERT INTO outbox (topic, idempotency_key, payload_json) VALUES ($1, 'once', '{}')`, topic); err == nil {
		t.Error("an idempotency key was taken twice in a topic")
	}

	proxy.LoseAnswers()
	second := insert("k1", "twice", `{"n": 2}`)
	r.shows("failed 1 f t t", show, second)
	third := insert("k1", "thrice", `{"n": 3}`)
	r.shows("pending 0 f f f", show, third)
	if err := proxy.Restore(); err != nil {
		t.Fatal(err)
	}
	r.shows("published", "SELECT status FROM outbox WHERE id = $1", third)
	r.shows("true", "SELECT status = 'published' AND retry_count > 0 AND last_error IS NULL FROM outbox WHERE id = $1", second)

	large := insert("k1", "large", `{"n": 4, "text": "`+strings.Repeat("large", 1000)+`"}`)
	r.shows("dead_lettered 1 f t f", show, large)
	behind := insert("k1", "behind", `{"n": 5}`)
	other := insert("k2", "other", `{"n": 6}`)
	r.shows("published 0 t f f", show, other)
	r.shows("pending 0 f f f", show, behind)
	r.sql(`UPDATE outbox SET payload_json = '{"n": 4}', status = 'pending', retry_count = 0 WHERE id = $1 AND status = 'dead_lettered'`, large)
	r.shows("published", "SELECT status FROM outbox WHERE id = $1", behind)
	r.shows("published", "SELECT status FROM outbox WHERE id = $1", large)
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}

	// What was sent twice has the same id; the order of a key is that of its commits.
	want := map[string]string{first: "1", second: "2", third: "3", large: "4", behind: "5"}
	var order []string
	seen := map[string]bool{}
	for _, m := range consumed(t, broker.Brokers(), topic) {
		id, key := header(m, "id"), string(m.Key)
		if key != "k1" || seen[id] {
			continue
		}
		seen[id] = true
		if n := want[id]; string(m.Value) != `{"n": `+n+`}` {
			t.Errorf("message %s is %s, want n %s", id, m.Value, n)
		}
		order = append(order, want[id])
	}
	if got := strings.Join(order, ""); got != "12345" {
		t.Errorf("order of key k1: %s", got)
	}
}

// consumed reads a topic's one partition to its end.
func consumed(t *testing.T, brokers []string, topic string) []kafkago.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := kafkago.DialLeader(ctx, "tcp", brokers[0], topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, end, err := conn.ReadOffsets()
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	reader := kafkago.NewReader(kafkago.ReaderConfig{Brokers: brokers, Topic: topic, MaxWait: 50 * time.Millisecond})
	defer func() { _ = reader.Close() }()
	var all []kafkago.Message
	for int64(len(all)) < end {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("read message %d of %d: %v", len(all), end, err)
		}
		all = append(all, m)
	}
	return all
}

func header(m kafkago.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return fmt.Sprint("no header ", name)
}
