package debezium_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// serverWith is Debezium Server's configuration with options of its own in place of those that it has.
func serverWith(t *testing.T, lines ...string) string {
	t.Helper()
	return text(t, "server.properties") + "\n" + strings.Join(lines, "\n") + "\n"
}

const httpSink = `debezium.sink.type=http
debezium.sink.http.url=https://${HTTP_HOST}/in
debezium.sink.http.headers.prefix=
debezium.sink.http.headers.encode.base64=false`

// An option on which it depends what is written counts with what its variable holds; what is only copied stays a reference.
func TestImportVariables(t *testing.T) {
	t.Parallel()
	const nats = "debezium.sink.type=nats-jetstream\ndebezium.sink.nats-jetstream.url="
	const jaas = "debezium.sink.kafka.producer.sasl.jaas.config="
	for name, c := range map[string]struct {
		lines string
		env   []string
		want  string
		not   string
	}{
		"no schemas by default":     {"debezium.format.value.schemas.enable=${SCHEMAS:false}", nil, "format.value: json", "format.value.schema:"},
		"no schemas":                {"debezium.format.value.schemas.enable=${SCHEMAS}", []string{"SCHEMAS", "false"}, "format.value: json", "format.value.schema:"},
		"schemas":                   {"debezium.format.key=${F}\ndebezium.format.key.schemas.enable=${SCHEMAS:false}", []string{"SCHEMAS", "true", "F", "json"}, `format.key.schema: "\"string\""`, ""},
		"header schemas":            {"debezium.format.header.schemas.enable=${SCHEMAS:true}", []string{"SCHEMAS", "false"}, "format.header: json", "format.header.schema:"},
		"a batch":                   {httpSink + "\ndebezium.sink.http.batch.enabled=${BATCH:true}\ndebezium.sink.http.batch.max-size=${N}", []string{"N", "7"}, "format: array", "format: single"},
		"its size":                  {httpSink + "\ndebezium.sink.http.batch.enabled=${BATCH:true}\ndebezium.sink.http.batch.max-size=${N}", []string{"N", "7"}, "max_batch: 7", ""},
		"no batch":                  {httpSink + "\ndebezium.sink.http.batch.enabled=${BATCH:true}", []string{"BATCH", "false"}, "format: single", ""},
		"a timeout":                 {httpSink + "\ndebezium.sink.http.timeout.ms=${MS:500}", nil, "timeout: 500ms", ""},
		"an address":                {httpSink, nil, `url: "https://${HTTP_HOST}/in"`, ""},
		"several brokers":           {"debezium.sink.kafka.producer.bootstrap.servers=${BROKERS}", []string{"BROKERS", "a:9092,b:9092"}, `brokers: ["a:9092", "b:9092"]`, ""},
		"several by default":        {"debezium.sink.kafka.producer.bootstrap.servers=${BROKERS:a:9092,b:9092}", nil, `brokers: ["a:9092", "b:9092"]`, ""},
		"one for several":           {"debezium.sink.kafka.producer.bootstrap.servers=${BROKERS:a:9092,b:9092}", []string{"BROKERS", "c:1"}, `brokers: ["c:1"]`, ""},
		"one broker":                {"debezium.sink.kafka.producer.bootstrap.servers=${BROKERS}", []string{"BROKERS", "a:9092"}, `brokers: ["${BROKERS}"]`, ""},
		"brokers not known yet":     {"debezium.sink.kafka.producer.bootstrap.servers=${A:x:1},${B}:9092", nil, `brokers: ["${A:-x:1}", "${B}:9092"]`, ""},
		"several behind a property": {"debezium.sink.kafka.producer.bootstrap.servers=${all.brokers}\nall.brokers=${BROKERS}", []string{"BROKERS", "a:1,b:2"}, `brokers: ["a:1", "b:2"]`, ""},
		"several servers":           {nats + "${NATS}", []string{"NATS", "nats://a,nats://b"}, `servers: ["nats://a", "nats://b"]`, ""},
		"tables":                    {"debezium.source.table.include.list=${T}", []string{"T", "a.outboxevent,c.outboxevent"}, `- name: "c.outboxevent"`, ""},
		"a sink":                    {strings.Replace(httpSink, "=http\n", "=${S}\n", 1), []string{"S", "http"}, "kind: http", "kind: kafka"},
		"a format":                  {"debezium.format.value=${F}", []string{"F", "binary"}, "format.value: binary", ""},
		"a property's format":       {"debezium.format.value=${my.format}\nmy.format=${F:x}nary", []string{"F", "bi"}, "format.value: binary", ""},
		"a variable's format":       {"debezium.format.value=${F}", []string{"F", "${G:json}", "G", "binary"}, "format.value: binary", ""},
		"a pipeline":                {"debezium.source.topic.prefix=${P}", []string{"P", "orders"}, "pipeline: orders", ""},
		"transformations":           {"debezium.transforms=${ALL}", []string{"ALL", "outbox", "DEBEZIUM_TRANSFORMS_OUTBOX_TABLE_FIELD_EVENT_KEY", "kee"}, `table.field.event.key: "kee"`, ""},
		"an expanded payload":       {"debezium.transforms.outbox.table.expand.json.payload=${E}", []string{"E", "false"}, `table.expand.json.payload: "false"`, "Nulls and empty"},
		"a topic":                   {"debezium.transforms.outbox.route.topic.replacement=${STAGE}.$${routedByValue}", []string{"STAGE", "test"}, `route.topic.replacement: "${STAGE}.${routedByValue}"`, ""},
		"a plugin":                  {"debezium.source.plugin.name=${PLUGIN:pgoutput}", nil, `slot: "orders"`, ""},
		"a slot":                    {"debezium.source.slot.name=${SLOT:x}", []string{"SLOT", "y"}, `slot: "${SLOT:-x}"`, ""},
		"a class":                   {"debezium.source.connector.class=${CLASS}", []string{"CLASS", "io.debezium.connector.postgresql.PostgresConnector"}, "kind: postgres", ""},
		"harmless":                  {"debezium.source.binary.handling.mode=${MODE:bytes}", nil, "kind: postgres", ""},
		"a protocol":                {"debezium.sink.kafka.producer.security.protocol=${P}", []string{"P", "PLAINTEXT"}, "kind: kafka", "sasl:"},
		"a compression":             {"debezium.sink.kafka.producer.compression.type=${C:lz4}", []string{"C", "zstd"}, `compression: "zstd"`, ""},
		"a client":                  {"debezium.sink.kafka.producer.client.id=relay-${HOSTNAME}", []string{"HOSTNAME", "h"}, `client_id: "relay-${HOSTNAME}"`, ""},
		"a login":                   {jaas + "${JAAS}", []string{"JAAS", `ScramLoginModule required username="env" password="p";`}, `username: "env"`, ""},
		"a login's password":        {jaas + `ScramLoginModule required username="${U:u}" password="${P}";`, []string{"U", "env", "P", `"`}, `password: "${P}"`, ""},
		"a heartbeat":               {"debezium.source.heartbeat.action.query=${Q}", []string{"Q", "INSERT INTO heartbeat DEFAULT VALUES"}, `- name: "inventory.outboxevent"`, `- name: "inventory.heartbeat"`},
		"an sslmode":                {"debezium.source.database.sslmode=Verify-Full", nil, `url: "host=db.example.org port=5432 dbname=postgres user=postgres password='it\\'s \\\\ ${PGPASSWORD}' sslmode=verify-full"`, ""},
		"a port":                    {"quarkus.http.port=${PORT:8080}", nil, `listen: "127.0.0.1:8080"`, ""},
		"no effect":                 {"debezium.source.poll.interval.ms=${MODE}\nquarkus.log.level=${LEVEL}\nmy.own=${X}", nil, "kind: kafka", ""},
	} {
		yaml := imported(t, environment(c.env...), "application.properties", serverWith(t, c.lines))
		if !has(yaml, c.want) || c.not != "" && strings.Contains(yaml, c.not) {
			t.Errorf("%s: no %s, or there is %q, in\n%s", name, c.want, c.not, yaml)
		}
	}
}

// TestImportVariablesThatFilesSet: what a file sets a variable to counts before a default, wherever it is referred to and wherever the file stands among the others. A
// secret stays a reference.
func TestImportVariablesThatFilesSet(t *testing.T) {
	t.Parallel()
	const topic, host, password = "debezium.transforms.outbox.route.topic.replacement=", "debezium.source.database.hostname=", "debezium.source.database.password="
	const scripted = "transforms.outbox.route.topic.replacement"
	server := func(lines ...string) []string { return []string{"application.properties", serverWith(t, lines...)} }
	composed := func(service string) []string {
		return []string{"compose.yaml", "services: {d: {image: debezium/server, environment: {" + service + "}}}\n"}
	}
	script := func(key, value string) []string {
		return []string{"register.sh", scriptWith(t, "set -a; . ./.env", key, value), "worker.properties", text(t, "worker.properties")}
	}
	env := func(lines string) []string { return []string{".env", lines} }
	connect := func(key, value, variables string) []string {
		return []string{"connector.json", connectorWith(t, key, value), "compose.yaml", "services: {c: {image: debezium/connect, environment: {BOOTSTRAP_SERVERS: 'k:9092', KEY_CONVERTER: StringConverter, " + variables + "}}}\n"}
	}
	for name, c := range map[string]struct {
		files     [][]string
		want, not string
	}{
		"a compose file":              {[][]string{server(topic + "${TOPIC:events}"), composed("TOPIC: prod")}, `route.topic.replacement: "prod"`, ""},
		"a .env file":                 {[][]string{server(host + "${DB_HOST:localhost}"), env("DB_HOST=prod\n")}, "host=prod ", ""},
		"a name in small letters":     {[][]string{server(host + "${db_host:localhost}"), env("db_host=prod\n")}, "host=prod ", ""},
		"another one's text":          {[][]string{server(host + "${DB_HOST:localhost}"), composed("DB_HOST: '${STAGE:-dev}.local'")}, "host='${STAGE:-dev}.local'", ""},
		"an option":                   {[][]string{server(), composed("DEBEZIUM_FORMAT_VALUE: '${FORMAT:-json}'"), env("FORMAT=binary\n")}, "format.value: binary", ""},
		"an option of its own name":   {[][]string{server(), composed("DEBEZIUM_FORMAT_VALUE: '${DEBEZIUM_FORMAT_VALUE:-json}'"), env("DEBEZIUM_FORMAT_VALUE=binary\n")}, "format.value: binary", "set again"},
		"its own name, no value":      {[][]string{server(), composed("DEBEZIUM_FORMAT_VALUE: "), env("DEBEZIUM_FORMAT_VALUE=binary\n")}, "format.value: binary", ""},
		"its own name's default":      {[][]string{server(topic + "${TOPIC:events}"), composed("TOPIC: '${TOPIC:-prod}'")}, `route.topic.replacement: "${TOPIC:-prod}"`, ""},
		"a default that decides":      {[][]string{server(), composed("DEBEZIUM_FORMAT_VALUE: '${DEBEZIUM_FORMAT_VALUE:-binary}'")}, "format.value: binary", ""},
		"a secret":                    {[][]string{server(password + "${DB_PASSWORD:pw}"), env("DB_PASSWORD=hidden\n")}, "password='${DB_PASSWORD}'", "hidden"},
		"a secret's place":            {[][]string{server(password + "${DB_KEY:pw}"), composed("DB_KEY: hidden")}, "# Set the environment variable DB_KEY to its value in compose.yaml.", "hidden"},
		"a secret of its own name":    {[][]string{server(), composed("DEBEZIUM_SOURCE_DATABASE_PASSWORD: '${DEBEZIUM_SOURCE_DATABASE_PASSWORD:-pw}'"), env("DEBEZIUM_SOURCE_DATABASE_PASSWORD=hidden\n")}, "password='${DEBEZIUM_SOURCE_DATABASE_PASSWORD}'", "hidden"},
		"a Secret's":                  {[][]string{server(host + "${DB_HOST:localhost}"), {"s.yaml", "kind: Secret\nstringData: {DB_HOST: hidden}\n"}}, "host='${DB_HOST}'", "hidden"},
		"a default in a .env file":    {[][]string{server(host + "${DB_HOST:localhost}"), env("DB_HOST=${STAGE:-dev}.local\n")}, "host='${STAGE:-dev}.local'", ""},
		"its own name in a .env file": {[][]string{server(host + "${DB_HOST:localhost}"), env("DB_HOST=${DB_HOST:-dev}\n")}, "host='${DB_HOST:-dev}'", ""},
		"a script's":                  {[][]string{script("database.hostname", "${DB_HOST:-localhost}"), env("DB_HOST=prod\n")}, "host=prod ", ""},
		"a script's topic":            {[][]string{script(scripted, "${TOPIC:-events}"), env("TOPIC=prod\n")}, `route.topic.replacement: "prod"`, ""},
		"a script's secret":           {[][]string{script("database.password", "$DB_KEY"), env("DB_KEY=hidden\n")}, "password='${DB_KEY}'", "hidden"},
		"a script's, empty":           {[][]string{script("database.hostname", "${DB_HOST:-localhost}"), env("DB_HOST=\n")}, "host='${DB_HOST:-localhost}'", ""},
		"a connector's":               {[][]string{connect("table.include.list", "${env:SCHEMA}.outbox", "SCHEMA: inventory")}, `- name: "inventory.outbox"`, "$SCHEMA"},
		"a connector's topic":         {[][]string{connect(scripted, "${env:TOPIC}", "TOPIC: '${STAGE:-dev}.events'"), env("STAGE=prod\n")}, `route.topic.replacement: "prod.events"`, ""},
		"a connector's secret":        {[][]string{connect("database.password", "${env:DB_PW}", "DB_PW: hidden")}, "password='${DB_PW}'", "hidden"},
		"a worker's":                  {[][]string{connect("tasks.max", "1", "CONNECT_PRODUCER_CLIENT_ID: '${ID:-a}'"), env("ID=b\n")}, `client_id: "b"`, ""},
		"KafkaConnect's": {[][]string{{"c.yaml", "kind: KafkaConnect\nspec:\n  bootstrapServers: k:9092\n  config: {key.converter: StringConverter}\n  template: {connectContainer: {env: [{name: SCHEMA, value: inventory}]}}\n"},
			{"connector.json", connectorWith(t, "table.include.list", "${env:SCHEMA}.outbox")}}, `- name: "inventory.outbox"`, ""},
		"a database's": {[][]string{connect("database.hostname", "${env:DB_HOST}", "SCHEMA: inventory"), {"db.yaml", "services: {db: {image: quay.io/debezium/example-postgres:3.0, environment: {DB_HOST: wrong}}}\n"}}, "host='${DB_HOST}'", "wrong"},
		// what Debezium Server and compose read, and tailbox.yaml does not
		"a default in a default":        {[][]string{server(host + "${DB_HOST:${PG_HOST:localhost}}")}, "host='${DB_HOST:-localhost}'", ""},
		"one in compose":                {[][]string{server(), composed("DEBEZIUM_SOURCE_DATABASE_HOSTNAME: '${A:-${B:-localhost}}'")}, "host='${A:-localhost}'", ""},
		"a secret in a default":         {[][]string{server(password + "${DB_PASSWORD:${PG_PASSWORD:hidden}}")}, "password='${DB_PASSWORD}'", "hidden"},
		"a default in one that decides": {[][]string{server("debezium.format.value=${A:${B:binary}}")}, "format.value: binary", ""},
	} {
		for range c.files {
			yaml := imported(t, environment("KAFKA_PASSWORD", "x"), slices.Concat(c.files...)...)
			if !strings.Contains(yaml, c.want) || c.not != "" && strings.Contains(yaml, c.not) {
				t.Errorf("%s: no %s, or there is %q, in\n%s", name, c.want, c.not, yaml)
			}
			c.files = append(c.files[1:], c.files[0])
		}
	}
	two := "services: {a: {image: debezium/server, environment: {T: a}}, b: {image: acme/debezium, environment: {T: b}}}\n"
	_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(serverWith(t, topic+"${T}"))}, {Name: "compose.yaml", Data: []byte(two)}}, environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), "it refers to a variable that services or containers set to different values") {
		t.Errorf("two values: %v", err)
	}
}

// A variable that decides what is written has to be there; it is told once, without what follows from it.
func TestImportUnsetVariables(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"sink.type", "format.value", "format.value.schemas.enable", "source.table.include.list", "source.connector.class", "source.plugin.name",
		"transforms", "source.topic.prefix", "source.heartbeat.action.query", "sink.kafka.producer.security.protocol", "sink.kafka.producer.sasl.jaas.config",
		"sink.kafka.producer.key.serializer", "transforms.outbox.table.expand.json.payload"} {
		_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(serverWith(t, "debezium."+option+"=${NOT_SET}"))}}, environment(), nil, bytea)
		if err == nil || strings.Count(err.Error(), "NOT_SET is not set: set it") != 1 || strings.Count(err.Error(), "debezium."+option+":")+strings.Count(err.Error(), "debezium."+option+` "`) != 1 {
			t.Errorf("%s: error %v", option, err)
		}
	}
}

// connectorWith is a connector of Kafka Connect with further options.
func connectorWith(t *testing.T, pairs ...string) string {
	t.Helper()
	json := text(t, "connector.json")
	for i := 0; i < len(pairs); i += 2 {
		line := `"` + pairs[i] + `": "` + pairs[i+1] + `"`
		old := regexp.MustCompile(`"` + regexp.QuoteMeta(pairs[i]) + `": "[^"]*"`)
		if !old.MatchString(json) {
			json = strings.Replace(json, `"tasks.max": 1`, `"tasks.max": 1, `+line, 1)
			continue
		}
		json = old.ReplaceAllLiteralString(json, line)
	}
	return json
}

// Kafka Connect's providers of configuration look references up. That of the environment does what tailbox.yaml can do too.
func TestImportConfigProviders(t *testing.T) {
	t.Parallel()
	worker := text(t, "worker.properties")
	for name, c := range map[string]struct {
		worker, key, value string
		env                []string
		want               string
	}{
		"a password":        {"", "database.password", "${env:PG_PASSWORD}", nil, "password='${PG_PASSWORD}'\""},
		"with a path":       {"", "database.password", "${env::PG_PASSWORD}", nil, "password='${PG_PASSWORD}'\""},
		"within a text":     {"", "database.hostname", "db-${env:STAGE}.example.org", nil, "host='db-${STAGE}.example.org'"},
		"another name":      {"config.providers=strimzienv\nconfig.providers.strimzienv.class=io.strimzi.kafka.EnvVarConfigProvider\n", "database.password", "${strimzienv:PG_PASSWORD}", nil, "password='${PG_PASSWORD}'\""},
		"a decision":        {"", "table.include.list", "${env:TABLES}", []string{"TABLES", "inventory.b"}, `- name: "inventory.b"`},
		"a topic":           {"", "transforms.outbox.route.topic.replacement", "${env:STAGE}.${routedByValue}", nil, `route.topic.replacement: "${STAGE}.${routedByValue}"`},
		"brokers":           {"producer.bootstrap.servers=${env:BROKERS}\n", "tasks.max", "1", []string{"BROKERS", "a:1,b:2"}, `brokers: ["a:1", "b:2"]`},
		"no effect":         {"", "poll.interval.ms", "${file:/x.properties:poll}", nil, "#   poll.interval.ms: "},
		"Strimzi's reload":  {"", "config.action.reload", "restart", nil, "#   config.action.reload: "},
		"a file":            {"", "database.password", "${file:/x.properties:db.password}", nil, "password='${DATABASE_PASSWORD}'\""},
		"of Kubernetes":     {"", "database.password", "x${secrets:ns/name:key}y", nil, "# Set the environment variable DATABASE_PASSWORD to what Kafka Connect finds as secrets:ns/name:key."},
		"two of one option": {"", "database.password", "${file:/x.properties:password}${file:/y.properties:password}", []string{"DATABASE_PASSWORD", "set"}, "password='${DATABASE_PASSWORD}${DATABASE_PASSWORD_2}'\""},
		"a table filled in": {"", "table.include.list", "${SCHEMA}.outbox", []string{"SCHEMA", "inventory"}, `- name: "inventory.outbox"`},
		"filled in":         {"", "database.hostname", "${db_host}", nil, "host='${DATABASE_HOSTNAME}'"},
		"what is filled in": {"", "database.hostname", "${db_host}", nil, "# Set the environment variable DATABASE_HOSTNAME to what is filled in for db_host before"},
		"one in another":    {"", "database.password", "${secretsmanager:${SECRET_ARN}:password}", nil, "password='${DATABASE_PASSWORD}'\""},
		"no provider":       {"", "transforms.outbox.route.topic.replacement", "$1.${routedByValue}", nil, `route.topic.replacement: "$1.${routedByValue}"`},
	} {
		yaml := imported(t, environment(c.env...), "worker.properties", worker+c.worker, "connector.json", connectorWith(t, c.key, c.value))
		if !strings.Contains(yaml, c.want) {
			t.Errorf("%s: no %s in\n%s", name, c.want, yaml)
		}
	}
	for _, option := range [][2]string{{"slot.drop.on.stop", "true"}, {"snapshot.mode", "initial_only"}, {"skipped.operations", "c"}, {"lsn.flush.mode", "manual"}, {"flush.lsn.source", "false"}} {
		for given, want := range map[string]string{"": "X is not set: set it", "X=" + option[1] + "\n": option[0]} { // what is filled in is not known, or refused
			files := []debezium.File{{Name: "worker.properties", Data: []byte(worker)}, {Name: "connector.json", Data: []byte(connectorWith(t, option[0], "${X}"))}, {Name: ".env", Data: []byte(given)}}
			if _, err := debezium.Import(files, environment(), nil, bytea); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, given %q: %v", option[0], given, err)
			}
		}
	}
	for value, want := range map[string]string{
		"${env:pg_password}": "capitals",
	} {
		files := []debezium.File{{Name: "worker.properties", Data: []byte(worker)}, {Name: "connector.json", Data: []byte(connectorWith(t, "database.password", value))}}
		_, err := debezium.Import(files, environment(), nil, bytea)
		if err == nil || !strings.Contains(err.Error(), "connector.json: database.password: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", value, err, want)
		}
	}
	files := []debezium.File{{Name: "worker.properties", Data: []byte(worker)}, {Name: "connector.json", Data: []byte(connectorWith(t, "table.include.list", "${env:TABLES}"))}}
	if _, err := debezium.Import(files, environment(), nil, bytea); err == nil || !strings.Contains(err.Error(), "TABLES is not set: set it") {
		t.Errorf("a table's variable that is not set: %v", err)
	}
}

// TestImportQuotedVariables: a .env file is read as a shell and compose read it, with quotes, comments and references to what stands above.
func TestImportQuotedVariables(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`P="shop" # c`: "shop", `P='shop' # c`: "shop", `export P="shop"	# c`: "shop", `P=shop # c`: "shop", "O=shop\nP=$O": "shop", "O=shop\nP=a_${O}": "a_shop", `P="a#b"`: "a#b", "P=$O\nO=x": "$O",
	} {
		got, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(serverWith(t, "debezium.transforms.outbox.table.field.event.key=${P}\ndebezium.format.key=${F}\ndebezium.format.key.schemas.enable=${S}"))},
			{Name: ".env", Data: []byte(line + "\nF=\"json\" # text\nS=\"false\"  # none\n")}}, environment(), nil, bytea)
		if err != nil || !strings.Contains(string(got), `table.field.event.key: "`+want+`"`) || !strings.Contains(string(got), "format.key: json") {
			t.Errorf("%s: no %q (%v) in\n%s", line, want, err, got)
		}
	}
}
