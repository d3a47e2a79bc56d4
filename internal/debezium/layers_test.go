package debezium_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// imported is what is made of files, each given as its name and its text.
func imported(t *testing.T, env func(string) (string, bool), pairs ...string) string {
	t.Helper()
	var all []debezium.File
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, debezium.File{Name: pair[0], Data: []byte(pair[1])})
	}
	yaml, err := debezium.Import(all, env, func(string, string) (map[string]string, error) {
		return map[string]string{"aggregateid": `"string"`, "payload": `"string"`, "id": `"string"`}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(yaml)
}

// has tells whether a line is there, whatever its comment.
func has(yaml, line string) bool {
	for l := range strings.Lines(yaml) {
		if l, _, _ = strings.Cut(l, "  # "); strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

func text(t *testing.T, name string) string {
	t.Helper()
	return string(files(t, name)[0].Data)
}

// Kafka Connect's worker has clients of its own, whose options are not those of producers.
func TestImportProducer(t *testing.T) {
	t.Parallel()
	worker := text(t, "worker.properties") + `security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=PlainLoginModule required username="worker" password="w";
request.timeout.ms=1
retry.backoff.ms=1
client.id=worker
`
	const producers = `producer.bootstrap.servers=kafka-2:9092
producer.security.protocol=SASL_PLAINTEXT
producer.sasl.mechanism=SCRAM-SHA-256
producer.sasl.jaas.config=ScramLoginModule required username="producers" password="p";
`
	connector := text(t, "connector.json")
	override := strings.Replace(connector, `"tasks.max"`, `"producer.override.bootstrap.servers": "kafka-3:9092", "producer.override.compression.type": "gzip", "tasks.max"`, 1)
	for _, c := range []struct {
		worker, connector string
		want, not         []string
	}{
		{worker, connector, []string{`brokers: ["kafka-1:9092"]`, `compression: "zstd"`}, []string{"sasl:", `client_id: "worker"`}},
		{worker + producers, connector, []string{`brokers: ["kafka-2:9092"]`, "mechanism: scram-sha-256", `username: "producers"`, `password: "p"`}, nil},
		{worker + producers, override, []string{`brokers: ["kafka-3:9092"]`, `compression: "gzip"`, `username: "producers"`}, nil},
	} {
		yaml := imported(t, environment(), "worker.properties", c.worker, "connector.json", c.connector)
		for _, line := range c.want {
			if !has(yaml, line) {
				t.Errorf("no %s in\n%s", line, yaml)
			}
		}
		for _, line := range c.not {
			if has(yaml, line) {
				t.Errorf("%s, which is the worker's own, in\n%s", line, yaml)
			}
		}
	}
}
