package debezium_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// fates is a report by its keys, and the errors of the import, if there are any.
func fates(t *testing.T, files []debezium.File, describe debezium.Describe) (told map[string]debezium.Option, err error) {
	t.Helper()
	told = map[string]debezium.Option{}
	for _, o := range debezium.Report(files, environment("SUFFIX", "x", "MONGO_SUFFIX", "x"), nil, describe) {
		told[o.Key] = o
	}
	_, err = debezium.Import(files, environment("SUFFIX", "x", "MONGO_SUFFIX", "x"), nil, describe)
	return told, err
}

// options is a connector for a kind of database, as a file of properties with further lines.
func options(kind string, lines ...string) []debezium.File {
	class := map[string]string{"postgres": "postgresql.PostgresConnector", "mysql": "mysql.MySqlConnector", "mariadb": "mariadb.MariaDbConnector", "mongodb": "mongodb.MongoDbConnector"}[kind]
	base := []string{"connector.class=io.debezium.connector." + class, "topic.prefix=shop", "key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable=false", "producer.override.bootstrap.servers=k:9092", "transforms=outbox"}
	if kind == "mongodb" {
		base = append(base, "mongodb.connection.string=mongodb://db/", "collection.include.list=shop.outbox", "transforms.outbox.type=io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter")
	} else {
		base = append(base, "database.hostname=db", "database.user=u", "database.password=p", "table.include.list=shop.outbox", "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter")
	}
	if kind == "postgres" {
		base = append(base, "database.dbname=shop", "plugin.name=pgoutput")
	}
	return []debezium.File{{Name: "c.properties", Data: []byte(strings.Join(append(base, lines...), "\n") + "\n")}}
}

// TestImportTransactions: exactly.once.source.support of the worker decides whether Kafka Connect sends in transactions, in whatever form it is given.
// A connector's exactly.once.support=required lets Kafka Connect run it on such a worker alone.
func TestImportTransactions(t *testing.T) {
	t.Parallel()
	const key, converters = "exactly.once.source.support", "key.converter: org.apache.kafka.connect.storage.StringConverter"
	variables := func(value string) string {
		return "BOOTSTRAP_SERVERS=k:9092\nCONNECT_EXACTLY_ONCE_SOURCE_SUPPORT=" + value + "\nKEY_CONVERTER=org.apache.kafka.connect.storage.StringConverter\n"
	}
	for name, worker := range map[string]string{
		"worker.properties": text(t, "worker.properties") + key + "=VALUE\n",
		"connect.yaml":      "kind: KafkaConnect\nspec: {bootstrapServers: 'k:9092', config: {" + key + ": VALUE, " + converters + "}}\n",
		// as in event-store, whose tests set this variable, and in a script of podman
		".env":         variables("VALUE"),
		"compose.yaml": "services: {connect: {image: debezium/connect, environment: [" + strings.ReplaceAll(strings.TrimSpace(variables("VALUE")), "\n", ", ") + "]}}\n",
		"deploy.yaml": "kind: Deployment\nspec: {template: {spec: {containers: [{env: [{name: CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT, value: VALUE}, {name: BOOTSTRAP_SERVERS, value: 'k:9092'}, " +
			"{name: KEY_CONVERTER, value: org.apache.kafka.connect.storage.StringConverter}]}]}}}\n",
	} {
		for value, want := range map[string]debezium.Fate{"enabled": debezium.Refused, "ENABLED": debezium.Refused, "preparing": debezium.NoEffect, "disabled": debezium.NoEffect} {
			files := []debezium.File{{Name: name, Data: []byte(strings.Replace(worker, "VALUE", value, 1))}, {Name: "c.json", Data: []byte(text(t, "connector.json"))}}
			told, err := fates(t, files, bytea)
			if told[key].Fate != want || (err != nil) != (want == debezium.Refused) || err != nil && !strings.Contains(err.Error(), "drop those whose header id it has seen") {
				t.Errorf("%s, %s: %+v, %v", name, value, told[key], err)
			}
		}
	}
	told, err := fates(t, connected(t, `"exactly.once.source.support": "enabled", "exactly.once.support": "requested"`), bytea)
	if err != nil || told[key].How != "Kafka Connect takes it from its worker alone" || !strings.Contains(told["exactly.once.support"].How, "exactly.once.source.support of the worker decides") {
		t.Errorf("a connector: %+v, %v", told, err)
	}
}

// TestImportOtherConnectors: Debezium's connector ignores options that only its connectors for other databases know.
func TestImportOtherConnectors(t *testing.T) {
	t.Parallel()
	for kind, lines := range map[string][]string{
		"postgres": {"database.names=shop", "database.encrypt=false", "database.pdb.name=x", "database.instance=x", "database.applicationIntent=ReadOnly", "database.ssl.mode=required", "collection.include.list=shop.a",
			"gtid.source.includes=a", "cursor.pipeline=[]", "field.renames=a", "mongodb.hosts=x"},
		// as in xnet-training/event-driven-architecture and in vdesabou/kafka-docker-playground
		"mysql":   {"plugin.name=mysqloutput", "database.names=mydb", "database.encrypt=false", "publication.autocreate.mode=filtered", "publication.name=x", "slot.drop.on.stop=true", "message.prefix.include.list=x"},
		"mariadb": {"database.names=mydb", "plugin.name=pgoutput"},
		"mongodb": {"database.names=x", "plugin.name=pgoutput", "database.hostname=db", "database.port=1", "database.user=u", "table.include.list=shop.x", "column.exclude.list=.*", "publication.name=x", "database.ssl.mode=required"},
	} {
		told, err := fates(t, options(kind, lines...), bytea)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for _, line := range lines {
			key, _, _ := strings.Cut(line, "=")
			if told[key].Fate != debezium.NoEffect || told[key].How != "Debezium's connector for this kind of database does not know it" {
				t.Errorf("%s: %+v", kind, told[key])
			}
		}
	}
	for kind, line := range map[string]string{"postgres": "slot.drop.on.stop=true", "mysql": "gtid.source.includes=a", "mariadb": "database.ssl.keystore=k.jks", "mongodb": "field.renames=a"} {
		if _, err := fates(t, options(kind, line), bytea); err == nil {
			t.Errorf("%s: %s is not refused", kind, line)
		}
	}
}

// TestImportEmptyOptions: values with which an option changes nothing.
func TestImportEmptyOptions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]debezium.Fate{
		// as in levoel/debezium-course, and in a connector of vdesabou/kafka-docker-playground
		"gtid.source.excludes=": debezium.NoEffect, "gtid.source.includes=.*": debezium.NoEffect, "database.ssl.truststore=": debezium.NoEffect, "database.ssl.keystore=": debezium.NoEffect,
		"tasks.max.enforce=false": debezium.NoEffect, "database.trustServerCertificate=true": debezium.NoEffect,
		"gtid.source.includes=": debezium.Refused, "gtid.source.excludes=.*": debezium.Refused, "gtid.source.excludes=a": debezium.Refused, "database.ssl.truststore=a.jks": debezium.Refused,
	} {
		key, _, _ := strings.Cut(line, "=")
		if told, err := fates(t, options("mysql", line), bytea); told[key].Fate != want || (err != nil) != (want == debezium.Refused) {
			t.Errorf("%s: %+v, %v", line, told[key], err)
		}
	}
}

// TestImportDecimalFormat: only a column of a decimal type depends on the format of decimals. A payload is none, and an envelope can hold one.
func TestImportDecimalFormat(t *testing.T) {
	t.Parallel()
	const value, text = "value.converter.decimal.format", `{"type":"string","optional":false}`
	known := func(string, string, string) (map[string]string, error) {
		return map[string]string{"id": text, "aggregateid": text, "payload": text, "type": text}, nil
	}
	unreachable := func(string, string, string) (map[string]string, error) { return nil, errors.New("connection refused") }
	for name, c := range map[string]struct {
		key      string
		lines    []string
		describe debezium.Describe
		want     debezium.Fate
	}{
		"a payload":             {value, nil, unreachable, debezium.NoEffect},
		"an expanded payload":   {value, []string{"transforms.outbox.table.expand.json.payload=true"}, unreachable, debezium.NoEffect},
		"an envelope":           {value, []string{"transforms.outbox.table.fields.additional.placement=type:envelope"}, known, debezium.NoEffect},
		"an envelope of prices": {value, []string{"transforms.outbox.table.fields.additional.placement=price:envelope"}, known, debezium.Refused},
		"an unknown envelope":   {value, []string{"transforms.outbox.table.fields.additional.placement=type:envelope"}, unreachable, debezium.Refused},
		"a key":                 {"key.converter.decimal.format", []string{"key.converter=org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable=false"}, known, debezium.NoEffect},
		"a key of prices": {"key.converter.decimal.format", []string{"key.converter=org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable=false",
			"transforms.outbox.table.field.event.key=price"}, known, debezium.Refused},
		"a header of prices": {"header.converter.decimal.format", []string{"header.converter=org.apache.kafka.connect.json.JsonConverter", "header.converter.schemas.enable=false",
			"transforms.outbox.table.fields.additional.placement=price:header"}, known, debezium.Refused},
	} {
		if told, err := fates(t, options("postgres", append(c.lines, c.key+"=NUMERIC")...), c.describe); told[c.key].Fate != c.want || (err != nil) != (c.want == debezium.Refused) || err == nil && told[c.key].How != "it changes no column that is sent" {
			t.Errorf("%s: %+v, %v", name, told[c.key], err)
		}
	}
}

// TestReportReasons: a reason is true whatever else a file has.
func TestReportReasons(t *testing.T) {
	t.Parallel()
	without := func(kind, gone string, lines ...string) []debezium.File {
		f := options(kind, lines...)
		var kept []string
		for line := range strings.Lines(string(f[0].Data)) {
			if !strings.HasPrefix(line, gone) {
				kept = append(kept, line)
			}
		}
		f[0].Data = []byte(strings.Join(kept, ""))
		return f
	}
	server := served(t, "debezium.format.schemas.enable=false", "debezium.format.key.schemas.enable=false", "debezium.format.value.schemas.enable=false")
	http := served(t, httpSink, "debezium.sink.http.authentication.type=jwt", "debezium.sink.http.authentication.jwt.username=u")
	state := []debezium.File{{Name: "c.json", Data: []byte(strings.Replace(text(t, "connector.json"), "{", `{"initial_state": "STOPPED", "retired": true,`, 1))}, {Name: "w", Data: []byte(text(t, "worker.properties"))}}
	for name, c := range map[string]struct {
		files     []debezium.File
		key, want string
	}{
		"lists without tables":           {without("mysql", "table.include.list", "database.include.list=shop"), "database.include.list", "tailbox reads only what table.include.list or collection.include.list names"},
		"a prefix without a router":      {without("postgres", "transforms"), "topic.prefix", "pipeline"},
		"a second name without a router": {without("postgres", "transforms", "name=shop"), "topic.prefix", "nothing is taken over without an outbox event router, which makes topic and key itself"},
		// as in DipayanP007/strimzi-kafka-debezium, beside its worker's converters
		"a converter without a router": {without("postgres", "transforms"), "key.converter", "format.key"},
		"its options":                  {without("postgres", "transforms"), "value.converter.schemas.enable", "format.value"},
		"schemas of each format":       {server, "debezium.format.schemas.enable", "key, value and header have this option of their own, or need none"},
		"an authentication":            {http, "debezium.sink.http.authentication.jwt.username", "it is of the authentication that is refused"},
		"beside the options":           {state, "retired", "it stands beside the connector's options"}, // as in vicle1908/kafka-transactional-microservices
		"no router for MongoDB":        {without("mongodb", "transforms"), "transforms", "is missing: without io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter there is no outbox to relay"},
		"no router in MongoDB's list":  {without("mongodb", "transforms.", "transforms="), "transforms", "names no transformation of class io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter: without one there is no outbox to relay"},
		"an empty list of MongoDB":     {options("mongodb", "collection.include.list="), "collection.include.list", "is empty, so that Debezium reads collections that are no outbox: name the outbox, as in inventory.outbox"},
		"keys without a router":        {without("postgres", "transforms", "message.key.columns=a.b:c"), "message.key.columns", "nothing is taken over without an outbox event router, which makes topic and key itself"},
		"a converter's option":         {connected(t, `"converters": "b", "b.type": "x"`), "b.type", "it is of what converters names, which is refused"},
		"a post processor's option":    {connected(t, `"post.processors": "a,b", "b.type": "x"`), "b.type", "it is of what post.processors names, which is refused"},
		"a state":                      {state, "initial_state", "it says whether Debezium runs, which tailbox does not ask"},
	} {
		if told, _ := fates(t, c.files, bytea); told[c.key].How != c.want {
			t.Errorf("%s: %+v, want %q", name, told[c.key], c.want)
		}
	}
	// as in TIA-PARTNERS-GROUP/tia-api: neither a table nor a router is named
	_, err := fates(t, without("mysql", "table.include.list", "transforms.outbox.type=org.apache.kafka.connect.transforms.RegexRouter"), bytea)
	for _, want := range []string{"table.include.list: is missing", "names no transformation of class"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestImportOtherRouter: each router belongs to its own kind of database.
func TestImportOtherRouter(t *testing.T) {
	t.Parallel()
	const key, plain, mongo = "transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter", "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter"
	for kind, c := range map[string]struct{ class, want, kept string }{
		// as in ecommerce-taca/Product-Catalog-Service
		"mongodb":  {plain, "stops Debezium at the first document, because it reads rows of a table: MongoDB needs " + mongo, "transforms.outbox.collection.field.event.key"},
		"postgres": {mongo, "is for MongoDB's documents: this database needs " + plain + ", with its options table.*", "transforms.outbox.table.field.event.key"},
		"mysql":    {mongo, "is for MongoDB's documents: this database needs " + plain + ", with its options table.*", "transforms.outbox.table.field.event.key"},
	} {
		told, err := fates(t, options(kind, key+"="+c.class, c.kept+"=x"), bytea)
		if err == nil || told[key].Fate != debezium.Refused || told[key].How != c.want || told[c.kept].Fate != debezium.Kept {
			t.Errorf("%s: %+v, %+v, %v", kind, told[key], told[c.kept], err)
		}
	}
}

// TestImportOtherDelegates: a column of bytes does not go through a delegate, whatever that is.
func TestImportOtherDelegates(t *testing.T) {
	t.Parallel()
	// as in Thieus/demo-pattern-outbox-with-dbz
	const delegate, avro, other = "value.converter.delegate.converter.type", "io.confluent.connect.avro.AvroConverter", "com.acme.JsonConverter"
	text := func(string, string, string) (map[string]string, error) {
		return map[string]string{"payload": `{"type":"string","optional":false}`}, nil
	}
	for name, c := range map[string]struct {
		class          string
		describe       debezium.Describe
		want, registry string
	}{
		"bytes":           {avro, bytea, "", "no bytea goes through the delegate"},
		"a text":          {avro, text, "this converter is not built into tailbox", "it is of the converter that is refused"},
		"not asked":       {avro, nil, "writes column payload unless it holds bytes, but", "it is of the converter that is refused"},
		"another package": {other, text, "tailbox does not know this class, because another package makes it another class: set it to " + fromJSON, "it is of the converter that is refused"},
	} {
		files := options("postgres", "value.converter=io.debezium.converters.BinaryDataConverter", delegate+"="+c.class, delegate+".schema.registry.url=http://r")
		told, err := fates(t, files, c.describe)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), delegate+" \""+c.class+"\": "+c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got := told[delegate+".schema.registry.url"]; got.Fate != debezium.NoEffect || got.How != c.registry {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestReportSharedPredicate: a predicate that the router uses too is not one of a transformation that is refused.
func TestReportSharedPredicate(t *testing.T) {
	t.Parallel()
	// as in akshittyagi171/NOTIFICATION_ENGINE
	told, _ := fates(t, options("postgres", "transforms=own,outbox", "transforms.own.type=com.acme.Own", "transforms.own.predicate=p", "transforms.outbox.predicate=p", "predicates=p",
		"predicates.p.type=org.apache.kafka.connect.transforms.predicates.TopicNameMatches", "predicates.p.pattern=.*outbox"), bytea)
	for _, key := range []string{"predicates.p.type", "predicates.p.pattern"} {
		if told[key].Fate != debezium.Kept {
			t.Errorf("%s: %+v", key, told[key])
		}
	}
}
