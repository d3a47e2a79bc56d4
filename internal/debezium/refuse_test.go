package debezium_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// served is Debezium Server's configuration with more lines, and connected a connector's, with lines of JSON.
func served(t *testing.T, lines ...string) []debezium.File {
	t.Helper()
	return []debezium.File{{Name: "f", Data: []byte(text(t, "server.properties") + strings.Join(lines, "\n") + "\n")}}
}

func connected(t *testing.T, options string) []debezium.File {
	t.Helper()
	return []debezium.File{{Name: "c", Data: []byte(strings.Replace(text(t, "connector.json"), `"tasks.max": 1`, options, 1))},
		{Name: "w", Data: []byte(text(t, "worker.properties"))}}
}

// TestImportRefusesLoss: what would lose messages or change them is refused with its key, its value and what to do, or honoured.
func TestImportRefusesLoss(t *testing.T) {
	t.Parallel()
	swap := func(old, with string) []debezium.File {
		f := connected(t, `"tasks.max": 1`)
		f[0].Data = []byte(strings.Replace(string(f[0].Data), old, with, 1))
		return f
	}
	const payload, placed = `"value.converter": "io.debezium.converters.BinaryDataConverter"`, "debezium.transforms.outbox.table.fields.additional.placement="
	nats := []string{"debezium.sink.type=nats-jetstream", "debezium.sink.nats-jetstream.url=tls://n:4222"}
	enveloped := func(converter string) []debezium.File {
		f := connected(t, `"tasks.max": 1`)
		f[0].Data = []byte(connectorWith(t, "value.converter", converter, "transforms.outbox.table.fields.additional.placement", "type:envelope"))
		return f
	}
	for name, c := range map[string]struct {
		files []debezium.File
		want  []string
	}{
		"the slot is dropped":         {served(t, "debezium.source.slot.drop.on.stop=true"), []string{`debezium.source.slot.drop.on.stop "true"`, "set it to false"}},
		"a connector's slot":          {connected(t, `"slot.drop.on.stop": true`), []string{`slot.drop.on.stop "true"`, "set it to false"}},
		"a class for the value":       {served(t, "debezium.format.value.class=io.acme.Avro"), []string{`debezium.format.value.class "io.acme.Avro"`, "this converter is not built into tailbox: use"}},
		"a class for the header":      {served(t, "debezium.format.header.class=io.acme.Avro"), []string{`debezium.format.header.class "io.acme.Avro"`}},
		"bytes of an envelope":        {enveloped("org.apache.kafka.connect.converters.ByteArrayConverter"), []string{"takes no envelope", "set it to JSON"}},
		"decimals as numbers":         {connected(t, `"key.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false", "key.converter.decimal.format": "NUMERIC", "transforms.outbox.table.field.event.key": "price"`), []string{`decimal.format "NUMERIC"`, "set it to BASE64"}},
		"defaults for NULL":           {connected(t, `"key.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false", "key.converter.replace.null.with.default": "true"`), []string{"replace.null.with.default", "set it to false"}},
		"another encoding":            {connected(t, `"key.converter": "org.apache.kafka.connect.storage.StringConverter", "key.converter.converter.encoding": "UTF-16"`), []string{`converter.encoding "UTF-16"`, "UTF-8"}},
		"a serializer's encoding":     {connected(t, `"value.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter.value.serializer.encoding": "UTF-16"`), []string{`value.serializer.encoding "UTF-16"`, "UTF-8"}},
		"a name with two dots":        {swap("inventory.outboxevent", "shop.inventory.outboxevent"), []string{"shop.inventory.outboxevent has two dots: leave out the name of the database"}},
		"a router twice":              {swap(`"transforms": "outbox"`, `"transforms": "outbox,outbox"`), []string{"names outbox twice", "name it once"}},
		"a delegate for headers":      {connected(t, `"header.converter": "io.debezium.converters.BinaryDataConverter", "header.converter.delegate.converter.type": "org.apache.kafka.connect.json.JsonConverter"`), []string{"header.converter.delegate.converter.type", "SimpleHeaderConverter"}},
		"another router":              {swap("io.debezium.transforms.outbox.EventRouter", "com.acme.connect.OutboxEventRouter"), []string{`transforms.outbox.type "com.acme.connect.OutboxEventRouter"`, "io.debezium.transforms.outbox.EventRouter"}},
		"topics that are made":        {connected(t, `"topic.creation.default.partitions": 6, "topic.creation.default.replication.factor": 3`), []string{`topic.creation.default.partitions "6"`, `topic.creation.default.replication.factor "3"`, "make them with these settings"}},
		"a time that is no number":    {served(t, "debezium.sink.type=http", "debezium.sink.http.url=http://h/", "debezium.sink.http.headers.prefix=", "debezium.sink.http.headers.encode.base64=false", `debezium.sink.http.timeout.ms=5000ms\n    url: http://evil/ #`), []string{"debezium.sink.http.timeout.ms", "must be a whole number"}},
		"times of another form":       {served(t, "debezium.source.time.precision.mode=connect", "debezium.transforms.outbox.table.fields.additional.placement=at:header"), []string{`debezium.source.time.precision.mode "connect"`, "column at", "set it to adaptive"}},
		"a group that there is not":   {served(t, "debezium.transforms.outbox.route.topic.replacement=$2"), []string{`debezium.transforms.outbox.route.topic.replacement "$2"`, "names the group 2", "name a group that it has"}},
		"an expanded payload as text": {served(t, "debezium.format.value=simplestring"), []string{`debezium.format.value "simplestring"`, "Struct{name=value}"}},
		"an envelope as text": {swap(payload, `"value.converter": "org.apache.kafka.connect.storage.StringConverter", "transforms.outbox.table.fields.additional.placement": "at:envelope"`),
			[]string{`value.converter "org.apache.kafka.connect.storage.StringConverter"`, "Struct{name=value}"}},
		"an envelope in capitals": {swap(payload, `"value.converter": "org.apache.kafka.connect.storage.StringConverter", "transforms.outbox.table.fields.additional.placement": "at: ENVELOPE :x"`),
			[]string{`value.converter "org.apache.kafka.connect.storage.StringConverter"`, "Struct{name=value}"}},
		"nobody who logs in":         {swap(`"database.user": "postgresuser",`, ""), []string{"database.user: is missing: without it Debezium cannot connect"}},
		"transactions of Kafka":      {connected(t, `"exactly.once.support": "required"`), []string{`exactly.once.support "required"`, "header id"}},
		"a column that is left out":  {connected(t, `"column.exclude.list": "inventory.outboxevent.(a|payload)"`), []string{"column.exclude.list", "would change columns"}},
		"a class in another case":    {swap("PostgresConnector", "PostgreSQLConnector"), []string{"is no class of Debezium's, which has io.debezium.connector.mariadb.MariaDbConnector, io.debezium.connector.mongodb.MongoDbConnector, "}},
		"a connector's package":      {swap("io.debezium.connector.postgresql", "com.acme"), []string{`connector.class "com.acme.PostgresConnector"`, "set it to io.debezium.connector.postgresql.PostgresConnector"}},
		"a converter's package":      {connected(t, `"key.converter": "com.acme.JsonConverter", "key.converter.schemas.enable": false`), []string{`key.converter "com.acme.JsonConverter"`, "set it to org.apache.kafka.connect.json.JsonConverter"}},
		"a text converter's package": {connected(t, `"key.converter": "com.acme.StringConverter"`), []string{`key.converter "com.acme.StringConverter"`, "set it to org.apache.kafka.connect.storage.StringConverter"}},
		"a package of Debezium's":    {swap("io.debezium.converters.", "io.debezium.converters.spi."), []string{`value.converter "io.debezium.converters.spi.BinaryDataConverter"`, "set it to io.debezium.converters.BinaryDataConverter"}},
		"a table without a schema":   {swap("inventory.outboxevent", "inventory.a,outbox"), []string{"outbox matches no table, because Debezium compares it with schema.table as a whole: name it with its schema, as in public.outbox"}},
		"a list of Debezium 1":       {swap("table.include.list", "table.whitelist"), []string{"table.whitelist", "Debezium 2 and later", "rename it to table.include.list"}},
		"a list of Debezium 1's server": {[]debezium.File{{Name: "f", Data: []byte(strings.Replace(text(t, "server.properties"), "table.include.list", "table.whitelist", 1))}},
			[]string{"debezium.source.table.whitelist", "rename it to debezium.source.table.include.list"}},
		"a name that is not known":     {swap("outbox-connector", "${ConnectorName}"), []string{"holds a variable whose value is not known"}},
		"a table that is not known":    {swap("inventory.outboxevent", "${Schema}.outbox"), []string{"is a variable whose value is not known"}},
		"one of two headers over HTTP": {served(t, append(strings.Split(httpSink, "\n"), placed+"a:header:b,c:header:b")...), []string{"makes several headers b", "place one column under that name"}},
		"another id over NATS":         {served(t, append(nats, placed+"a:header:id")...), []string{"makes several headers id", "id is the message's id already"}},
		"a header that NATS reserves":  {served(t, append(nats, placed+"id:header:Nats-Rollup")...), []string{"places the header Nats-Rollup", "take it out of this option"}},
		"another id of NATS":           {served(t, append(nats, placed+"a:header:Nats-Msg-Id")...), []string{"places the header Nats-Msg-Id"}},
		"a key of decimals":            {served(t, "debezium.source.decimal.handling.mode=double", "debezium.transforms.outbox.table.field.event.key=price"), []string{`debezium.source.decimal.handling.mode "double"`, "how column price is sent"}},
		"a snapshot alone":             {connected(t, `"snapshot.mode": "INITIAL_ONLY"`), []string{`snapshot.mode "INITIAL_ONLY"`, "sends no message that is inserted later: set it to no_data"}},
		"a snapshot by configuration":  {connected(t, `"snapshot.mode": "configuration_based", "snapshot.mode.configuration.based.start.stream": "false"`), []string{`snapshot.mode "configuration_based"`, "set it to no_data"}},
		"a snapshot that is not known": {connected(t, `"snapshot.mode": "${env:UNSET}"`), []string{`snapshot.mode "${env:UNSET}"`, "UNSET is not set"}},
		"a snapshot of one's own":      {connected(t, `"snapshot.mode": "custom"`), []string{`snapshot.mode "custom"`, "set it to no_data"}},
		"inserts that may be skipped":  {connected(t, `"skipped.operations": "${file:/x:y}"`), []string{"skipped.operations", "put what it finds into an environment variable"}},
		"a slot that may not move":     {connected(t, `"flush.lsn.source": "${env:UNSET}"`), []string{`flush.lsn.source "${env:UNSET}"`, "UNSET is not set"}},
		"transactions, perhaps":        {connected(t, `"exactly.once.support": "${env:UNSET}"`), []string{`exactly.once.support "${env:UNSET}"`, "UNSET is not set"}},
		"a table in quotes":            {swap("inventory.outboxevent", `\"inventory\".\"outboxevent\"`), []string{`"inventory"."outboxevent" matches no table, because Debezium counts its quotes as a part of the name: write inventory.outboxevent`}},
		"a prefix for the name":        {swap(`"topic.prefix": "dbserver1"`, `"topic.prefix": "${env:UNSET}", "name": ""`), []string{`topic.prefix "${env:UNSET}"`, "UNSET is not set"}},
		"a prefix for a predicate": {swap(`"topic.prefix": "dbserver1"`, `"topic.prefix": "${env:UNSET}", "predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": ".*", "transforms.outbox.predicate": "p"`),
			[]string{`topic.prefix "${env:UNSET}"`, "UNSET is not set"}},
		"a slot that nobody moves":   {connected(t, `"flush.lsn.source": "false"`), []string{`flush.lsn.source "false"`, "keeps Debezium from moving its slot", "send one message, then stop it"}},
		"a slot that somebody moves": {connected(t, `"lsn.flush.mode": "manual"`), []string{`lsn.flush.mode "manual"`, "keeps Debezium from moving its slot"}},
		"another schema":             {swap(`"schema.include.list": "inventory"`, `"schema.include.list": "crm,sal.*"`), []string{`schema.include.list "crm,sal.*"`, "leaves out table inventory.outboxevent"}},
		"a schema that is excluded":  {connected(t, `"schema.exclude.list": "INVENT.*"`), []string{"schema.exclude.list", "leaves out table inventory.outboxevent"}},
		"a table that is excluded":   {connected(t, `"table.exclude.list": "inventory.outboxevent"`), []string{"table.exclude.list", "leaves out table inventory.outboxevent"}},
		"another database": {[]debezium.File{{Name: "c", Data: []byte(strings.Replace(mysqlConnector, `"database.include.list": "shop"`, `"database.include.list": "crm"`, 1))}, {Name: "w", Data: []byte(text(t, "worker.properties"))}},
			[]string{`database.include.list "crm"`, "leaves out table shop.outbox_events"}},
		"a list of Java's":                     {connected(t, `"schema.exclude.list": "(?!inventory).*"`), []string{"schema.exclude.list", "remove it, because table.include.list names each outbox"}},
		"a schema that is maybe sent":          {connected(t, `"key.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "no"`), []string{`key.converter.schemas.enable "no"`, "must be true or false"}},
		"a header converter that there is not": {connected(t, `"header.converter": "SimpleHeader"`), []string{`header.converter "SimpleHeader"`, "not built into tailbox"}},
		"inserts that are skipped":             {connected(t, `"skipped.operations": "u, c"`), []string{`skipped.operations "u, c"`, "take c out of it"}},
		"an empty topic":                       {swap("${routedByValue}.events", ""), []string{"transforms.outbox.route.topic.replacement", "is empty, and so is every topic"}},
		"an empty column":                      {connected(t, `"transforms.outbox.table.field.event.key": ""`), []string{"transforms.outbox.table.field.event.key", "needs the name of a column"}},
		"no boolean":                           {connected(t, `"transforms.outbox.table.expand.json.payload": "yes"`), []string{`transforms.outbox.table.expand.json.payload "yes"`, "must be true or false"}},
		"an unknown choice":                    {connected(t, `"transforms.outbox.table.op.invalid.behavior": "stop"`), []string{`transforms.outbox.table.op.invalid.behavior "stop"`, "must be warn, error or fatal"}},
		"a placement of four parts":            {swap("type:header:eventType", "a:header:b:c"), []string{`transforms.outbox.table.fields.additional.placement "a:header:b:c"`, "must be column:placement"}},
		"names of another form": {connected(t, `"transforms.outbox.field.name.adjustment.mode": "avro", "transforms.outbox.table.expand.json.payload": "true"`),
			[]string{`transforms.outbox.field.name.adjustment.mode "avro"`, "set it to none"}},
		"types in a schema":           {connected(t, `"key.converter": "org.apache.kafka.connect.json.JsonConverter", "column.propagate.source.type": ".*"`), []string{"column.propagate.source.type", "would change columns"}},
		"columns that are not listed": {connected(t, `"column.include.list": "inventory.outboxevent.(id|payload)"`), []string{"column.include.list", "would change columns"}},
		"a comment behind a value":    {served(t, "debezium.source.plugin.name=pgoutput # not wal2json"), []string{"a comment needs a line of its own"}},
		"a managed connector":         {[]debezium.File{{Name: "c", Data: []byte(`{"connector.class": "PostgresCdcSourceV2", "transforms": "o", "transforms.o.type": "io.debezium.transforms.outbox.EventRouter", "key.converter": "String", "value.converter": "String"}`)}}, []string{`connector.class "PostgresCdcSourceV2"`, "a managed connector of Confluent Cloud"}},
		"decimals of another form":    {served(t, "debezium.source.decimal.handling.mode=double", "debezium.transforms.outbox.table.fields.additional.placement=price:header"), []string{`debezium.source.decimal.handling.mode "double"`, "column price"}},
	} {
		_, err := debezium.Import(c.files, environment(), nil, bytea)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") != (name == "topics that are made") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		files []debezium.File
		want  []string
	}{
		"the slot stays":                {served(t, "debezium.source.slot.drop.on.stop=false"), nil},
		"defaults of a converter":       {connected(t, `"key.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false", "key.converter.decimal.format": "BASE64", "key.converter.replace.null.with.default": "false"`), []string{"format.key: json"}},
		"a delegate for text":           {swap("org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.storage.StringConverter"), []string{"format.value: binary"}},
		"no delegate":                   {swap(`"value.converter.delegate.converter.type": "org.apache.kafka.connect.json.JsonConverter"`, `"tombstones.on.delete": "false"`), []string{"format.value: binary"}},
		"another converter":             {swap(payload, `"value.converter": "org.apache.kafka.connect.storage.StringConverter"`), []string{"format.value: simplestring"}},
		"topics that nobody makes":      {append(connected(t, `"topic.creation.default.partitions": 6`), debezium.File{Name: "x", Data: []byte("topic.creation.enable=false\n")}), nil},
		"times without a column":        {connected(t, `"time.precision.mode": "connect"`), nil},
		"decimals as text":              {served(t, "debezium.source.decimal.handling.mode=string"), nil},
		"a comma too many":              {swap("type:header:eventType", "type:header:eventType,,"), []string{`table.fields.additional.placement: "type:header:eventType"`}},
		"a colon too many":              {swap("type:header:eventType", "a:header:, type:header::"), []string{`table.fields.additional.placement: "a:header, type:header"`}},
		"a prefix that nobody needs":    {swap(`"topic.prefix": "dbserver1"`, `"topic.prefix": "${env:UNSET}"`), []string{"pipeline: outbox-connector", "#   topic.prefix: an outbox event router names the topics itself"}},
		"a class for headers":           {served(t, "debezium.format.header.class=org.apache.kafka.connect.storage.SimpleHeaderConverter"), []string{"format.header: simplestring", "#   debezium.format.header.schemas.enable: it changes nothing here"}},
		"a class for JSON":              {served(t, "debezium.format.key=json", "debezium.format.key.class=org.apache.kafka.connect.json.JsonConverter", "debezium.format.schemas.enable=false"), []string{"format.key: json", "#   debezium.format.key: debezium.format.key.class names the converter"}},
		"headers that stop Debezium":    {served(t, "debezium.format.header=simplestring"), []string{"format.header: simplestring"}},
		"options of a worker":           {connected(t, `"group.id": "x", "config.storage.topic": "x", "rest.port": 1`), []string{"#   group.id: it is about Kafka Connect itself", "#   config.storage.topic: it is about Kafka Connect itself", "#   rest.port: it is about Kafka Connect itself"}},
		"brokers of the offsets":        {served(t, "debezium.source.bootstrap.servers=k:9092"), []string{"#   debezium.source.bootstrap.servers: it is about Kafka Connect itself"}},
		"a failover in capitals":        {connected(t, `"slot.failover": "True"`), []string{"failover: true"}},
		"no failover":                   {connected(t, `"slot.failover": "false"`), []string{"#   slot.failover: it is at its default"}},
		"a stream by configuration":     {connected(t, `"snapshot.mode": "configuration_based", "snapshot.mode.configuration.based.start.stream": "true"`), nil},
		"a slot that Debezium moves":    {connected(t, `"flush.lsn.source": "true", "lsn.flush.mode": "connector"`), nil},
		"several schemas":               {connected(t, `"schema.include.list": "crm,Invent.*", "table.exclude.list": "inventory.heartbeat", "database.include.list": "x"`), nil},
		"a header's short name":         {connected(t, `"header.converter": "Simple"`), []string{"format.header: simplestring"}},
		"a schema's version":            {connected(t, `"transforms.outbox.table.field.event.schema.version": "v"`), []string{"#   transforms.outbox.table.field.event.schema.version: no schema version is sent"}},
		"transactions if there are any": {connected(t, `"exactly.once.support": "requested", "transaction.boundary": "poll", "transaction.boundary.interval.ms": 1, "consumer.override.x": 1, "sasl.mechanism": "PLAIN"`), []string{"#   exactly.once.support: exactly.once.source.support of the worker decides whether Kafka Connect sends in transactions", "#   sasl.mechanism: it is about Kafka Connect itself"}},
		"nulls and empty arrays":        {served(t, ""), []string{"table.json.payload.null.behavior: ignore", "table.json.payload.empty.array.behavior: ignore"}},
		"nulls that are kept": {served(t, "debezium.transforms.outbox.table.json.payload.null.behavior=optional_bytes"),
			[]string{`table.json.payload.null.behavior: "optional_bytes"`, "table.json.payload.empty.array.behavior: ignore"}},
		"columns that nobody sends":            {connected(t, `"column.exclude.list": "inventory.outboxevent.retries,inventory\\.outboxevent\\.done"`), []string{"#   column.exclude.list: it names no column that is sent"}},
		"an option without its transformation": {connected(t, `"table.field.event.key": "${nothing:x}"`), []string{"#   table.field.event.key: without transforms.NAME. in front, Debezium ignores it as well"}},
		"an option that there is not":          {connected(t, `"transforms.outbox.route.topic.pattern": "${routedByValue:x}"`), []string{"#   transforms.outbox.route.topic.pattern: the outbox event router of Debezium 3.6 has no such option, and ignores it as well"}},
		"a dot in brackets":                    {swap("inventory.outboxevent", "inventory[.]outboxevent"), []string{`- name: "inventory.outboxevent"`}},
		"all columns":                          {connected(t, `"column.include.list": "inventory.outboxevent.*"`), []string{"#   column.include.list: it names all columns that are sent"}},
		"columns of another table":             {connected(t, `"column.truncate.to.20.chars": "inventory.customers.name", "column.mask.with.5.chars": "a.b.c"`), []string{"#   column.truncate.to.20.chars: it names no column that is sent", "#   column.mask.with.5.chars: it names no column that is sent"}},
		"types without schemas":                {connected(t, `"column.propagate.source.type": ".*", "datatype.propagate.source.type": ".*"`), []string{"#   column.propagate.source.type: no schema is sent", "#   datatype.propagate.source.type: no schema is sent"}},
		"options of the driver":                {connected(t, `"database.ApplicationName": "x", "driver.connectTimeout": 10, "driver.tcpUserTimeout": 10, "database.allowPublicKeyRetrieval": true`), []string{"#   driver.tcpUserTimeout: it is about the driver's own connection", "#   database.ApplicationName: it is about the driver's own connection", "#   driver.connectTimeout: it is about the driver's own connection"}},
		"options of other versions":            {connected(t, `"database.history": "x", "publish.via.partition.root": true, "table.ignore.builtin": false, "offsets.storage.topic": "x"`), []string{"#   database.history: there is no schema history"}},
		"a plugin in capitals":                 {swap(`"pgoutput"`, `" PGOUTPUT"`), []string{"take_over: true"}},
		"choices in another case":              {connected(t, `"transforms.outbox.table.op.invalid.behavior": " Fatal ", "transforms.outbox.route.tombstone.on.empty.payload": "TRUE"`), []string{`table.op.invalid.behavior: "fatal"`, `route.tombstone.on.empty.payload: "true"`}},
		"a column with the name of a choice":   {connected(t, `"transforms.outbox.table.field.event.id": "Error"`), []string{`table.field.event.id: "Error"`}},
		"names that are not adjusted":          {connected(t, `"transforms.outbox.field.name.adjustment.mode": "NONE"`), []string{"#   transforms.outbox.field.name.adjustment.mode: it changes nothing in an outbox event"}},
		"names without a payload's":            {connected(t, `"transforms.outbox.field.name.adjustment.mode": "avro"`), []string{"#   transforms.outbox.field.name.adjustment.mode: no payload is expanded, whose names it would change"}},
		"short names of classes":               {append(swap("io.debezium.transforms.outbox.EventRouter", "EventRouter"), debezium.File{Name: "x", Data: []byte("key.converter=String\n")}), []string{"router:", "format.key: simplestring"}},
		"short names of converters":            {connected(t, `"key.converter": "StringConverter", "header.converter": "Json", "header.converter.schemas.enable": false`), []string{"format.key: simplestring", "format.header: json"}},
		"a connector's short name":             {swap("io.debezium.connector.postgresql.PostgresConnector", "Postgres"), []string{"kind: postgres"}},
		"the name of a database":               {connected(t, `"database.name": "shop"`), []string{"#   database.name: Debezium does not know it either: its option is database.dbname"}},
		"a table of the heartbeat's":           {connected(t, `"heartbeat.action.query": "INSERT INTO pulse VALUES (1)", "table.include.list": "inventory.outboxevent,pulse"`), nil},
		"a predicate's short name":             {connected(t, `"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": ".*", "transforms.outbox.predicate": "p"`), nil},
		"null":                                 {connected(t, `"slot.name": null`), []string{`slot: "debezium"`, "#   slot.name: it is null, so that its default counts"}},
		"a control character":                  {swap("postgrespw", "a\u0080b"), []string{`url: "host=order-db port=5432 dbname=orderdb user=postgresuser password=a\x80b"`}},
		"blanks of a password":                 {swap("postgrespw", " a b "), []string{`url: "host=order-db port=5432 dbname=orderdb user=postgresuser password=' a b '"`}},
		"blanks behind a password":             {served(t, "debezium.source.database.password=  x "), []string{`url: "host=db.example.org port=5432 dbname=postgres user=postgres password='x '"`}},
		"the id of NATS":                       {served(t, append(nats, placed+"id:header:Nats-Msg-Id")...), []string{"msg_id: id"}},
		"a $ that SmallRye escapes":            {served(t, `debezium.transforms.outbox.route.topic.replacement=x.\\${routedByValue}`), []string{`route.topic.replacement: "x.${routedByValue}"`}},
		"comments":                             {connected(t, `"//": "long text", "_comment2": "long text", "tasks.max": 1`), nil},
		"signals":                              {served(t, "debezium.source.signal.data.collection=public.signals", "debezium.source.table.include.list=inventory.outboxevent,public.signals"), []string{`- name: "inventory.outboxevent"`}},
	} {
		yaml, err := debezium.Import(c.files, environment(), nil, bytea)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !has(string(yaml), want) {
				t.Errorf("%s: no %s in\n%s", name, want, yaml)
			}
		}
		if note := "# debezium.format.header: Debezium 3.6 does not start with this format of headers\n"; strings.Contains(string(yaml), note) != (name == "headers that stop Debezium") {
			t.Errorf("%s: %q in\n%s", name, note, yaml)
		}
		if strings.Contains(string(yaml), "long text") || strings.Contains(string(yaml), `name: "public.signals"`) {
			t.Errorf("%s:\n%s", name, yaml)
		}
	}
}

// TestImportDelegates: what is no bytea goes through the converter's delegate, so the column decides.
func TestImportDelegates(t *testing.T) {
	t.Parallel()
	const key = `"key.converter": "io.debezium.converters.ByteBufferConverter", "key.converter.delegate.converter.type": "org.apache.kafka.connect.json.JsonConverter", "key.converter.delegate.converter.type.schemas.enable": "false"`
	for literal, want := range map[string]string{`{"type":"string","optional":false}`: "format.key: json", `{"type":"bytes","optional":false}`: "format.key: binary"} {
		yaml, err := debezium.Import(connected(t, key), environment(), nil, func(string, string, string) (map[string]string, error) {
			return map[string]string{"aggregateid": literal, "payload": `{"type":"bytes","optional":true}`}, nil
		})
		if err != nil || !has(string(yaml), want) {
			t.Errorf("%s: no %s: %v\n%s", literal, want, err, yaml)
		}
	}
}

// TestImportAsksLast: everything that is wrong with the files is told in one go, before the database is asked; and that it cannot be asked is told once.
func TestImportAsksLast(t *testing.T) {
	t.Parallel()
	var lines []string
	for line := range strings.Lines(text(t, "server.properties")) {
		if !strings.HasPrefix(line, "debezium.format.") && !strings.Contains(line, "expand.json") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	all := strings.Join(lines, "\n") + "\n"
	asked := 0
	describe := func(string, string, string) (map[string]string, error) {
		asked++
		return nil, errors.New("connection refused")
	}
	_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(all + "debezium.source.slot.drop.on.stop=true\ndebezium.source.driver.options=1\n")}}, environment(), nil, describe)
	if err == nil || asked != 0 || strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "drop.on.stop") || !strings.Contains(err.Error(), "driver.options") {
		t.Errorf("asked %d times: %v", asked, err)
	}
	_, err = debezium.Import([]debezium.File{{Name: "f", Data: []byte(all)}}, environment(), nil, describe)
	if err == nil || strings.Count(err.Error(), "connection refused") != 1 {
		t.Errorf("a database that cannot be asked: %v", err)
	}
}

// TestImportUnreadVariables: a variable from which Debezium Server takes an option is taken too, or named.
func TestImportUnreadVariables(t *testing.T) {
	t.Parallel()
	pairs := []string{"DEBEZIUM_SOURCE_POST_PROCESSORS", "x", "DEBEZIUM_SOURCE_COLUMN_EXCLUDE_LIST", ".*", "DEBEZIUM_SOURCE_SLOT_NAME", "s", "DEBEZIUM_VERSION", "3", "DEBEZIUM_SINK_PORT_8080_TCP_ADDR", "x",
		"DEBEZIUM_SINK_SERVICE_HOST", "x", "DEBEZIUM_SOURCE_SCHEMA", "inventory", "PATH", "x", "DEBEZIUM_SINK_KAFKA_PRODUCER_PARTITIONER_CLASS", "x", "debezium_source_message_prefix_include_list", "x"}
	var names []string
	for pair := range slices.Chunk(pairs, 2) {
		names = append(names, pair[0])
	}
	_, err := debezium.Import(served(t, "debezium.source.schema.include.list=${DEBEZIUM_SOURCE_SCHEMA:inventory}"), environment(pairs...), names, bytea)
	for _, want := range []string{"$DEBEZIUM_SOURCE_POST_PROCESSORS", "$DEBEZIUM_SOURCE_COLUMN_EXCLUDE_LIST", "$DEBEZIUM_SINK_KAFKA_PRODUCER_PARTITIONER_CLASS", "$debezium_source_message_prefix_include_list"} {
		if err == nil || strings.Count(err.Error(), "\n") != 3 || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	if _, err := debezium.Import(connected(t, `"tasks.max": 1`), environment(), names, bytea); err != nil {
		t.Errorf("Kafka Connect reads no variables: %v", err)
	}
}

// TestImportAllowsPlaintext: credentials that Debezium sends in the clear to another machine go on doing so, and a comment says it.
func TestImportAllowsPlaintext(t *testing.T) {
	t.Parallel()
	kafka := func(protocol, mechanism, brokers string) []debezium.File {
		return connected(t, `"producer.override.security.protocol": "`+protocol+`", "producer.override.sasl.mechanism": "`+mechanism+`", "producer.override.bootstrap.servers": "`+brokers+
			`", "producer.override.sasl.jaas.config": "x required username='u' password='p';"`)
	}
	nats := func(url string) []debezium.File {
		return served(t, "debezium.sink.type=nats-jetstream", "debezium.sink.nats-jetstream.url="+url, "debezium.sink.nats-jetstream.auth.user=u", "debezium.sink.nats-jetstream.auth.password=p")
	}
	http := func(url string) []debezium.File {
		return served(t, "debezium.sink.type=http", "debezium.sink.http.url="+url, "debezium.sink.http.headers.prefix=", "debezium.sink.http.headers.encode.base64=false")
	}
	for name, c := range map[string]struct {
		files []debezium.File
		want  bool
	}{
		"kafka": {kafka("SASL_PLAINTEXT", "PLAIN", "k:9092"), true}, "kafka here": {kafka("SASL_PLAINTEXT", "PLAIN", "127.0.0.1:9092,localhost:1"), false},
		"kafka with TLS": {kafka("SASL_SSL", "PLAIN", "k:9092"), false}, "kafka with SCRAM": {kafka("SASL_PLAINTEXT", "SCRAM-SHA-256", "k:9092"), false},
		"nats": {nats("nats://n:4222"), true}, "nats here": {nats("nats://localhost:4222"), false}, "nats with TLS": {nats("tls://n:4222"), false},
		"http": {http("http://u:p@h/x"), true}, "http without a password": {http("http://h/x"), false}, "https": {http("https://u:p@h/x"), false}, "http here": {http("http://u:p@[::1]:80/x"), false},
	} {
		yaml, err := debezium.Import(c.files, environment(), nil, bytea)
		if err != nil || has(string(yaml), "allow_plaintext: true") != c.want || c.want && !strings.Contains(string(yaml), "  # as in Debezium") {
			t.Errorf("%s: %v\n%s", name, err, yaml)
		}
	}
}

// TestImportNATSLogin: the login in the servers' addresses counts before the options, as it does for the client of NATS.
func TestImportNATSLogin(t *testing.T) {
	t.Parallel()
	const options = "\ndebezium.sink.nats-jetstream.auth.user=other"
	for url, want := range map[string]string{
		"nats://a:b@n:4222":                    "    servers: [\"nats://n:4222\"]  # debezium.sink.nats-jetstream.url\n    username: \"a\"  # debezium.sink.nats-jetstream.url\n    password: \"b\"",
		"nats://a:p%40q@n1,nats://a:p%40q@n2":  `password: "p@q"`,
		"tls://${NATS_USER}:${NATS_PW}@n:4222": "username: \"${NATS_USER}\"  # debezium.sink.nats-jetstream.url\n    password: \"${NATS_PW}\"",
		"nats://s3cr@n:4222":                   `token: "s3cr"`,
		"nats://a:b@n" + options:               "auth.user: what the servers' address says counts",
		"nats://a:b@n1,nats://c:d@n2":          "has servers with different logins",
		"nats://a:b@n1,nats://n2":              "has servers with different logins",
	} {
		yaml, err := debezium.Import(served(t, "debezium.sink.type=nats-jetstream", "debezium.sink.nats-jetstream.url="+url), environment(), nil, bytea)
		if got := string(yaml) + fmt.Sprint(err); !strings.Contains(got, want) || strings.Contains(got, "@n") {
			t.Errorf("%s: no %q in\n%s", url, want, got)
		}
	}
}

// TestImportModesOfTimes: a mode of times is refused only if a column is placed that it changes. Points in time with a zone are the same text in each mode but structured.
func TestImportModesOfTimes(t *testing.T) {
	t.Parallel()
	columns := map[string]string{"at": `{"type":"string","optional":true,"name":"io.debezium.time.ZonedTimestamp","version":1}`, "made": "", "kind": `{"type":"string","optional":false}`, "id": `{"type":"string","optional":false}`,
		"aggregateid": `{"type":"int64","optional":false}`}
	const listed, both = "#   debezium.source.time.precision.mode: it changes no column that is sent", "inventory.outboxevent,inventory.second_outboxevent"
	for _, c := range []struct{ mode, columns, tables, want string }{
		{"isostring", "at", "", listed}, {"connect", "at,kind", "", listed}, {"microseconds", "at", "", listed}, {"nanoseconds", "at", "", listed}, {"adaptive_time_microseconds", "at", "", listed},
		{"connect", "made", "", listed}, {"isostring", "at,made", both, listed}, {"structured", "kind", "", listed},
		{"isostring", "at,day", "", "may change how column day is sent"}, {"connect", "at,gone", both, "may change how column gone is sent"},
		{"structured", "at,kind", "", "may change how column at is sent"}, {"Structured", "made", "", "may change how column made is sent"}, {"structured", "at", both, "may change how column at is sent"},
	} {
		lines := []string{"debezium.source.time.precision.mode=" + c.mode, "debezium.transforms.outbox.table.field.event.timestamp=day",
			"debezium.transforms.outbox.table.fields.additional.placement=" + strings.ReplaceAll(c.columns, ",", ":header,") + ":header"}
		if c.tables != "" {
			lines = append(lines, "debezium.source.table.include.list="+c.tables)
		}
		yaml, err := debezium.Import(served(t, lines...), environment(), nil, func(_, _, table string) (map[string]string, error) {
			found := maps.Clone(columns)
			if table == "inventory.outboxevent" {
				found["gone"] = columns["kind"]
			} else {
				found["at"] = strings.Replace(found["at"], "true", "false", 1)
			}
			return found, nil
		})
		if got := string(yaml) + fmt.Sprint(err); !strings.Contains(got, c.want) || (err == nil) != (c.want == listed) {
			t.Errorf("%s of %s: no %q in\n%s", c.mode, c.columns, c.want, got)
		}
	}
}

// TestImportModesOfBytes: a mode of bytes is refused only if a column is sent that holds bytes, or whose type is not known.
func TestImportModesOfBytes(t *testing.T) {
	t.Parallel()
	const text, bytes = `{"type":"string","optional":false}`, `{"type":"bytes","optional":true}`
	const listed = "#   debezium.source.binary.handling.mode: it changes no column that is sent"
	for name, c := range map[string]struct {
		mode, place string
		columns     map[string]string
		want        string
	}{
		"no bytes":           {"hex", "type", map[string]string{"id": text, "aggregateid": text, "payload": text, "type": text, "raw": bytes}, listed},
		"a payload":          {"base64", "type", map[string]string{"id": text, "aggregateid": text, "payload": bytes, "type": text}, "may change how column payload is sent"},
		"a placed column":    {"base64", "raw", map[string]string{"id": text, "aggregateid": text, "payload": text, "raw": bytes}, "may change how column raw is sent"},
		"an unknown default": {"hex", "type", map[string]string{"id": "", "aggregateid": text, "payload": text, "type": text}, "may change how column id is sent"},
		"another type":       {"hex", "type", map[string]string{"id": text, "payload": text, "type": text}, "may change how column aggregateid is sent"},
		"the default":        {"Bytes", "type", nil, "#   debezium.source.binary.handling.mode: it is at its default"},
		"no database":        {"hex", "type", nil, "changes how columns id, aggregateid, payload, type are sent if they are of such a type, but connection refused"},
	} {
		files := served(t, "debezium.source.binary.handling.mode="+c.mode, "debezium.transforms.outbox.table.field.event.id=id", "debezium.transforms.outbox.table.field.event.key=aggregateid",
			"debezium.transforms.outbox.table.fields.additional.placement="+c.place+":header")
		yaml, err := debezium.Import(files, environment(), nil, func(string, string, string) (map[string]string, error) {
			if c.columns == nil {
				return nil, errors.New("connection refused")
			}
			return maps.Clone(c.columns), nil
		})
		if got := string(yaml) + fmt.Sprint(err); !strings.Contains(got, c.want) || (err == nil) != strings.HasPrefix(c.want, "#") {
			t.Errorf("%s: no %q in\n%s", name, c.want, got)
		}
	}
}

// TestImportPlacedID: a column that is placed as a second header id is placed, as in Debezium, and a comment says which of the two consumers read.
func TestImportPlacedID(t *testing.T) {
	t.Parallel()
	for placements, want := range map[string]bool{"uuid:header:id": true, "type:header, id : Header": true, "id:header:event": false, "type:header": false} {
		files := connected(t, `"tasks.max": 1`)
		files[0].Data = []byte(strings.Replace(string(files[0].Data), "type:header:eventType", placements, 1))
		yaml, err := debezium.Import(files, environment(), nil, bytea)
		if err != nil || strings.Contains(string(yaml), "# two headers are named id") != want {
			t.Errorf("%s: %v\n%s", placements, err, yaml)
		}
	}
}

// TestImportHeaderOfAnEnvelope: a header is no envelope, whatever its name.
func TestImportHeaderOfAnEnvelope(t *testing.T) {
	t.Parallel()
	for _, converter := range []string{"org.apache.kafka.connect.storage.StringConverter", "io.debezium.converters.BinaryDataConverter"} {
		c := connectorWith(t, "value.converter", converter, "transforms.outbox.table.fields.additional.placement", "hash:header:envelopeHash")
		if yaml := imported(t, environment(), "worker.properties", text(t, "worker.properties"), "connector.json", c); !strings.Contains(yaml, "hash:header:envelopeHash") {
			t.Errorf("%s: no header in\n%s", converter, yaml)
		}
	}
}

// TestImportKeyless: Debezium sends no key over HTTP and NATS, so that its format changes nothing.
func TestImportKeyless(t *testing.T) {
	t.Parallel()
	nats := "debezium.sink.type=nats-jetstream\ndebezium.sink.nats-jetstream.url=tls://n:4222"
	for _, sink := range []string{httpSink, nats} {
		files := served(t, append(strings.Split(sink, "\n"), "debezium.format.key=avro", "debezium.format.key.apicurio.registry.url=http://r/")...)
		yaml, err := debezium.Import(files, environment(), nil, bytea)
		if err != nil || !strings.Contains(string(yaml), "#   debezium.format.key: this sink sends no key") {
			t.Errorf("%s: %v\n%s", sink, err, yaml)
		}
	}
}

// TestImportTopicGroups: a topic that names a group which the regular expression lacks stops Debezium at each message, and so does a regular expression that cannot be read.
func TestImportTopicGroups(t *testing.T) {
	t.Parallel()
	const outbox, short = "transforms.outbox.route.topic.", "transforms.short."
	with := func(options map[string]string) []debezium.File {
		lines := strings.Replace(text(t, "connector.json"), `    "transforms.outbox.route.topic.replacement": "${routedByValue}.events",`+"\n", "", 1)
		for key, value := range options {
			lines = strings.Replace(lines, `"plugin.name"`, fmt.Sprintf("%q: %q,\n", key, value)+`"plugin.name"`, 1)
		}
		if options[short+"regex"] != "" {
			lines = strings.Replace(lines, `"transforms": "outbox"`, `"transforms": "outbox,short", "transforms.short.type": "org.apache.kafka.connect.transforms.RegexRouter"`, 1)
		}
		return []debezium.File{{Name: "c", Data: []byte(lines)}, {Name: "w", Data: []byte(text(t, "worker.properties"))}}
	}
	const fix = ": name a group that it has"
	for _, c := range []struct{ regex, replacement, want string }{
		{"(.*)", "$1", ""}, {"(.*)", "t.$0", ""}, {"(.*)", "$12", ""}, {"(.*)", "$01", ""}, {"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)(l)", "$12", ""}, {"(.*)", `\$2`, ""}, {"(?<name>.*)", "${name}", ""}, {"(?<name>.*)", "$1", ""},
		{"(.*)", `\${name}`, ""}, {"", "${routedByValue}", ""}, {"", "$1", ""}, {"(?<routedByValue>.*)", "", ""}, {"(.*)", "${env:TOPIC}.$1", ""}, {"(.*)", "${file:/x:y}.$1", ""}, {"(?<A>.*)(b)", "$1", ""},
		{"(.*)", "$2", `route.topic.replacement "$2": names the group 2, but the regular expression has 1` + fix},
		{"(.*)", "$20", `names the group 2, but the regular expression has 1` + fix},
		{"x", "$1", `names the group 1, but the regular expression has 0` + fix},
		{"(.*)", "${name}", `route.topic.replacement "${name}": names the group "name", which the regular expression does not have` + fix},
		{"(.*)", "${env:TOPIC}.$2", `names the group 2, but the regular expression has 1` + fix},
		{"(.*)", "${env:UNSET}.$2", `names the group 2, but the regular expression has 1` + fix},
		{"", "$2", `names the group 2, but the regular expression has 1` + fix},
		{"(.*)", "", `route.topic.replacement: is missing, and its default, outbox.event.${routedByValue}, names the group "routedByValue", which the regular expression does not have` + fix},
		{"(.*)", "$x", "has a $ that names no group"}, {"(.*)", `$1\`, "ends in a backslash"}, {"(.*)", "$$1", "has $$"},
		{"(.*)", "${NAME}", `names the group "NAME", which the regular expression does not have` + fix},
		{"(?<NAME>.*)", "${NAME}", "write the group's number, as in $1, or give it a name in small letters"},
		{"([a-z&&[^x]]+)", "$1", `route.topic.regex "([a-z&&[^x]]+)": cannot be read: it holds && in brackets, which Java reads in another way`},
		{"([a-d[m-p]]+)", "$1", "it holds [ in brackets, which Java reads"}, {"([[:alpha:]]+)", "$1", "it holds [ in brackets, which Java reads"}, {`([\[\]&]+\[[^]&]\Q[[\E)`, "$1", ""}, {"(?iU)(.*)", "$1", "it holds (?iU, which Java reads"}, {`(\0101)`, "$1", `it holds \0, which Java reads`}, {`(\\0\Q\0\E)`, "$1", ""}, {"(?i)(É+)", "$1", "it holds (?i) beside É, which Java reads"}, {"(?i)(É+)|(?iu)x", "$1", "it holds (?i) beside É"}, {"(E+É)", "$1", ""}, {`(\v)`, "$1", `it holds \v, which Java reads`},
		{"(?!x)(.*)", "$1", `route.topic.regex "(?!x)(.*)": read regular expression: error parsing regexp: invalid or unsupported Perl syntax`},
	} {
		for _, behind := range []bool{false, true} {
			regex, replacement := outbox+"regex", outbox+"replacement"
			if behind {
				if c.regex == "" || c.replacement == "" || strings.Contains(c.replacement, "UNSET") || strings.Contains(c.replacement, "file:") {
					continue // it has no defaults, and takes values as they are now
				}
				regex, replacement = short+"regex", short+"replacement"
			}
			options := map[string]string{}
			for key, value := range map[string]string{regex: c.regex, replacement: c.replacement} {
				if value != "" {
					options[key] = value
				}
			}
			want := c.want
			if behind {
				want = strings.Replace(want, "route.topic.", short, 1)
			}
			yaml, err := debezium.Import(with(options), environment("TOPIC", "t"), nil, bytea)
			switch {
			case want == "" && (err != nil || !strings.Contains(string(yaml), "route.topic.")), want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("regex %q, replacement %q, behind the router %t: %v, want %q", c.regex, c.replacement, behind, err, want)
			}
		}
	}
}
