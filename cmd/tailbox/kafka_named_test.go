package main

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// A broker that names the record it cannot take appends nothing of the batch. That record becomes a dead letter wherever it
// stands in its group; those before it arrive, and those after it once it is dropped.
func TestKafkaNamesARecord(t *testing.T) {
	t.Parallel()
	broker := servers.Kafka(t)
	r := newRig(t, `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  tables: [{name: outbox, shape: debezium, on_delivered: delete, router: {table.field.event.timestamp: at, route.topic.replacement: "${SLOT}"}}]
sinks: {out: {kind: kafka, brokers: ["`+strings.Join(broker.Brokers(), `","`)+`"]}}
admin: {listen: "127.0.0.1:0"}
`)
	topic := r.env["SLOT"]
	if err := broker.CreateTopic(topic, 1, map[string]string{"message.timestamp.after.max.ms": "3600000"}); err != nil {
		t.Fatal(err)
	}
	r.sql(`CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload text, at timestamptz)`)
	r.must("init")
	r.sql(`INSERT INTO outbox (aggregatetype, aggregateid, type, payload, at)
		SELECT 'order', '1', 'T', i::text, CASE WHEN i = 4 THEN now() + interval '3 days' ELSE now() END FROM generate_series(1, 6) i`)
	stop := r.relay()
	payloads := func(n int) (text string) {
		for _, record := range fetch(t, broker.Brokers(), topic, n) {
			text += strings.Fields(record)[1]
		}
		return text
	}
	if got := payloads(3); got != "123" {
		t.Errorf("before the record of another time: %s", got)
	}
	until(t, "the dead letter", func() bool { return strings.Contains(r.must("dead", "list"), "T") })
	r.must("dead", "drop", "--all", "--why", "of another time")
	if got := payloads(5); got != "12356" {
		t.Errorf("after it was dropped: %s", got)
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}
