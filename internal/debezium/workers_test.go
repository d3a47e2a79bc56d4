package debezium_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// besideConnector is a connector that takes its converter of keys from its worker, behind other files.
func besideConnector(t *testing.T, pairs ...string) (all []debezium.File) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, debezium.File{Name: pairs[i], Data: []byte(pairs[i+1])})
	}
	return append(all, debezium.File{Name: "c.json", Data: []byte(text(t, "connector.json"))})
}

// TestImportWorkerAlone: a variable CONNECT_… that names no option of a worker is of a process that talks to one.
func TestImportWorkerAlone(t *testing.T) {
	t.Parallel()
	const worker = "  connect: {image: debezium/connect, environment: {BOOTSTRAP_SERVERS: 'k:9092', CONFIG_STORAGE_TOPIC: c, CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE: 'false'}}\n"
	const container = "{image: debezium/connect, env: [{name: BOOTSTRAP_SERVERS, value: 'k:9092'}, {name: CONFIG_STORAGE_TOPIC, value: c}, {name: CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE, value: 'false'}]}"
	for name, data := range map[string]string{
		// as in safa-56/etiya-crm-lite-microservice
		"one that registers": "services:\n" + worker + "  init: {image: alpine/curl, environment: {CONNECT_URL: 'http://connect:8083'}}\n",
		// as in semotpan/saga-orchestration
		"a console in front": "services:\n  ui: {image: landoop/kafka-connect-ui, environment: {CONNECT_URL: 'http://connect:8083', PROXY: 'true'}}\n" + worker,
		"other variables":    "services:\n" + worker + "  a: {environment: [CONNECT_HOST=connect, CONNECT_REST_PORT=8083]}\n  b: {image: debezium/tooling, environment: [CONNECT_TIMEOUT=5]}\n",
		"a Job":              "kind: Deployment\nspec: {template: {spec: {containers: [" + container + "]}}}\n---\nkind: Job\nspec: {template: {spec: {containers: [{env: [{name: CONNECT_URL, value: x}]}]}}}\n",
		"few of its own":     "services: {connect: {image: debezium/connect, env_file: c.env, environment: [BOOTSTRAP_SERVERS=k:9092, CONNECT_REST_PORT=8083]}}\n",
	} {
		files := besideConnector(t, "compose.yaml", data)
		if name == "few of its own" {
			files = append(files, debezium.File{Name: "c.env", Data: []byte("CONFIG_STORAGE_TOPIC=c\nCONNECT_KEY_CONVERTER_SCHEMAS_ENABLE=false\n")})
		}
		yaml, err := debezium.Import(files, environment(), nil, bytea)
		if err != nil || !has(string(yaml), `brokers: ["k:9092"]`) || !has(string(yaml), "format.key: json") || strings.Contains(string(yaml), "url: ") && strings.Contains(string(yaml), "PROXY") {
			t.Errorf("%s: %v in\n%s", name, err, yaml)
		}
	}
	// What a worker has besides is in another file, which its image tells.
	_, err := debezium.Import(besideConnector(t, "compose.yaml", "services: {connect: {image: 'confluentinc/cp-kafka-connect:7', env_file: c.env, environment: [CONNECT_LOG4J_ROOT_LOGLEVEL=INFO]}}\n"), environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), "give c.env beside this file") {
		t.Error(err)
	}
}

// inOneVariable is a compose file whose worker takes its properties as one variable.
func inOneVariable(prefix string, further ...string) string {
	compose := "services:\n  connect:\n    build: {context: .}\n    environment:\n      - " + prefix + "BOOTSTRAP_SERVERS=${K:-k}:9092\n      - |\n        " + prefix + "CONFIGURATION=\n" +
		"        key.converter=" + fromJSON + "\n        key.converter.schemas.enable=false\n        group.id=connect\n"
	var variables string
	for _, line := range further {
		if strings.HasPrefix(line, "- ") {
			variables += "      " + line + "\n"
		} else {
			compose += "        " + line + "\n"
		}
	}
	return compose + variables
}

// TestImportWorkerInOneVariable: the images of Strimzi and Redpanda take a worker's properties as one variable, and its brokers as another.
func TestImportWorkerInOneVariable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		compose string
		want    []string // of the result, or of the error
		refused bool
	}{
		// as in semotpan/saga-orchestration
		"Strimzi":        {inOneVariable("KAFKA_CONNECT_"), []string{`brokers: ["k:9092"]`, "format.key: json", "#   group.id: "}, false},
		"Redpanda":       {inOneVariable("CONNECT_", "- CONNECT_HEAP_OPTS=x"), []string{`brokers: ["k:9092"]`, "format.key: json", "#   group.id: ", "#   $CONNECT_HEAP_OPTS: "}, false},
		"a long value":   {inOneVariable("KAFKA_CONNECT_", `producer.client.id=a\`, "  b"), []string{`client_id: "ab"`}, false},
		"an option of a": {inOneVariable("KAFKA_CONNECT_", "slot.name=x"), []string{`slot: "debezium"`, "#   slot.name: Kafka Connect passes no such option"}, false},
		// as in debezium-examples, mongodb-outbox
		"variables that its image does not read": {inOneVariable("KAFKA_CONNECT_", "- BOOTSTRAP_SERVERS=other:9092", "- CONFIG_STORAGE_TOPIC=c", "- CONNECT_KEY_CONVERTER=x"),
			[]string{`brokers: ["k:9092"]`, "#   $BOOTSTRAP_SERVERS: ", "#   $CONNECT_KEY_CONVERTER: "}, false},
		// as in rodrahul/outbox-debezium
		"interceptors": {inOneVariable("KAFKA_CONNECT_", "producer.interceptor.classes=x.Y"), []string{`compose.yaml:6: producer.interceptor.classes "x.Y": would change what is sent`}, true},
		"a login":      {inOneVariable("KAFKA_CONNECT_", "- KAFKA_CONNECT_SASL_MECHANISM=plain"), []string{"compose.yaml:11: $KAFKA_CONNECT_SASL_MECHANISM: is not read: write producer.security.protocol"}, true},
		"TLS":          {inOneVariable("KAFKA_CONNECT_", "- KAFKA_CONNECT_TLS=true"), []string{"$KAFKA_CONNECT_TLS: is not read: write producer.security.protocol"}, true},
		"a mapping": {"services: {connect: {environment: {KAFKA_CONNECT_BOOTSTRAP_SERVERS: 'k:9092', KAFKA_CONNECT_CONFIGURATION: \"key.converter=" + fromText + "\\ngroup.id=c\"}}}\n",
			[]string{`brokers: ["k:9092"]`, "format.key: simplestring"}, false},
		"a Deployment": {"kind: Deployment\nspec: {template: {spec: {containers: [{env: [{name: KAFKA_CONNECT_BOOTSTRAP_SERVERS, value: 'k:9092'}, {name: KAFKA_CONNECT_CONFIGURATION, value: \"key.converter=" + fromText + "\"}]}]}}}\n",
			[]string{`brokers: ["k:9092"]`, "format.key: simplestring"}, false},
	} {
		yaml, err := debezium.Import(besideConnector(t, "compose.yaml", c.compose), environment(), nil, bytea)
		got := string(yaml) + fmt.Sprint(err)
		for _, want := range c.want {
			if !strings.Contains(got, want) || (err != nil) != c.refused {
				t.Errorf("%s: no %s in\n%s", name, want, got)
			}
		}
	}
	told, _ := fates(t, besideConnector(t, "compose.yaml", inOneVariable("KAFKA_CONNECT_", "- KAFKA_CONNECT_PLUGIN_PATH=/p")), bytea)
	if told["$KAFKA_CONNECT_PLUGIN_PATH"].Fate != debezium.NoEffect || told["bootstrap.servers"].Fate != debezium.Kept {
		t.Errorf("%+v", told)
	}
}

// TestImportWorkersOfOneGroup: workers of one group with the same options are one.
func TestImportWorkersOfOneGroup(t *testing.T) {
	t.Parallel()
	const second = "it has the variables of a second worker of Kafka Connect"
	for name, c := range map[string]struct{ first, other, refused string }{
		// as in anarefin/high-availability-debezium
		"the same":       {"GROUP_ID: g, CONNECT_REST_ADVERTISED_HOST_NAME: a", "GROUP_ID: g, CONNECT_REST_ADVERTISED_HOST_NAME: b", ""},
		"another group":  {"GROUP_ID: g", "GROUP_ID: h", second},
		"no group":       {"REST_PORT: 1", "REST_PORT: 2", second},
		"more converter": {"GROUP_ID: g", "GROUP_ID: g, CONNECT_VALUE_CONVERTER_DECIMAL_FORMAT: NUMERIC", second},
		"other producer": {"GROUP_ID: g, CONNECT_PRODUCER_COMPRESSION_TYPE: gzip", "GROUP_ID: g, CONNECT_PRODUCER_COMPRESSION_TYPE: zstd", second},
		"less producer":  {"GROUP_ID: g, CONNECT_PRODUCER_COMPRESSION_TYPE: gzip", "GROUP_ID: g", second},
	} {
		const worker = "  %s: {image: debezium/connect, environment: {BOOTSTRAP_SERVERS: 'k:9092', CONFIG_STORAGE_TOPIC: c, CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE: 'false', %s}}\n"
		yaml, err := debezium.Import(besideConnector(t, "compose.yaml", "services:\n"+fmt.Sprintf(worker, "a", c.first)+fmt.Sprintf(worker, "b", c.other)), environment(), nil, bytea)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v in\n%s", name, err, yaml)
			}
		case err != nil || !has(string(yaml), `brokers: ["k:9092"]`) || !strings.Contains(string(yaml), "#   another worker of Kafka Connect: it has the group"):
			t.Errorf("%s: %v in\n%s", name, err, yaml)
		}
	}
}

// TestImportOfWorkersOptions: the error names the file of the worker in which an option has to change. No secret of the worker is in the result.
func TestImportOfWorkersOptions(t *testing.T) {
	t.Parallel()
	const server = "services:\n  connect:\n    image: acme/connect\n    environment: {CONNECT_BOOTSTRAP_SERVERS: 'k:9092', CONNECT_KEY_CONVERTER: org.apache.kafka.connect.storage.StringConverter, CONNECT_VALUE_CONVERTER: CLASS, DB_PASSWORD: '${DB_PASSWORD:-hunter2}'}\n"
	connector := `{"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": "db", "database.user": "u", "database.password": "${env:DB_PASSWORD}", "database.dbname": "shop", ` +
		`"topic.prefix": "shop", "table.include.list": "public.outbox", "plugin.name": "pgoutput", "transforms": "o", "transforms.o.type": "io.debezium.transforms.outbox.EventRouter", "tasks.max": 1}`
	imported := func(class, connector string, describe debezium.Describe) (string, error) {
		yaml, err := debezium.Import([]debezium.File{{Name: "compose.yaml", Data: []byte(strings.Replace(server, "CLASS", class, 1))}, {Name: "c.json", Data: []byte(connector)}}, environment(), nil, describe)
		return string(yaml), err
	}
	const converters = "org.apache.kafka.connect.json.JsonConverter"
	if _, err := imported(converters, connector, nil); err == nil || !strings.Contains(err.Error(), "set it to false in the worker's compose.yaml once") {
		t.Errorf("schemas of the worker: %v", err)
	}
	own := strings.Replace(connector, `"tasks.max"`, `"value.converter": "`+converters+`", "tasks.max"`, 1)
	if _, err := imported(converters, own, nil); err == nil || !strings.Contains(err.Error(), "set it to false once") {
		t.Errorf("schemas of the connector: %v", err)
	}
	// as in Emerson21/financial-control-app
	delegating := strings.Replace(connector, `"tasks.max"`, `"value.converter": "io.debezium.converters.ByteArrayConverter", "value.converter.delegate.converter.type": "`+converters+`", "value.converter.delegate.converter.type.schemas.enable": "false", "tasks.max"`, 1)
	yaml, err := imported(converters, delegating, bytea)
	if err != nil || !strings.Contains(yaml, "format.value: binary") || strings.Contains(yaml, "hunter2") || !strings.Contains(yaml, "# Set the environment variable DB_PASSWORD to its value in compose.yaml.") {
		t.Errorf("%v\n%s", err, yaml)
	}
}

// TestImportOfFilledIn: a reference that Kafka Connect does not know is filled in before, by what a .env file says or the environment.
func TestImportOfFilledIn(t *testing.T) {
	t.Parallel()
	// as in register-connector.sh files that call envsubst or sed
	connector := strings.NewReplacer("postgresuser", "${DB_USER}", "postgrespw", "${DB_PASSWORD}", "orderdb", "${DB_NAME}").Replace(text(t, "connector.json"))
	files := []debezium.File{{Name: "connector.json", Data: []byte(connector)}, {Name: "worker.properties", Data: []byte(text(t, "worker.properties"))}, {Name: ".env", Data: []byte("DB_USER=relay\nDB_PASSWORD=hunter2\n")}}
	yaml, err := debezium.Import(files, environment(), nil, bytea)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"user=relay", "dbname='${DB_NAME}'", "password='${DB_PASSWORD}'", "# Set the environment variable DB_PASSWORD to its value in .env.", "# Set the environment variable DB_NAME to what is filled in for it before Kafka Connect sees the connector."} {
		if !strings.Contains(string(yaml), want) || strings.Contains(string(yaml), "hunter2") {
			t.Errorf("no %s in\n%s", want, yaml)
		}
	}
	told, _ := fates(t, files, bytea)
	if told["$DB_USER"].Fate != debezium.Kept || told["$DB_PASSWORD"].Fate != debezium.Kept {
		t.Errorf("%+v", told)
	}
}
