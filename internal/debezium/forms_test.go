package debezium_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/tailbox/tailbox/internal/debezium"
)

// withoutTitle is a result without the line that names the files, and without what is only left out.
func withoutTitle(yaml []byte) string {
	_, text, _ := strings.Cut(string(yaml), "\n")
	text, _, _ = strings.Cut(text, "\n# Left out")
	return strings.TrimSpace(text)
}

// indent writes a text deeper.
func indent(text string, depth int) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", depth))
}

// yamlOf writes the options of the connector as a mapping of YAML, but for those that are left out.
func yamlOf(t *testing.T, depth int, without ...string) string {
	t.Helper()
	var whole struct{ Config map[string]any }
	if err := json.Unmarshal([]byte(text(t, "connector.json")), &whole); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for key, value := range whole.Config {
		if strings.Contains(" "+strings.Join(without, " ")+" ", " "+key+" ") {
			continue
		}
		fmt.Fprintf(&b, "%s%s: %q\n", strings.Repeat(" ", depth), key, fmt.Sprint(value))
	}
	return b.String()
}

// specOnly leaves out of options what stands beside them in a KafkaConnector.
func specOnly(options string) string {
	return regexp.MustCompile(`"(connector\.class|tasks\.max)":[^,]*,`).ReplaceAllString(options, "")
}

// utf16Text is a text in UTF-16, with its mark in front.
func utf16Text(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune("\uFEFF" + text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// encoded is a text as JSON.
func encoded(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestImportForms: a connector and its worker say the same in whatever form they are written down.
func TestImportForms(t *testing.T) {
	t.Parallel()
	connector, worker := text(t, "connector.json"), text(t, "worker.properties")
	want, err := debezium.Import(files(t, "worker.properties", "connector.json"), environment(), nil, bytea)
	if err != nil {
		t.Fatal(err)
	}
	options := connector[strings.Index(connector, `"config": `)+len(`"config": `) : strings.LastIndex(connector, "}")]
	const other = `{"name": "files", "config": {"connector.class": "FileStreamSource"}}`
	strimzi := "# the outbox\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnector\nmetadata:\n  name: outbox-connector\n  labels: {strimzi.io/cluster: c}\nspec:\n  class: io.debezium.connector.postgresql.PostgresConnector\n" +
		"  tasksMax: 1\n  config:\n" + yamlOf(t, 4, "connector.class", "tasks.max")
	cluster := "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnect\nmetadata: {name: c}\nspec:\n  bootstrapServers: kafka-1:9092\n  config:\n    group.id: connect\n    key.converter: org.apache.kafka.connect.storage.StringConverter\n" +
		"    value.converter: org.apache.kafka.connect.json.JsonConverter\n    producer.compression.type: zstd\n"
	for name, c := range map[string][]string{
		"with a BOM":                  {worker, "\uFEFF" + connector},
		"with comments":               {worker, "// the outbox\n# of orders\n/* and\nmore */\n" + connector},
		"in UTF-16":                   {worker, utf16Text(connector, binary.LittleEndian)},
		"in UTF-16, the other way":    {worker, utf16Text(connector, binary.BigEndian)},
		"Confluent for Kubernetes":    {worker, "apiVersion: platform.confluent.io/v1beta1\nkind: Connector\nmetadata: {name: outbox-connector}\nspec:\n  class: io.debezium.connector.postgresql.PostgresConnector\n  taskMax: 1\n  configs:\n" + yamlOf(t, 4, "connector.class", "tasks.max")},
		"a list of one":               {worker, "[" + connector + "]"},
		"a list of several":           {worker, "[" + other + ", " + connector + "]"},
		"expand=info":                 {worker, `{"files": {"info": ` + other + `, "status": {}}, "outbox-connector": {"info": ` + connector + `, "status": {"name": "outbox-connector"}}}`},
		"a script":                    {worker, "#!/bin/sh\nset -e\ncurl -sS -X POST http://localhost:8083/connectors \\\n  -H 'Content-Type: application/json' -d '" + connector + "'\n"},
		"a script with double quotes": {worker, "curl -sS -X PUT \"$HOST/connectors/x/config\" -d \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(connector) + "\" | jq '.state'\n"},
		"a script with a document":    {worker, "f() {\n  cat <<JSON | curl -d @- $HOST\n" + strings.NewReplacer(`\`, `\\`, `$`, `\$`).Replace(connector) + "\nJSON\n}\ncurl $HOST/x | jq '.a // \"none\" | {b: .c}'\n"},
		"a script with two documents": {worker, "cat > a <<'JSON'\n" + connector + "\nJSON\ncat > b <<'JSON'\n" + other + "\nJSON\nfor f in a b; do curl -d @$f $HOST; done\n"},
		"a script in pieces":          {worker, "curl -d '" + strings.Replace(connector, "outbox-connector", `outbox'"-"'connector`, 1) + "' $HOST\n"},
		"a script with variables": {worker, "NAME=outbox-connector\nDIR=${DIR:-inventory}\nfor i in 1 2; do sleep 1; done\ncurl -d @- $HOST <<JSON\n" +
			strings.NewReplacer(`$`, `\$`, "outbox-connector", "$NAME", "inventory.", "${DIR}.").Replace(connector) + "\nJSON\n"},
		"comments inside":           {worker, strings.Replace(connector, "{", "{ // \"the\" {outbox}\n/* { */", 1)},
		"a comment at the end":      {worker, connector + " // as for \"orders\""},
		"YAML that is indented":     {worker, "\n  " + strings.ReplaceAll(strings.TrimSpace("name: outbox-connector\nconfig:\n"+yamlOf(t, 2)), "\n", "\n  ") + "\n"},
		"a comma too many":          {worker, connector[:strings.LastIndex(connector, "}")] + ",}"},
		"the spec of a resource":    {worker, `{"name": "outbox-connector", "class": "io.debezium.connector.postgresql.PostgresConnector", "tasksMax": 1, "config": ` + specOnly(options) + `}`},
		"a ConfigMap with a script": {worker, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  start.sh: |\n    curl -d @outbox.json $HOST\n    a=b\n  outbox.json: |\n    " + indent(connector, 4) + "\n"},
		"MSK":                       {worker, `{"connectorName": "x", "connectorConfiguration": ` + strings.Replace(options, "{", `{"name": "outbox-connector",`, 1) + `, "capacity": {}}`},
		"Strimzi":                   {worker, strimzi},
		"Strimzi with its worker":   {strimzi + "---\n" + cluster},
		"a list of Kubernetes":      {"apiVersion: v1\nkind: List\nitems:\n  - " + indent(strimzi[strings.Index(strimzi, "apiVersion"):], 4) + "\n  - " + indent(cluster, 4)},
		"a list of the API":         {worker, "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnectorList\nitems:\n  - " + indent(strimzi[strings.Index(strimzi, "apiVersion"):], 4)},
		"an answer with its head":   {worker, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: Jetty(9.4.56)\r\n\r\n" + connector},
		"YAML":                      {worker, "name: outbox-connector\nconfig:\n" + yamlOf(t, 2)},
		"YAML with an anchor":       {worker, "base: &base\n  tasks.max: 1\nname: outbox-connector\nconfig:\n  <<: *base\n" + yamlOf(t, 2, "tasks.max")},
		"a ConfigMap":               {worker, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  outbox.json: |\n    " + indent(connector, 4) + "\n"},
		"a worker in a compose file": {"services:\n  db: {image: postgres, environment: {POSTGRES_PASSWORD: x}}\n  connect:\n    image: quay.io/debezium/connect\n    environment:\n      - BOOTSTRAP_SERVERS=kafka-1:9092\n" +
			"      - KEY_CONVERTER=org.apache.kafka.connect.storage.StringConverter\n      - CONNECT_PRODUCER_COMPRESSION_TYPE=zstd\n      - GROUP_ID=connect\n", connector},
		"a file of an HTTP client": {worker, "GET http://localhost:8083/connectors/\n\n### the outbox\n# @no-log\nPOST http://localhost:8083/connectors/ HTTP/1.1\nContent-Type: application/json\n\n" + connector + "\n\n# sent\n###\nDELETE {{host}}/connectors/x\n"},
		"a file of Hurl":           {worker, "POST {{host}}/connectors\nAccept: */*\n" + connector + "\nHTTP 201\n[Asserts]\njsonpath \"$.name\" exists\n\nPUT {{host}}/connectors/files/config\n```json\n" + other + "\n```\n"},
		"such a file of Windows":   {worker, strings.ReplaceAll("POST {{host}}/connectors\n\n"+connector, "\n", "\r\n")},
		"one request of several":   {worker, "PUT /connectors/files/config\n\n" + other + "\nPOST /connectors\nAccept: */*\n\n" + connector},
		"a collection of Postman": {worker, `{"info": {"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}, "item": [{"name": "folder", "item": [{"request": {"method": "GET"}}, {"request": {"body": {"mode": "raw", "raw": ` +
			encoded(t, connector) + `}}, "response": [{"originalRequest": {"body": {"raw": ` + encoded(t, connector) + `}}}]}]}]}`},
		// as in arconsis/Eshop-EDA
		"requests with lists": {worker, "POST /connectors\n\n[" + other + "]\n\nPOST /connectors\n\n[" + connector + "]\n"},
		// as in rodriguez-rodrigo/event-driven-architecture-java-kafka
		"a collection with a request that deletes": {worker, `{"info": {"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}, "item": [` +
			`{"request": {"method": "DELETE", "body": {"raw": ` + encoded(t, connector) + `}, "url": {"raw": "{{host}}/connectors/outbox-connector"}}}, ` +
			`{"request": {"method": "PUT", "body": {"raw": ` + encoded(t, options) + `}, "url": "http://c:8083/connector-plugins/PostgresConnector/config/validate"}}, ` +
			`{"request": {"method": "POST", "body": {"raw": ` + encoded(t, connector) + `}, "url": "{{host}}/connectors"}}]}`},
		"a script that deletes": {worker, "curl -X DELETE -d '" + strings.Replace(connector, "5432", "1", 1) + "' http://c:8083/connectors/outbox-connector\ncurl -d '" + connector + "' http://c:8083/connectors\n"},
		"create or update":      {worker, "curl -f -d '" + connector + "' http://c:8083/connectors || curl -X PUT -d '" + options + "' http://c:8083/connectors/outbox-connector/config\n"},
		"a PUT's variable":      {worker, "# /connectors/x/config\nN=outbox-connector\ncurl -X PUT -d '" + options + "' http://c:8083/connectors/$N/config\n"},
		"beside Python":         {worker, connector, "python3 - <<'PY'\nrequest(\"POST\", {\"name\": n, \"config\": c})\nPY\ncurl http://c:8083/connectors/x/status\n"},
		"the defaults of Strimzi": {strings.Replace(cluster, "    key.converter: org.apache.kafka.connect.storage.StringConverter\n    value.converter: org.apache.kafka.connect.json.JsonConverter\n", "", 1),
			strings.Replace(connector, `"tasks.max": 1`, `"tasks.max": 1, "key.converter": "org.apache.kafka.connect.storage.StringConverter"`, 1)},
		"a worker inside ksqlDB": {"KSQL_CONNECT_BOOTSTRAP_SERVERS=kafka-1:9092\nKSQL_CONNECT_GROUP_ID=connect\nKSQL_CONNECT_KEY_CONVERTER=org.apache.kafka.connect.storage.StringConverter\nKSQL_CONNECT_VALUE_CONVERTER=org.apache.kafka.connect.json.JsonConverter\nKSQL_CONNECT_PRODUCER_COMPRESSION_TYPE=zstd\n", connector},
		"an older worker":        {strings.Replace(cluster, "kind: KafkaConnect", "kind: KafkaConnectS2I", 1), connector},
		"a table twice":          {worker, strings.Replace(connector, `"inventory.outboxevent`, `"inventory.outboxevent,inventory.outboxevent`, 1)},
		"a PUT's address":        {worker, "curl -X PUT -d '" + options + "' http://c:8083/connectors/outbox-connector/config\n"},
		"jq's config":            {worker, "curl -X PUT -d \"$(jq -c .config <<'EOF'\n" + connector + "\nEOF\n)\" http://c:8083/connectors/outbox-connector/config\n"},
		"another shell's":        {worker, "docker exec connect sh -c \"curl -d '" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(connector) + "' http://localhost:8083/connectors\"\n"},
		"wget's":                 {worker, "wget --post-data='" + connector + "' http://c:8083/connectors\n"},
		"HTTPie's":               {worker, "http :8083/connectors name=outbox-connector config:='" + strings.Replace(options, "{", `{"name": "outbox-connector",`, 1) + "'\n"},
		// as in danielnuriyev/opentofu-debezium
		"a ConfigMap of another program": {worker + "\n", "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n    startDelaySeconds: 0\n    rules:\n      - pattern: debezium.([^:]+)\n  alerts.yaml: |\n    text: {{ $value }}\n---\n" + strimzi},
		// as in himnay/learning-debezium
		"an export of Insomnia": {worker, `{"_type": "export", "__export_source": "insomnia.desktop.app:v11", "resources": [{"_type": "workspace"}, {"_type": "request", "body": {"mimeType": "application/json", "text": ` +
			encoded(t, connector) + `}}]}`},
		"a function's argument":              {worker, "register() {\n  http PUT \"$1/connectors/$2/config\" <<<\"$3\"\n}\nregister http://connect:8083 outbox '" + connector + "'\n"},
		"another command's text":             {worker, "playground connector create --name outbox << 'EOF'\n" + connector + "\nEOF\n"},
		"a KafkaConnector in a script":       {worker, "#!/bin/sh\nkubectl -n kafka apply -f - <<'EOF'\n" + strimzi + "EOF\nkubectl wait --for=condition=Ready kafkaconnector/x\n"},
		"its worker there, too":              {"NAME=outbox-connector\ncat <<EOF | oc apply -f -\n" + strings.NewReplacer(`\`, `\\`, `$`, `\$`, "name: outbox-connector", "name: $NAME").Replace(strimzi+"---\n"+cluster) + "EOF\n"},
		"a KafkaConnector behind tabs":       {worker, "apply() {\n\tkubectl apply -f - <<-'EOF'\n\t" + strings.ReplaceAll(strings.TrimSpace(strimzi), "\n", "\n\t") + "\n\tEOF\n}\n"},
		"a KafkaConnector in Markdown":       {worker, "# It's an outbox\n\n1. Apply:\n\n   ```sh\n   kubectl apply -f - <<'EOF'\n   " + indent(strimzi, 3) + "\n   EOF\n   ```\n"},
		"a file that a page holds and sends": {worker, "Write `outbox.json`:\n\n```json\n" + connector + "\n```\n\n```sh\ncurl -d @outbox.json http://c:8083/connectors\n```\n"},
		"a worker's .env":                    {"CONNECT_BOOTSTRAP_SERVERS=kafka-1:9092\nCONNECT_KEY_CONVERTER=\"org.apache.kafka.connect.storage.StringConverter\"\nexport CONNECT_PRODUCER_COMPRESSION_TYPE=zstd\n", connector},
	} {
		var all []debezium.File
		for i, data := range c {
			all = append(all, debezium.File{Name: fmt.Sprintf("file%d", i), Data: []byte(data)})
		}
		got, err := debezium.Import(all, environment(), nil, bytea)
		if strings.Contains(strings.Join(c, ""), other) != strings.Contains(string(got), "#   connector files: it has no outbox event router\n") {
			t.Errorf("%s: the other connector is not told, or one that is not there:\n%s", name, got)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if withoutTitle(got) != withoutTitle(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, withoutTitle(got), withoutTitle(want))
		}
	}
}

// TestImportServerForms: Debezium Server's options in its environment, and in the resource of its operator.
func TestImportServerForms(t *testing.T) {
	t.Parallel()
	const properties = "debezium.sink.type=kafka\ndebezium.sink.kafka.producer.bootstrap.servers=k:9092\ndebezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer\n" +
		"debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer\n" +
		"debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector\ndebezium.source.database.hostname=db\ndebezium.source.database.user=u\ndebezium.source.database.password=${DB_PASSWORD}\n" +
		"debezium.source.database.dbname=shop\ndebezium.source.topic.prefix=shop\ndebezium.source.table.include.list=public.outbox\ndebezium.source.plugin.name=pgoutput\ndebezium.format.key=simplestring\n" +
		"debezium.format.value=simplestring\ndebezium.format.header.schemas.enable=false\ndebezium.transforms=t0\ndebezium.transforms.t0.type=io.debezium.transforms.outbox.EventRouter\n" +
		"debezium.transforms.t0.route.topic.replacement=orders\n"
	want, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(properties)}}, environment("DB_PASSWORD", "x"), nil, bytea)
	if err != nil {
		t.Fatal(err)
	}
	var dotenv, compose, containers strings.Builder
	for line := range strings.Lines(properties) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		name := strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		fmt.Fprintf(&dotenv, "%s=%s\n", name, value)
		fmt.Fprintf(&compose, "      %s: %s\n", name, value)
		fmt.Fprintf(&containers, "            - name: %s\n              value: %q\n", name, value)
	}
	const idle = "DEBEZIUM_SOURCE_OFFSET_STORAGE_FILE_FILENAME"
	const operator = `apiVersion: debezium.io/v1alpha1
kind: DebeziumServer
metadata: {name: shop}
spec:
  version: 3.0.0.Final
  sink:
    type: kafka
    config:
      producer.bootstrap.servers: k:9092
      producer.key.serializer: org.apache.kafka.common.serialization.StringSerializer
      producer.value.serializer: org.apache.kafka.common.serialization.StringSerializer
  format: {key: {type: simplestring}, value: {type: simplestring}, header: {config: {schemas.enable: false}}}
  source:
    class: io.debezium.connector.postgresql.PostgresConnector
    config: {database.hostname: db, database.user: u, database.password: "${DB_PASSWORD}", database.dbname: shop, topic.prefix: shop, table.include.list: public.outbox, plugin.name: pgoutput}
  transforms:
    - type: io.debezium.transforms.outbox.EventRouter
      config: {route.topic.replacement: orders}
`
	const nested = `debezium:
  sink: {type: kafka, kafka: {producer: {bootstrap.servers: k:9092, key: {serializer: org.apache.kafka.common.serialization.StringSerializer}, value.serializer: org.apache.kafka.common.serialization.StringSerializer}}}
  source:
    connector: {class: io.debezium.connector.postgresql.PostgresConnector}
    database: {hostname: db, user: u, password: "${DB_PASSWORD}", dbname: shop}
    topic.prefix: shop
    table: {include: {list: [public.outbox]}}
    plugin: {name: pgoutput}
  format: {key: simplestring, value: simplestring, header: {~: json, schemas: {enable: false}}}
  transforms: {~: t0, t0: {type: io.debezium.transforms.outbox.EventRouter, route: {topic: {replacement: orders}}}}
`
	for name, data := range map[string]string{
		"nested.yaml":  nested,
		".env":         dotenv.String() + idle + "=data/offsets.dat\n",
		"compose.yml":  "services:\n  debezium:\n    image: quay.io/debezium/server:3.0\n    environment:\n" + compose.String() + "      " + idle + ": data/offsets.dat\n",
		"deploy.yaml":  "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: debezium\n          env:\n" + containers.String() + "---\napiVersion: v1\nkind: Service\nspec: {ports: []}\n",
		"server.yaml":  operator,
		"config.yaml":  "apiVersion: v1\nkind: ConfigMap\ndata:\n  application.properties: |\n    " + indent(properties, 4) + "\n",
		"profile.yaml": "apiVersion: v1\nkind: ConfigMap\ndata:\n" + strings.ReplaceAll(compose.String(), "      ", "  "),
	} {
		got, err := debezium.Import([]debezium.File{{Name: name, Data: []byte(data)}}, environment("DB_PASSWORD", "x"), nil, bytea)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a, b := values(withoutTitle(got)), values(withoutTitle(want))
		if a != b {
			t.Errorf("%s: got\n%s\nwant\n%s", name, a, b)
		}
	}
	// A password that stands in a secret stays a reference.
	secret := "kind: Pod\nspec:\n  containers:\n    - name: debezium\n      env:\n" + strings.ReplaceAll(containers.String(), "        ", "    ")
	secret = strings.Replace(secret, `value: "${DB_PASSWORD}"`, "valueFrom: {secretKeyRef: {name: s, key: k}}", 1)
	got, err := debezium.Import([]debezium.File{{Name: "pod.yaml", Data: []byte(secret)}}, environment(), nil, bytea)
	if err != nil || !strings.Contains(string(got), "password='${DEBEZIUM_SOURCE_DATABASE_PASSWORD}'") {
		t.Errorf("a secret: %v\n%s", err, got)
	}
}

// values is a result without its comments, which name options or variables.
func values(yaml string) string {
	var b strings.Builder
	for line := range strings.Lines(yaml) {
		line, _, _ = strings.Cut(line, " #")
		if line = strings.TrimRight(line, " \n"); line != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// TestImportStrangeForms: what cannot be read is named.
func TestImportStrangeForms(t *testing.T) {
	t.Parallel()
	connector := text(t, "connector.json")
	class := func(sign string) string {
		return `"connector.class" ` + sign + ` "io.debezium.connector.postgresql.PostgresConnector"`
	}
	for name, c := range map[string]struct{ data, want string }{
		"ksqlDB":                      {"-- the outbox\nCREATE SOURCE CONNECTOR outbox WITH ('connector.class' = 'x');", "ksqlDB"},
		"Terraform":                   {`resource "confluent_connector" "outbox" {` + "\n}\n", "Terraform"},
		"another of Terraform":        {`resource "kafka-connect_connector" "outbox" {` + "\n  config = {\n    " + class("=") + "\n  }\n}\n", "a resource of Terraform"},
		"variables of Terraform":      {"outbox = {\n  " + class("=") + "\n}\n", "a form that tailbox does not read: give the answer of GET"},
		"PowerShell":                  {"$outbox = @{\n  " + class("=") + "\n} | ConvertTo-Json\nInvoke-RestMethod -Uri $url -Body $outbox\n", "a script of PowerShell"},
		"a worker alone":              {"kind: KafkaConnect\nspec: {bootstrapServers: 'k:9092'}\n", "these are the options of a worker of Kafka Connect: give the connector too"},
		"a collector's file":          {"services:\n  otel: {image: otel, command: ['--config=/etc/otel.yml']}\n  connect: {image: debezium/connect, environment: {BOOTSTRAP_SERVERS: 'k:9092', GROUP_ID: c}, healthcheck: {test: curl -f http://localhost:8083/connectors}}\n", "connector.class: is missing"},
		"comments":                    {"# " + class("=") + "\n; " + class("=") + "\n", "each of its lines begins with ;"},
		"a program":                   {"config = {" + class(":") + "}\nrequests.post(url, json=config)\n", "a form that tailbox does not read"},
		"a Template":                  {"apiVersion: v1\nkind: Template\nobjects:\n- apiVersion: kafka.strimzi.io/v1beta2\n  kind: KafkaConnector\n  spec: {class: x, tasksMax: '${{MAX}}', config: {a: '${A}'}}\n", "give what `oc process -f file --local -o yaml` prints"},
		"a line behind comments":      {"// the outbox\n\n/* of\norders */ " + strings.Replace(connector, ",", "", 1), "line 6, column"},
		"a line of YAML":              {"\n\n---\nconfig:\n  a: {b: c}\n", "file:5: a: must be a text"},
		"values of Helm":              {"---\ncdc:\n  connectors:\n    - name: outbox\n      config:\n        " + class(":") + "\n", "if these are the values of a Helm chart, give what helm template prints"},
		"a Job":                       {"apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n        - command: [sh, -c, 'post {" + class(":") + "}']\n", "a form that tailbox does not read"},
		"a request that deletes":      {"curl -X DELETE -d '" + connector + "' http://connect:8083/connectors/x\n", "the script sends it only to have it deleted or checked"},
		"the same without router":     {strings.Repeat("curl -d '"+strings.ReplaceAll(connector, "EventRouter", "Other")+"' http://c:8083/connectors\n", 2), "transforms.outbox.type"},
		"two that differ":             {"curl -d '" + connector + "' http://c:8083/connectors\ncurl -d '" + strings.Replace(connector, "5432", "1", 1) + "' http://c:8083/connectors\n", "it holds 2 connectors"},
		"two requests":                {"POST /connectors\n\n" + connector + "\n###\nPOST /connectors\n\n" + strings.Replace(connector, "outbox-connector", "second", 1), "it holds 2 connectors"},
		"a request of a file":         {"POST /connectors\n\n< ./outbox.json\n", "it sends ./outbox.json: give that file"},
		"a request of Hurl's file":    {"POST /connectors\nfile,conf/outbox.json;\nHTTP 201\n", "it sends conf/outbox.json: give that file"},
		"a request of nothing":        {"POST /connectors\n\n{}\n", "no request in it sends a connector"},
		"a broken request":            {"POST /connectors\n\n" + strings.Replace(connector, ",", "", 1), "JSON: cannot be read"},
		"a template of a request":     {"POST /connectors\n\n" + strings.Replace(connector, `"5432"`, "{{port}}", 1), "it is a template"},
		"Go's code":                   {"var c = map[string]string{\n\t" + `"connector.class":              "io.debezium.connector.postgresql.PostgresConnector",` + "\n}\n", "a form that tailbox does not read"},
		"Kotlin's code":               {"val c = mapOf(\n  " + class("to") + ",\n)\n", "a form that tailbox does not read"},
		"a check's answer":            {`{"name": "x", "error_count": 0, "configs": [{"value": {"name": "connector.class", "value": "x"}}]}`, "it says how a connector is"},
		"a status":                    {`{"name": "x", "connector": {"state": "RUNNING"}, "tasks": [{"id": 0}]}`, "it says how a connector is"},
		"a compose command's file":    {"services:\n  register:\n    image: curlimages/curl\n    command: [sh, -c, \"curl -X PUT http://c:8083/connectors/o/config -d @/outbox.json\"]\n", "it sends /outbox.json: give that file"},
		"connectors without a router": {"POST /connectors\n\n" + `{"name": "a", "config": {"connector.class": "x"}}` + "\n\nPOST /connectors\n\n" + `{"name": "b", "config": {"connector.class": "x"}}` + "\n", "of which none has an outbox event router"},
		"a script of a variable":      {"post() {\n  code=$(curl -sf --data-binary @\"${config_file}\" http://localhost:8083/connectors)\n}\n", "it sends ${config_file}: give that file"},
		"a broken KafkaConnector":     {"kubectl apply -f - <<'EOF'\napiVersion: v1\nkind: KafkaConnector\nspec: {class: x\nEOF\n", "YAML: cannot be read"},
		"its placeholder":             {"kubectl apply -f - <<EOF\napiVersion: v1\nkind: KafkaConnector\nspec: {config: {a: '${routedByValue}'}}\nEOF\n", "the shell replaces ${routedByValue}"},
		"extends":                     {"services: {a: {extends: {file: b.yaml, service: s}, environment: {DEBEZIUM_SINK_TYPE: kafka}}}\n", "services.a.extends: is not read: give what `docker compose config` prints"},
		"a command of variables":      {"kind: Pod\nspec: {containers: [{image: debezium/server, args: ['export DEBEZIUM_FORMAT_VALUE=json; exec run.sh']}]}\n", `args "DEBEZIUM_FORMAT_VALUE=": sets an option in the command, which is not read`},
		"a command of Java":           {"services: {a: {image: debezium/server, command: java -Ddebezium.format.value=json}}\n", `services.a.command "-Ddebezium.format.value=": sets an option in the command`},
		"an entrypoint":               {"services: {a: {image: debezium/server, entrypoint: [java, -D%prod.debezium.sink.type=http]}}\n", `services.a.entrypoint "-D%prod.debezium.sink.type="`},
		"a mounted folder":            {"services: {a: {image: debezium/server, volumes: [{source: ./conf, target: /debezium/config/}]}}\n", `services.a.volumes "/debezium/config/": is not read: give the application.properties`},
		"a script of a file":          {"curl -X POST -H 'Accept: */*' --data @conf/register.json http://localhost:8083/connectors\n", "it sends conf/register.json: give that file"},
		"Quarkus":                     {"quarkus.debezium.plugin.name=pgoutput\nquarkus.debezium.transforms=t0\n", "is of an extension of Quarkus in the application"},
		"Quarkus's outbox":            {"quarkus.debezium-outbox.table-name=events\n", "give the configuration of the connector that reads it"},
		"a placeholder":               {"services: {d: {environment: {DEBEZIUM_SOURCE_CONNECTOR_CLASS: io.debezium.connector.postgresql.PostgresConnector, DEBEZIUM_TRANSFORMS: o, DEBEZIUM_TRANSFORMS_O_TYPE: io.debezium.transforms.outbox.EventRouter, DEBEZIUM_TRANSFORMS_O_ROUTE_TOPIC_REPLACEMENT: \"$${routedByValue}\"}}}\n", "write $$$${routedByValue}"},
		"HTML":                        {"<html></html>", "HTML"},
		"two documents":               {"kind: KafkaConnector\nspec: {config: {transforms.o.type: io.debezium.transforms.outbox.EventRouter}}\n---\nkind: KafkaConnector\nmetadata: {name: second}\nspec: {config: {transforms.o.type: io.debezium.transforms.outbox.EventRouter}}\n", "2 connectors"},
		"two servers":                 {"services:\n  a: {environment: {DEBEZIUM_SINK_TYPE: kafka}}\n  b: {environment: {DEBEZIUM_SINK_TYPE: http}}\n", "a second Debezium Server"},
		"an env_file":                 {"services:\n  a:\n    env_file: x\n    environment: {DEBEZIUM_SINK_TYPE: kafka}\n", "env_file"},
		"envFrom":                     {"kind: Pod\nspec: {containers: [{env: [{name: DEBEZIUM_SINK_TYPE, value: kafka}], envFrom: [{secretRef: {name: s}}]}]}\n", "envFrom"},
		"an alternative":              {"services: {a: {environment: {DEBEZIUM_SINK_TYPE: \"${X:+kafka}\"}}}\n", ":+"},
		"binaryData":                  {"kind: ConfigMap\nbinaryData: {c.json: e30=}\n", "binaryData: is not read: it is in base64"},
		"deep JSON":                   {strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "too large"},
		"two outboxes":                {"[" + connector + "," + strings.Replace(connector, "outbox-connector", "second", 1) + "]", "second"},
		"broken JSON":                 {`{"name": `, "cannot be read"},
		"more JSON":                   {connector + connector, "after top-level value"},
		"a text":                      {"--- just a text\n", "no options"},
		"nested options":              {`{"name": "x", "config": {"a": {"b": 1}}}`, "must be a text"},
		"a bomb":                      {"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nconfig: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "too large"},
	} {
		_, err := debezium.Import([]debezium.File{{Name: "file", Data: []byte(c.data)}}, environment(), nil, bytea)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// Variables of a compose file and of Kubernetes are what those make of them, and other processes' count for nothing.
func TestImportVariablesOfFiles(t *testing.T) {
	t.Parallel()
	const compose = `include: [db.yaml]
services:
  app: {environment: {BOOTSTRAP_SERVERS: "other:9092", DEBEZIUM: "x"}}
  server:
    image: quay.io/debezium/server
    healthcheck: {test: ["CMD-SHELL", "curl -f http://localhost:8080/q/health || exit 1"]}
    environment:
      DEBEZIUM_SINK_TYPE: http
      DEBEZIUM_SINK_HTTP_URL: "http://$HOST_NAME/x"
      DEBEZIUM_SINK_HTTP_HEADERS_PREFIX: ""
      DEBEZIUM_SINK_HTTP_HEADERS_ENCODE_BASE64: "false"
      DEBEZIUM_SOURCE_CONNECTOR_CLASS: io.debezium.connector.postgresql.PostgresConnector
      DEBEZIUM_SOURCE_DATABASE_HOSTNAME: ${DB_HOST:-db}
      DEBEZIUM_SOURCE_DATABASE_USER: u
      DEBEZIUM_SOURCE_DATABASE_PASSWORD: a$$b
      DEBEZIUM_SOURCE_DATABASE_DBNAME: shop
      DEBEZIUM_SOURCE_TOPIC_PREFIX: shop
      DEBEZIUM_SOURCE_TABLE_INCLUDE_LIST: public.outbox
      DEBEZIUM_SOURCE_PLUGIN_NAME: pgoutput
      DEBEZIUM_FORMAT_KEY: simplestring
      DEBEZIUM_FORMAT_VALUE: simplestring
      DEBEZIUM_FORMAT_HEADER_SCHEMAS_ENABLE: "false"
      debezium.transforms: o
      debezium.transforms.o.type: io.debezium.transforms.outbox.EventRouter
`
	got, err := debezium.Import([]debezium.File{{Name: "compose.yaml", Data: []byte(compose)}}, environment(), nil, bytea)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"${HOST_NAME}", "${DB_HOST:-db}", "password=a$b", "#   include: "} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// TestScriptRefused: what a script sends is not guessed.
func TestScriptRefused(t *testing.T) {
	t.Parallel()
	connector := text(t, "connector.json")
	for name, c := range map[string]struct{ script, want string }{
		"an unescaped placeholder": {"curl -d @- $HOST <<JSON\n" + strings.ReplaceAll(connector, `"transforms":`, `"x": "${routedByValue}", "transforms":`) + "\nJSON\n", "the shell replaces ${routedByValue}"},
		"a table like a secret":    {scriptWith(t, "TOKENS=inventory.b", "table.include.list", "$TOKENS"), "${TOKENS} has the name of a secret"},
		"two connectors":           {"curl -d '" + connector + "' $HOST\ncurl -d '" + strings.Replace(connector, "outbox-connector", "second", 1) + "' $HOST\n", "it holds 2 connectors"},
		"a loop":                   {"for name in a b; do\n  curl -d \"" + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "outbox-connector", "$name").Replace(connector) + "\" $HOST\ndone\n", "${name}, which the script does not set to one text, is not in the environment"},
		"an argument":              {"f() {\n  curl -d \"" + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "order-db", "$1").Replace(connector) + "\" $HOST\n}\nf a\n", "$1 is an argument of the script: write its value"},
		"an argument's default":    {"curl -d \"" + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "order-db", "${1:-db}").Replace(connector) + "\" $HOST\n", "${1:-db} is an argument of the script"},
		"a command":                {"curl -d \"" + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "order-db", "$(hostname -f)").Replace(connector) + "\" $HOST\n", "the shell works out $(hostname -f) before"},
		"a part of a variable":     {"curl -d \"" + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "order-db", "${DB_HOST%:*}").Replace(connector) + "\" $HOST\n", "the shell works out ${DB_HOST%:*} before"},
		"a placeholder":            {"curl -d '" + strings.Replace(connector, "order-db", "{{host}}", 1) + "' $HOST\n", `database.hostname "{{host}}": {{host}} is filled in before Debezium sees it: write the value`},
		"a missing comma":          {"curl -d '" + strings.Replace(connector, ",", "", 1) + "' $HOST\n", "cannot be read"},
		"a template":               {"{{- define \"x\" }}\n" + connector, "it is a template"},
	} {
		_, err := debezium.Import([]debezium.File{{Name: "file", Data: []byte(c.script)}}, environment(), nil, bytea)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestImportGivenBeside: what a compose file, a container or Debezium's operator names is read if it is given, and what stands beside a process counts before it.
func TestImportGivenBeside(t *testing.T) {
	t.Parallel()
	const secret = "kind: Secret\nmetadata: {name: s}\nstringData: {DB_USER: u, DEBEZIUM_SOURCE_SLOT_NAME: beside}\n"
	const other = "environment: {DEBEZIUM_SOURCE_SLOT_NAME: own}"
	for name, c := range map[string]struct{ file, beside, text, slot string }{
		"a .env file":     {"services: {d: {image: debezium/server, env_file: [./conf/d.env]}}\n", "d.env", "DEBEZIUM_SOURCE_SLOT_NAME=beside\n", "beside"},
		"variables":       {"services: {d: {env_file: {path: d.env}, " + other + "}}\n", "d.env", "DEBEZIUM_SOURCE_SLOT_NAME=beside\n", "own"},
		"a secret":        {"kind: Pod\nspec: {containers: [{image: debezium/server, envFrom: [{secretRef: {name: s}}]}]}\n", "secret.yaml", secret, "beside"},
		"a mounted file":  {"services: {d: {image: debezium/server, volumes: ['./a.properties:/debezium/conf/application.properties:ro', './k.jks:/debezium/config/k.jks'], " + other + "}}\n", "d.env", "X=y\n", "own"},
		"a mounted map":   {"kind: Pod\nspec: {containers: [{image: debezium/server, volumeMounts: [{name: c, mountPath: /debezium/config}], envFrom: [{secretRef: {name: s}}]}]}\n", "secret.yaml", secret, "beside"},
		"secrets, nested": {"kind: DebeziumServer\nspec: {runtime: {environment: {vars: [{name: X, value: y}], from: [{secretRef: {name: s}}]}}}\n", "secret.yaml", secret, "beside"},
	} {
		for _, order := range [][]string{{"a.yaml", c.file, c.beside, c.text}, {c.beside, c.text, "a.yaml", c.file}} {
			yaml := imported(t, environment(), append([]string{"application.properties", text(t, "server.properties")}, order...)...)
			if !has(yaml, fmt.Sprintf("slot: %q", c.slot)) {
				t.Errorf("%s: the slot is not %s in\n%s", name, c.slot, yaml)
			}
		}
		_, err := debezium.Import([]debezium.File{{Name: "a.yaml", Data: []byte(c.file)}}, environment(), nil, bytea)
		if err == nil || !strings.Contains(err.Error(), "is not read: give ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImportFormsBeside: what is not read does not matter if another file holds the connector.
func TestImportFormsBeside(t *testing.T) {
	t.Parallel()
	const compose = "services:\n  connect:\n    image: quay.io/debezium/connect\n    environment: {BOOTSTRAP_SERVERS: 'k:9092', KEY_CONVERTER: org.apache.kafka.connect.storage.StringConverter}\n" +
		"  setup:\n    command: [post, '{\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\"}']\n"
	if yaml := imported(t, environment(), "compose.yaml", compose, "connector.json", text(t, "connector.json")); !has(yaml, `brokers: ["k:9092"]`) {
		t.Error(yaml)
	}
	_, err := debezium.Import([]debezium.File{{Name: "compose.yaml", Data: []byte(compose)}}, environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), "compose.yaml: form: it holds a connector in a form that tailbox does not read") {
		t.Errorf("%v", err)
	}
}
