package debezium_test

import (
	"fmt"
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

// TestImportOtherProfile: Debezium Server runs in the profile that QUARKUS_PROFILE or quarkus.profile names.
func TestImportOtherProfile(t *testing.T) {
	t.Parallel()
	server := text(t, "server.properties") + "%staging.debezium.source.slot.name=staged\n%prod.debezium.source.publication.name=p\n"
	const compose = "services: {d: {image: debezium/server, environment: {QUARKUS_PROFILE: staging, _STAGING_DEBEZIUM_FORMAT_VALUE: binary, _PROD_DEBEZIUM_SOURCE_SLOT_NAME: x, _DEV_DEBEZIUM_SOURCE_FIELD_RENAMES: x}}}\n"
	for name, files := range map[string][]string{
		"a variable":      {"application.properties", server, "compose.yaml", compose},
		"of the importer": {"application.properties", server},
		"an option":       {"application.properties", "quarkus.profile=staging\n" + server},
	} {
		env := environment()
		if name == "of the importer" {
			env = environment("QUARKUS_PROFILE", "staging")
		}
		yaml := imported(t, env, files...)
		if !has(yaml, `slot: "staged"`) || !has(yaml, `publication: "dbz_publication"`) || has(yaml, "format.value: binary") != (name == "a variable") {
			t.Errorf("%s:\n%s", name, yaml)
		}
	}
	_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte("quarkus.profile=a,b\n" + server)}}, environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), `f:1: quarkus.profile "a,b": names several profiles`) {
		t.Errorf("several profiles: %v", err)
	}
}

// TestImportSystemProperties: what a variable hands to Java counts before all else, and is refused.
func TestImportSystemProperties(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"-Xmx1g -Ddebezium.format.value=json": "sets debezium.format.value as", "-D%prod.debezium.sink.type=http": "sets %prod.debezium.sink.type as", "-Dquarkus.profile=dev": "sets quarkus.profile as",
		"-Xmx1g -Dquarkus.log.level=INFO": ""} {
		for _, name := range []string{"JAVA_OPTS", "DEBEZIUM_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"} {
			compose := fmt.Sprintf("services:\n  d:\n    image: debezium/server\n    environment:\n      %s: %q\n", name, value)
			_, err := debezium.Import(append(served(t), debezium.File{Name: "compose.yaml", Data: []byte(compose)}), environment(), nil, bytea)
			if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, "compose.yaml:5: $"+name+": "+want) {
				t.Errorf("%s %s: %v, want %q", name, value, err, want)
			}
		}
	}
}

// TestImportConfigLocations: files of options that another option or variable names are not read, and refused.
func TestImportConfigLocations(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"quarkus.config.locations=x.properties": "f:", "smallrye.config.locations=x.properties": "f:", "smallrye.config.profile=dev": "f:",
		"QUARKUS_CONFIG_LOCATIONS=x.properties": "d.env:1: $", "SMALLRYE_CONFIG_LOCATIONS=x.properties": "d.env:1: $"} {
		files := served(t, line)
		if strings.HasPrefix(want, "d.env") {
			files = append(served(t), debezium.File{Name: "d.env", Data: []byte(line + "\n")})
		}
		_, err := debezium.Import(files, environment(), nil, bytea)
		key, value, _ := strings.Cut(line, "=")
		if got := fmt.Sprint(err); !strings.HasPrefix(got, want) || !strings.Contains(got, fmt.Sprintf("%s %q: brings options that are not read", key, value)) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := debezium.Import(connected(t, `"tasks.max": 1`), environment("QUARKUS_CONFIG_LOCATIONS", "x"), nil, bytea); err != nil {
		t.Errorf("Kafka Connect: %v", err)
	}
	for _, o := range debezium.Report(served(t, "quarkus.profile=staging"), environment(), nil, bytea) {
		if o.Key == "quarkus.profile" && strings.Contains(o.How, "set again") {
			t.Errorf("%+v", o)
		}
	}
}

// TestImportSourceConverters: Debezium Server takes options of converters among those of the source, too. They count before format.X, and format.key.X before them.
func TestImportSourceConverters(t *testing.T) {
	t.Parallel()
	without := strings.Replace(text(t, "server.properties"), "debezium.format.value.schemas.enable=false\n", "", 1)
	const option = "debezium.source.value.converter.schemas.enable="
	for lines, schema := range map[string]bool{option + "false": false, option + "true": true, "debezium.format.schemas.enable=false\n" + option + "true": true,
		"debezium.format.value.schemas.enable=false\n" + option + "true": false, option + "true\n" + option + "false": false} {
		yaml := imported(t, environment(), "application.properties", strings.Replace(without, "table.expand.json.payload=true", "table.expand.json.payload=false", 1)+lines+"\n")
		if !has(yaml, "format.value: json") || strings.Contains(yaml, "format.value.schema:") != schema || strings.Contains(yaml, "look for a typing error") {
			t.Errorf("%s:\n%s", lines, yaml)
		}
	}
	names := []string{"DEBEZIUM_SOURCE_VALUE_CONVERTER_SCHEMAS_ENABLE"}
	for _, file := range []string{without, without + option + "true\n"} {
		yaml, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(file)}}, environment(names[0], "false"), names, bytea)
		if err != nil || strings.Contains(string(yaml), "format.value.schema:") {
			t.Errorf("a variable: %v\n%s", err, yaml)
		}
	}
}

// TestImportOptionsOfWorkers: Kafka Connect takes some options from its worker alone, and hands none but converters from there to a connector.
func TestImportOptionsOfWorkers(t *testing.T) {
	t.Parallel()
	worker, connector := text(t, "worker.properties"), text(t, "connector.json")
	with := func(options string) string { return strings.Replace(connector, `"tasks.max": 1`, options, 1) }
	for name, c := range map[string]struct {
		worker, connector string
		want, listed      string
	}{
		"brokers":            {worker, with(`"bootstrap.servers": "other:9092"`), `brokers: ["kafka-1:9092"]`, "bootstrap.servers: Kafka Connect takes it from its worker alone"},
		"brokers alone":      {"key.converter=org.apache.kafka.connect.storage.StringConverter\n", with(`"bootstrap.servers": "other:9092"`), `brokers: ["${KAFKA_BROKERS}"]`, "bootstrap.servers: Kafka Connect takes"},
		"a producer":         {worker, with(`"producer.bootstrap.servers": "other:9092", "producer.partitioner.class": "x.Y"`), `brokers: ["kafka-1:9092"]`, "producer.partitioner.class: Kafka Connect takes"},
		"topics":             {worker + "topic.creation.enable=false\n", with(`"topic.creation.enable": "true", "topic.creation.default.partitions": 3`), "kind: kafka", "topic.creation.default.partitions: no topic is made by it"},
		"a slot":             {worker + "slot.name=x\n", connector, `slot: "debezium"`, "slot.name: Kafka Connect passes no such option"},
		"a topic":            {worker + "transforms.outbox.route.by.field=x\n", connector, "kind: kafka", "transforms.outbox.route.by.field: Kafka Connect passes no such option"},
		"an override":        {worker + "producer.override.compression.type=gzip\n", connector, `compression: "zstd"`, "producer.override.compression.type: Kafka Connect passes no"},
		"a second connector": {worker, connector, "kind: postgres", "connector other.json: it has no outbox event router"},
	} {
		files := []string{"worker.properties", c.worker, "connector.json", c.connector}
		if name == "a second connector" {
			files = append(files, "other.json", `{"name": "files", "config": {"connector.class": "FileStreamSource", "slot.name": "x"}}`)
		}
		yaml := imported(t, environment(), files...)
		if !has(yaml, c.want) || !strings.Contains(yaml, "#   "+c.listed) {
			t.Errorf("%s: no %s, or %s is not listed in\n%s", name, c.want, c.listed, yaml)
		}
	}
	_, err := debezium.Import([]debezium.File{{Name: "w", Data: []byte(worker)}, {Name: "c.json", Data: []byte(with(`"topic.creation.enable": "false", "topic.creation.default.partitions": 3`))}}, environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), "topic.creation.default.partitions") {
		t.Errorf("topics that a connector does not want: %v", err)
	}
	two := []debezium.File{{Name: "a.json", Data: []byte(connector)}, {Name: "b.json", Data: []byte(connector)}}
	report := debezium.Report(two, environment(), nil, bytea)
	if want := "these files hold 2 connectors, a.json, b.json, of which 2 have an outbox event router"; len(report) != 1 || !strings.Contains(report[0].How, want) {
		t.Errorf("two connectors: %+v", report)
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

// TestImportYAMLBooleans: words such as no are booleans without quotes, and texts in quotes, in whatever resource they stand.
func TestImportYAMLBooleans(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnector\nmetadata: {name: outbox-connector}\n"
	const class = "class: io.debezium.connector.postgresql.PostgresConnector\n"
	const key = "value.converter: org.apache.kafka.connect.json.JsonConverter\n"
	options := func(depth int) string {
		return yamlOf(t, depth, "connector.class", "tasks.max", "value.converter", "database.dbname")
	}
	worker := "bootstrap.servers=k:9092\nkey.converter=org.apache.kafka.connect.storage.StringConverter\n"
	for name, file := range map[string]string{
		"KafkaConnector": head + "spec:\n  " + class + "  state: stopped\n  config:\n" + options(4) + "    " + key + "    value.converter.schemas.enable: no\n    database.dbname: \"no\"\n",
		"its spec alone": "name: x\n" + class + "config:\n" + options(2) + "  " + key + "  value.converter.schemas.enable: Off\n  database.dbname: 'no'\n",
		"KafkaConnect":   head + "spec:\n  " + class + "  config:\n" + options(4) + "    database.dbname: \"no\"\n---\nkind: KafkaConnect\nspec:\n  config:\n    " + key + "    value.converter.schemas.enable: no\n",
	} {
		yaml := imported(t, environment(), "resource.yaml", file, "worker.properties", worker)
		if !has(yaml, "format.value: json") || strings.Contains(yaml, "format.value.schema:") || !strings.Contains(yaml, "dbname=no ") {
			t.Errorf("%s:\n%s", name, yaml)
		}
		if name == "KafkaConnector" && !strings.Contains(yaml, "#   spec.state: it says whether Debezium runs") {
			t.Errorf("its state is not listed:\n%s", yaml)
		}
	}
}
