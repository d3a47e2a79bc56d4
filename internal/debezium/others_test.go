package debezium_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/debezium"
)

const mysqlConnector = `{"name": "shop-outbox", "config": {
	"connector.class": "io.debezium.connector.mysql.MySqlConnector", "tasks.max": "1",
	"database.hostname": "mysql", "database.port": "3306", "database.user": "debezium", "database.password": "p@ss${env:SUFFIX}", "database.server.id": "184054",
	"topic.prefix": "dbserver1", "database.include.list": "shop", "table.include.list": "shop.outbox_events", "database.ssl.mode": "required",
	"schema.history.internal.kafka.bootstrap.servers": "kafka:9092", "schema.history.internal.kafka.topic": "schema-changes.shop",
	"gtid.source.includes": "x", "gtid.source.filter.dml.events": "false", "include.schema.changes": "false", "key.converter": "org.apache.kafka.connect.storage.StringConverter",
	"value.converter": "org.apache.kafka.connect.storage.StringConverter", "transforms": "outbox",
	"transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter", "transforms.outbox.table.field.event.key": "aggregate_id"}}`

const mongoServer = `debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=localhost:9092
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.source.connector.class=io.debezium.connector.mongodb.MongoDbConnector
debezium.source.mongodb.connection.string=mongodb://mongo1:27017,mongo2:27017/?replicaSet=rs0
debezium.source.mongodb.user=debezium
debezium.source.mongodb.password=it's/${MONGO_SUFFIX}
debezium.source.mongodb.ssl.enabled=true
debezium.source.collection.include.list=inventory\\.outboxevent
debezium.source.topic.prefix=tutorial
debezium.source.capture.mode=change_streams_update_full
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter
debezium.transforms.outbox.collection.expand.json.payload=true
debezium.transforms.outbox.collection.fields.additional.placement=type:header:eventType
debezium.format.value.schemas.enable=false
`

// Configurations of MySQL, MariaDB and MongoDB are taken over, with the position if there is one.
func TestImportOtherDatabases(t *testing.T) {
	t.Parallel()
	const worker = "bootstrap.servers=kafka:9092\n"
	env := environment("SUFFIX", "w/rd", "MONGO_SUFFIX", "x@y")
	for name, c := range map[string]struct {
		files []string
		want  []string
		url   string
	}{
		"mysql": {[]string{"connector.json", mysqlConnector, "worker.properties", worker}, []string{"kind: mysql", `- name: "shop.outbox_events"`, "start: now", "pipeline: shop-outbox"},
			"mysql://debezium:p%40ssw%2Frd@mysql:3306/shop?tls=skip-verify"},
		"mariadb": {[]string{"connector.json", strings.Replace(mysqlConnector, "mysql.MySqlConnector", "mariadb.MariaDbConnector", 1), "worker.properties", worker}, []string{"kind: mariadb"},
			"mysql://debezium:p%40ssw%2Frd@mysql:3306/shop?tls=skip-verify"},
		"mysql, with what Kafka Connect answers": {[]string{"connector.json", mysqlConnector, "worker.properties", worker, "offsets.json",
			`{"offsets": [{"partition": {"server": "dbserver1"}, "offset": {"file": "mysql-bin.000003", "pos": 157, "gtids": "a:1-5,\nb:1", "ts_sec": 1, "row": 1, "event": 2, "server_id": 223344}}]}`},
			[]string{`take_over: {file: "mysql-bin.000003", pos: "157", gtids: "a:1-5,b:1"}`}, ""},
		"mysql, with the topic": {[]string{"connector.json", mysqlConnector, "worker.properties", worker, "offsets.txt",
			`["shop-outbox",{"server":"dbserver1"}]` + "\t" + `{"file":"mysql-bin.000003","pos":4}` + "\n" +
				`["other",{"server":"dbserver2"}]` + "\t" + `{"file":"mysql-bin.000009","pos":9}` + "\n" +
				`["shop-outbox",{"server":"dbserver1"}]` + "\t" + `{"file":"mysql-bin.000003","pos":190}` + "\n"},
			[]string{`take_over: {file: "mysql-bin.000003", pos: "190"}`}, ""},
		"mongodb": {[]string{"application.properties", mongoServer}, []string{"kind: mongodb", `schema: "inventory"`, `- name: "inventory.outboxevent"`, `collection.expand.json.payload: "true"`},
			"mongodb://debezium:it%27s%2Fx%40y@mongo1:27017,mongo2:27017/?replicaSet=rs0&authSource=admin&tls=true"},
		"mongodb, with options in its URL": {[]string{"application.properties", strings.Replace(mongoServer, "?replicaSet=rs0", "?SSL=false&authSource=shop&replicaSet=rs0", 1)}, nil,
			"mongodb://debezium:it%27s%2Fx%40y@mongo1:27017,mongo2:27017/?replicaSet=rs0&authSource=admin&tls=true"},
		"mongodb, with dots in a name": {[]string{"application.properties", strings.Replace(mongoServer, `inventory\\.outboxevent`, `inventory\\.outbox\\.event`, 1)}, []string{`- name: "inventory.\"outbox.event\""`}, ""},
		"mongodb, with a token in base64": {[]string{"application.properties", mongoServer, "offsets.json",
			`{"sec":1,"ord":1,"resume_token":"MQAAAAJfZGF0YQAhAAAAODI2OTFENTk3RDAwMDAwMDAxMkIwMjI5Mjk2RTA0NjEAAA=="}`}, []string{`take_over: {resume_token: "82691D597D000000012B0229296E0461"}`}, ""},
		"mongodb, with a time alone": {[]string{"application.properties", mongoServer, "offsets.json", "\uFEFF\n" + `{"sec":1763555000,"ord":7}`}, []string{`take_over: {resume_token: "82691DB6B800000007"}`}, ""},
		"mongodb, with a token": {[]string{"application.properties", mongoServer, "offsets.json", `{"sec":1,"ord":1,"resume_token":"82691D597D000000012B0229296E0461"}`},
			[]string{`take_over: {resume_token: "82691D597D000000012B0229296E0461"}`}, ""},
	} {
		yaml := imported(t, env, c.files...)
		for _, want := range c.want {
			if !has(yaml, want) {
				t.Errorf("%s: no %s in\n%s", name, want, yaml)
			}
		}
		read, file, err := config.Read("tailbox.yaml", []byte(yaml), env)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprint(file.Err()), "source.") {
			t.Errorf("%s: %v", name, file.Err())
		}
		if c.url != "" && read.Source.URL != c.url {
			t.Errorf("%s: the address is %s, want %s", name, read.Source.URL, c.url)
		}
		if taken := strings.Contains(yaml, "take_over"); taken != strings.Contains(yaml, "Stop Debezium for good, then: tailbox init") {
			t.Errorf("%s: the steps are not those of a position that is taken over: %v\n%s", name, taken, yaml)
		}
	}
}

// javaOffsets is a file of offsets as Java writes a HashMap of byte arrays.
func javaOffsets(pairs ...string) []byte {
	out := "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f4000000000000c770800000010" + fmt.Sprintf("%08x", len(pairs)/2)
	for i, text := range pairs {
		class := "7200025b42acf317f8060854e0020000" + "7870"
		if i > 0 {
			class = "71007e0002"
		}
		out += "75" + class + fmt.Sprintf("%08x", len(text)) + hex.EncodeToString([]byte(text))
	}
	data, err := hex.DecodeString(out + "78")
	if err != nil {
		panic(err)
	}
	return data
}

func TestImportOffsetsOfServer(t *testing.T) {
	t.Parallel()
	const worker = "bootstrap.servers=kafka:9092\n"
	good := string(javaOffsets(`["kafka",{"server":"other"}]`, `{"file":"a.1","pos":5}`, `["kafka",{"server":"dbserver1"}]`, `{"file":"mysql-bin.000007","pos":4711}`))
	if yaml := imported(t, environment("SUFFIX", ""), "connector.json", mysqlConnector, "worker.properties", worker, "offsets.dat", good); !has(yaml, `take_over: {file: "mysql-bin.000007", pos: "4711"}`) {
		t.Errorf("no position in\n%s", yaml)
	}
	for name, c := range map[string]struct{ offsets, want string }{
		"cut off":                 {good[:len(good)-20], "cannot be read"},
		"another map":             {strings.Replace(good, "java.util.HashMap", "java.util.TreeMap", 1), "cannot be read"},
		"of another connector":    {string(javaOffsets(`["kafka",{"server":"other"}]`, `{"file":"a.1","pos":5}`)), "hold 0 positions of this connector among 1"},
		"in a snapshot":           {`{"file":"a.1","pos":5,"snapshot":"INITIAL","snapshot_completed":false}`, "the snapshot has not ended"},
		"of another database":     {`{"resume_token":"8200"}`, "not of MySQL or MariaDB"},
		"a value that is no JSON": {string(javaOffsets(`["kafka",{"server":"dbserver1"}]`, `{`)), "cannot be read"},
	} {
		_, err := debezium.Import([]debezium.File{{Name: "c.json", Data: []byte(mysqlConnector)}, {Name: "w.properties", Data: []byte(worker)}, {Name: "offsets", Data: []byte(c.offsets)}},
			environment("SUFFIX", ""), nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	for n := range len(good) { // no part of one panics
		_, _ = debezium.Import([]debezium.File{{Name: "c.json", Data: []byte(mysqlConnector)}, {Name: "offsets", Data: []byte(good[:n])}}, environment("SUFFIX", ""), nil, nil)
	}
}

// Transformations that change no message of an outbox are listed; each router takes its own options alone.
func TestImportTransformations(t *testing.T) {
	t.Parallel()
	const worker = "bootstrap.servers=kafka:9092\n"
	with := func(old, now string) string { return strings.Replace(mysqlConnector, old, now, 1) }
	chain := func(names, further string) string {
		return strings.Replace(with(`"transforms": "outbox"`, `"transforms": "`+names+`"`), `"tasks.max": "1"`, `"tasks.max": "1", `+further, 1)
	}
	const regex = `"transforms.short.type": "org.apache.kafka.connect.transforms.RegexRouter", "transforms.short.regex": "a", "transforms.short.replacement": "b"`
	const unwrap = `"transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState", "transforms.unwrap.drop.tombstones": "true"`
	const tombstones = `, "transforms.outbox.route.tombstone.on.empty.payload": "true"`
	for name, c := range map[string]struct{ connector, want string }{
		"topics named in front":        {chain("short,outbox", regex), "#   transforms.short.regex: the outbox event router behind it names topic and key"},
		"topics named behind":          {chain("outbox,short", regex), `route.topic.then.regex: "a"  # transforms.short.regex`},
		"topics named behind, to what": {chain("outbox,short", regex), `route.topic.then.replacement: "b"`},
		"topics named behind, twice":   {chain("outbox,short,long", regex+strings.ReplaceAll(", "+regex, "short", "long")), "would change the messages"},
		"topics of some named behind":  {chain("outbox,short", regex+`, "transforms.short.predicate": "p"`), "do without this predicate"},
		"topics named after nothing":   {chain("outbox,short", strings.Replace(regex, "short.regex", "short.gone", 1)), "Debezium does not start without it"},
		"change events opened behind":  {chain("outbox,unwrap", unwrap), "#   transforms.unwrap.drop.tombstones: it opens change events"},
		"tombstones dropped behind":    {chain("outbox,unwrap", unwrap+tombstones), "would change the messages"},
		"change events opened before":  {chain("unwrap,outbox", unwrap), "would change the messages"},
		"a table without a database":   {with(`"table.include.list": "shop.outbox_events"`, `"table.include.list": "outbox_events"`), "outbox_events matches no table, because Debezium compares it with database.table as a whole: name it with its database, as in inventory.outbox"},
		"a key of Debezium 1":          {strings.NewReplacer("table.include.list", "table.whitelist", "topic.prefix", "database.server.name", "outbox.table.field.event.key", "outbox.table.field.event.payload.id").Replace(mysqlConnector), "rename it to table.field.event.key"},
		"a payload of Debezium 1":      {strings.NewReplacer("table.include.list", "table.whitelist", "topic.prefix", "database.server.name", "outbox.table.field.event.key\": \"", "outbox.table.field.payload\": \"x_").Replace(mysqlConnector), "rename it to table.field.event.payload"},
		"an option of MongoDB's":       {with("outbox.table.field.event.key", "outbox.collection.field.event.key"), "#   transforms.outbox.collection.field.event.key: " + "the outbox event router of Debezium 3.6 has no such option"},
	} {
		yaml, err := debezium.Import([]debezium.File{{Name: "c.json", Data: []byte(c.connector)}, {Name: "w.properties", Data: []byte(worker)}}, environment("SUFFIX", ""), nil, nil)
		if got := string(yaml) + fmt.Sprint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", name, c.want, got)
		}
	}
	for target, left := range map[string]bool{"database\ndebezium.source.capture.target=other": true, "collection\ndebezium.source.capture.target=inventory.other": true,
		"database\ndebezium.source.capture.target=inventory": false, "collection\ndebezium.source.capture.target=inventory.outboxevent": false, "deployment\ndebezium.source.capture.target=other": false} {
		_, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(mongoServer + "debezium.source.capture.scope=" + target + "\n")}}, environment("MONGO_SUFFIX", ""), nil, nil)
		if leaves := strings.Contains(fmt.Sprint(err), "leaves out collection inventory.outboxevent"); leaves != left || !left && err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	yaml := imported(t, environment("MONGO_SUFFIX", ""), "application.properties", strings.Replace(mongoServer, "collection.expand.json", "table.expand.json", 1)+"debezium.value.converter=x\n")
	for _, want := range []string{"#   debezium.transforms.outbox.table.expand.json.payload: the outbox event router of Debezium 3.6 has no such option",
		"#   debezium.value.converter: Debezium Server takes its converters from debezium.format.*"} {
		if !strings.Contains(yaml, want) {
			t.Errorf("no %q in\n%s", want, yaml)
		}
	}
	_, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(mongoServer + "debezium.format.value=simplestring\n")}}, environment("MONGO_SUFFIX", ""), nil, nil)
	if want := "or remove collection.expand.json.payload if all payloads are texts"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a document as text: %v, want %q", err, want)
	}
}
