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
	yaml, err := debezium.Import(all, env, nil, func(string, string, string) (map[string]string, error) {
		return map[string]string{"aggregateid": `"string"`, "payload": `"string"`, "id": `"string"`}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(yaml)
}

// has reports whether a line is there, whatever its comment.
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

// Kafka Connect takes a converter with all its options from the connector, or else from the worker. The files' order is the user's.
func TestImportConverters(t *testing.T) {
	t.Parallel()
	worker, connector := text(t, "worker.properties"), text(t, "connector.json")
	const own = `"value.converter": "io.debezium.converters.BinaryDataConverter"`
	for name, c := range map[string]struct{ worker, connector, format, schema string }{
		"its own":            {worker, connector, "format.value: json", `format.value.schema: "\"string\""`},
		"its own, defaults":  {worker, strings.Replace(connector, own, `"value.converter": "org.apache.kafka.connect.json.JsonConverter"`, 1), "format.value: json", `format.value.schema: "\"string\""`},
		"the worker's":       {worker, strings.Replace(connector, own, `"tasks.max": 1`, 1), "format.value: json", ""},
		"half of the latter": {strings.Replace(worker, "value.converter.schemas.enable=false\n", "", 1), strings.Replace(connector, own, `"value.converter.schemas.enable": false`, 1), "format.value: json", `format.value.schema: "\"string\""`},
	} {
		yaml := imported(t, environment(), "worker.properties", c.worker, "connector.json", c.connector)
		if !has(yaml, c.format) || strings.Contains(yaml, "format.value.schema:") != (c.schema != "") || c.schema != "" && !has(yaml, c.schema) {
			t.Errorf("%s: not %s with the schema %q:\n%s", name, c.format, c.schema, yaml)
		}
		if other := imported(t, environment(), "connector.json", c.connector, "worker.properties", c.worker); other != yaml {
			t.Errorf("%s: the order of the files matters:\n%s\nand\n%s", name, yaml, other)
		}
	}
}

// Debezium Server runs in Quarkus' profile prod.
func TestImportProfile(t *testing.T) {
	t.Parallel()
	yaml := imported(t, environment(), "application.properties", `%prod.debezium.format.value=binary
%{staging,prod}.debezium.source.slot.name=made
%dev.debezium.source.publication.name=dev
%prod.db.host=prod.example.org
`+text(t, "server.properties"))
	for _, line := range []string{"format.value: binary", `slot: "made"`, `publication: "dbz_publication"`} {
		if !has(yaml, line) {
			t.Errorf("no %s in\n%s", line, yaml)
		}
	}
	if !strings.Contains(yaml, "host=prod.example.org") {
		t.Errorf("not the profile's host in\n%s", yaml)
	}
	if yaml := imported(t, environment(), "application.properties", text(t, "server.properties")+"%prod.debezium.source.slot.name=made\n"); !has(yaml, `slot: "made"`) {
		t.Errorf("a profile's option at the end:\n%s", yaml)
	}
}

// A variable counts before the option of a file that it is named after, whichever option that is.
func TestImportEnvironment(t *testing.T) {
	t.Parallel()
	server := text(t, "server.properties")
	yaml := imported(t, environment("DEBEZIUM_FORMAT_VALUE", "binary", "DEBEZIUM_TRANSFORMS_OUTBOX_ROUTE_TOPIC_REPLACEMENT", "all.$${routedByValue}",
		"DEBEZIUM_TRANSFORMS_OUTBOX_TABLE_FIELD_EVENT_KEY", "kee", "DEBEZIUM_SINK_KAFKA_PRODUCER_COMPRESSION_TYPE", "gzip", "DB_HOST", "env.example.org",
		"DEBEZIUM_SOURCE_SLOT_NAME", "made", "_PROD_DEBEZIUM_SOURCE_PUBLICATION_NAME", "p",
		"DEBEZIUM_SINK_KAFKA_PRODUCER_SASL_JAAS_CONFIG", `ScramLoginModule required username="env" password="${SECRET}";`),
		"application.properties", "%prod.debezium.format.value=binary\n"+server)
	for _, line := range []string{"format.value: binary", `route.topic.replacement: "all.${routedByValue}"`, `table.field.event.key: "kee"`, `compression: "gzip"`,
		`slot: "${DEBEZIUM_SOURCE_SLOT_NAME}"`, `publication: "${_PROD_DEBEZIUM_SOURCE_PUBLICATION_NAME}"`, `username: "env"`, `password: "${SECRET}"`} {
		if !has(yaml, line) {
			t.Errorf("no %s in\n%s", line, yaml)
		}
	}
	if !strings.Contains(yaml, "host='${DB_HOST}'") {
		t.Errorf("not the environment's host in\n%s", yaml)
	}
	// One variable cannot be several items of a list.
	for servers, line := range map[string]string{"a:1,b:2": `brokers: ["a:1", "b:2"]`, "a:1": `brokers: ["${DEBEZIUM_SINK_KAFKA_PRODUCER_BOOTSTRAP_SERVERS}"]`} {
		if yaml := imported(t, environment("DEBEZIUM_SINK_KAFKA_PRODUCER_BOOTSTRAP_SERVERS", servers), "application.properties", server); !has(yaml, line) {
			t.Errorf("no %s in\n%s", line, yaml)
		}
	}
	_, err := debezium.Import(files(t, "server.properties"), environment("DEBEZIUM_SINK_KAFKA_PRODUCER_SASL_JAAS_CONFIG", "hidden"), nil, bytea)
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a wrong login in the environment: %v", err)
	}
	// A name in small letters counts too, and before the one in capitals.
	if yaml := imported(t, environment("debezium_source_slot_name", "small", "DEBEZIUM_SOURCE_SLOT_NAME", "x"), "application.properties", server); !has(yaml, `slot: "small"`) {
		t.Errorf("not the slot of the variable in small letters:\n%s", yaml)
	}
	for _, name := range []string{"compose.yaml", "service.env", "pod.yaml"} {
		given := map[string]string{"compose.yaml": "services: {d: {image: debezium/server, environment: {debezium_source_slot_name: small}}}", "service.env": "debezium_source_slot_name=small\n",
			"pod.yaml": "kind: Pod\nspec: {containers: [{image: debezium/server, env: [{name: debezium_source_slot_name, value: small}]}]}\n"}[name]
		if yaml := imported(t, environment(), "application.properties", server, name, given); !has(yaml, `slot: "small"`) {
			t.Errorf("%s: not its slot:\n%s", name, yaml)
		}
	}
	// Kafka Connect does not look into the environment.
	env := environment("DEBEZIUM_VALUE_CONVERTER", "x", "SLOT_NAME", "x", "VALUE_CONVERTER", "x")
	if yaml := imported(t, env, "worker.properties", text(t, "worker.properties"), "connector.json", text(t, "connector.json")); !has(yaml, "format.value: json") || has(yaml, `slot: "x"`) {
		t.Errorf("a connector's option from the environment:\n%s", yaml)
	}
}

// What options refer to may refer to others, in any order; but not in a circle.
func TestImportReferences(t *testing.T) {
	t.Parallel()
	server := text(t, "server.properties")
	chain := "debezium.transforms.outbox.route.topic.replacement=${a.one}.all\na.one=${b.two}-1\nb.two=${c.three}-2\nc.three=three\n"
	for range 20 { // by chance it came right before
		yaml := imported(t, environment(), "application.properties", server+"\n"+chain)
		if line := `route.topic.replacement: "three-2-1.all"`; !has(yaml, line) {
			t.Fatalf("no %s in\n%s", line, yaml)
		}
		_, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(server + "\n" + strings.Replace(chain, "=three", "=${a.one}", 1))}}, environment(), nil, bytea)
		if err == nil || !strings.Contains(err.Error(), "refers back to itself") {
			t.Fatalf("a circle: %v", err)
		}
	}
}

// TestImportUnheardOf: what Debezium, its converters and Kafka's producer do not know has no effect there, and is listed.
func TestImportUnheardOf(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"debezium.source.slot.nam=x", "debezium.sink.kafka.producer.linger=5", "debezium.format.value.schemas.enabel=true", "debezium.source.schema.blacklist=x"} {
		yaml := imported(t, environment(), "server.properties", text(t, "server.properties")+line+"\n")
		key, _, _ := strings.Cut(line, "=")
		if _, tail, _ := strings.Cut(yaml, "has no effect"); !strings.Contains(tail, key) {
			t.Errorf("%s is not listed:\n%s", key, yaml)
		}
	}
}

// TestImportServerOptionsInConnector: options of Debezium Server in a connector make it no server. Debezium does not know them there.
func TestImportServerOptionsInConnector(t *testing.T) {
	t.Parallel()
	const option = `"debezium.source.name": "x", `
	connector := text(t, "connector.json")
	options := connector[strings.Index(connector, `"config": `)+len(`"config": `) : strings.LastIndex(connector, "}")]
	var properties strings.Builder
	for line := range strings.Lines(options) {
		if key, value, ok := strings.Cut(strings.Trim(line, " ,\n"), ": "); ok {
			properties.WriteString(strings.Trim(key, `"`) + "=" + strings.Trim(value, `"`) + "\n")
		}
	}
	for name, data := range map[string]string{
		"config":         strings.Replace(connector, `"tasks.max"`, option+`"debezium.sink.type": "kafka", "tasks.max"`, 1),
		"options alone":  strings.Replace(options, "{", "{"+option, 1),
		"MSK Connect":    `{"connectorConfiguration": ` + strings.Replace(options, "{", "{"+option, 1) + `}`,
		"KafkaConnector": `{"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaConnector", "spec": {"class": "io.debezium.connector.postgresql.PostgresConnector", "config": ` + strings.Replace(options, "{", "{"+option, 1) + `}}`,
		"Confluent's":    `{"apiVersion": "platform.confluent.io/v1beta1", "kind": "Connector", "spec": {"class": "io.debezium.connector.postgresql.PostgresConnector", "configs": ` + strings.Replace(options, "{", "{"+option, 1) + `}}`,
		"properties":     properties.String() + "debezium.source.name=x\n",
	} {
		yaml := imported(t, environment(), "connector", data, "worker.properties", text(t, "worker.properties"))
		if !has(yaml, "kind: postgres") || !strings.Contains(yaml, "#   debezium.source.name: Debezium does not know it either") {
			t.Errorf("%s:\n%s", name, yaml)
		}
	}
	server := text(t, "server.properties") + "connector.class=io.debezium.connector.postgresql.PostgresConnector\n"
	if yaml := imported(t, environment(), "application.properties", server); !strings.Contains(yaml, "tables:  # debezium.source.table.include.list") {
		t.Errorf("a server's options with a connector's among them:\n%s", yaml)
	}
}

// TestImportSourceTransforms: Debezium Server takes transformations among the options of the source, too, but those without that prefix count first.
func TestImportSourceTransforms(t *testing.T) {
	t.Parallel()
	plain := text(t, "server.properties")
	moved := strings.ReplaceAll(strings.ReplaceAll(plain, "\ndebezium.transforms", "\ndebezium.source.transforms"), "\ndebezium.predicates", "\ndebezium.source.predicates")
	want := imported(t, environment(), "server.properties", plain)
	got := imported(t, environment(), "server.properties", moved)
	if got = strings.ReplaceAll(strings.ReplaceAll(got, "debezium.source.transforms", "debezium.transforms"), "debezium.source.predicates", "debezium.predicates"); got != want || moved == plain {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
