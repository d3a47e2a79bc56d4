package debezium

import (
	"slices"
	"strconv"
	"strings"
)

// An ignoredOption has no effect on what the outbox sends.
type ignoredOption struct {
	// prefix is that of one key or, if it ends in a dot, of several.
	prefix, why string
}

func ignoredOptions() []ignoredOption {
	const own, connect, named = "tailbox has its own way", "it is about Kafka Connect itself", "tailbox reads only what table.include.list or collection.include.list names"
	const old = "Debezium 2 and later do not know it, and " + named
	return []ignoredOption{
		{"source.offset.", "the position is kept in the database, in tailbox_checkpoint"},
		{"source.snapshot.", "nothing is read but the log"},
		{"source.incremental.snapshot.", "nothing is read but the log"},
		{"source.config.providers", "tailbox.yaml has references of its own"}, {"source.config.providers.", "tailbox.yaml has references of its own"},
		{"source.exactly.once.support", "exactly.once.source.support of the worker decides whether Kafka Connect sends in transactions"},
		{"source.exactly.once.source.support", "enabled alone has Kafka Connect send in transactions"}, {"source.transaction.boundary", connect}, {"source.transaction.boundary.", connect}, {"source.admin.", connect}, {"source.consumer.", connect},
		{"source.security.protocol", connect}, {"source.sasl.", connect}, {"source.ssl.", connect},
		{"source.bootstrap.servers", connect}, {"source.group.id", connect}, {"source.config.storage.", connect}, {"source.status.storage.", connect}, {"source.rest.", connect}, {"source.listeners", connect},
		{"source.plugin.path", connect}, {"source.plugin.discovery", connect}, {"source.session.timeout.ms", connect}, {"source.rebalance.timeout.ms", connect}, {"source.worker.", connect},
		{"source.heartbeat.action.query", "tailbox does not run it: an idle log is confirmed without it, but rows that it would delete stay"},
		{"source.heartbeat.", "an idle log is confirmed without heartbeats, and none are sent"},
		{"source.topic.heartbeat.prefix", "no heartbeats are sent"},
		{"source.poll.", "messages are sent when they arrive"},
		{"source.max.batch.size", "bounded by memory"}, {"source.max.queue.size", "bounded by memory"}, {"source.max.queue.size.in.bytes", "bounded by memory"},
		{"source.errors.", "failures are retried and parked, group by group"},
		{"source.retriable.", "failures are retried and parked, group by group"},
		{"source.event.processing.failure.handling.mode", "a row that cannot be read is a dead letter"},
		{"source.publication.autocreate.mode", "if the publication is missing, tailbox init makes it, for the outbox tables alone"},
		{"source.slot.", own}, {"source.lsn.flush.", own}, {"source.flush.lsn.source", own}, {"source.status.update.interval.ms", own},
		{"source.xmin.fetch.interval.ms", own}, {"source.publish.via.partition.root", "it is in the publication, which stays"}, {"source.table.ignore.builtin", named}, {"source.offsets.storage.topic", "the position is kept in the database, in tailbox_checkpoint"}, {"source.replica.identity.autoset.values", "inserts do not need it"},
		{"source.tombstones.on.delete", "deletes of outbox rows send nothing"}, {"source.skipped.operations", "inserts alone are sent"},
		{"source.unavailable.value.placeholder", "an insert holds all its values"}, {"source.toasted.value.placeholder", "an insert holds all its values"},
		{"source.decimal.handling.mode", "decimals are sent as text"}, {"source.time.precision.mode", "it is at its default"}, {"source.binary.handling.mode", "it is at its default"},
		{"source.interval.handling.mode", "intervals are placed as text"}, {"source.hstore.handling.mode", "hstore is placed as text"},
		{"source.money.fraction.digits", "money is placed as text"}, {"source.include.unknown.datatypes", "every type is placed as text"},
		{"source.schema.name.adjustment.mode", "no schema is sent"}, {"source.field.name.adjustment.mode", "no schema is sent"},
		{"source.include.schema.changes", "changes of the schema are no messages of the outbox, and are not sent"}, {"source.schema.refresh.mode", "no schema is sent"}, {"source.schema.include.list", named},
		{"source.schema.exclude.list", named}, {"source.table.exclude.list", named}, {"source.table.blacklist", old}, {"source.table.whitelist", old}, {"source.sanitize.field.names", "Debezium 2 and later do not know it, and the router's messages have no such names"},
		{"source.schema.whitelist", old}, {"source.schema.blacklist", old}, {"source.database.whitelist", old}, {"source.database.include.list", named},
		{"source.schema.history.", "there is no schema history"}, {"source.database.history.", "there is no schema history"}, {"source.database.history", "there is no schema history"},
		{"source.signal.", "tailbox has commands for that"}, {"source.notification.", "nobody sends notifications any more: tailbox status and the metrics tell the state"}, {"source.custom.metric.tags", "see docs/metrics.md"},
		{"source.extended.headers.enabled", "headers about Debezium itself are not sent"}, {"source.sourceinfo.struct.maker", "the event's source is not sent"},
		{"source.source.struct.version", "the event's source is not sent"}, {"source.topic.", routerNames}, {"source.message.key.columns", routerKeys},
		{"source.tasks.max", "there is one"}, {"source.tasks.max.enforce", "there is one"}, {"source.config.action.reload", "secrets are read when tailbox starts"}, {"source.name", own}, {"source.database.server.name", routerNames}, {"source.database.tcpKeepAlive", own}, {"source.tcp.keep.alive", own},
		{"source.database.query.timeout.ms", own}, {"source.database.sslfactory", own},
		{"source.executor.", own}, {"source.record.processing.", own}, {"source.task.management.timeout.ms", own}, {"source.provide.transaction.metadata", "no message of the outbox has it, and nobody writes the topic of transactions any more"},
		{"source.guardrail.", own}, {"source.connection.validation.timeout.ms", own}, {"source.internal.", own}, {"source.openlineage.", own},
		{"source.database.server.id", own}, {"source.database.server.id.offset", own}, {"source.connect.timeout.ms", own}, {"source.connect.keep.alive", own},
		{"source.connect.keep.alive.interval.ms", own}, {"source.use.nongraceful.disconnect", own}, {"source.binlog.", own}, {"source.min.row.count.to.stream.results", "nothing is read but the log"},
		{"source.include.query", "the event's source is not sent"}, {"source.resolve.create.table.like.schema", "there is no schema history"},
		{"source.event.deserialization.failure.handling.mode", "a row that cannot be read is a dead letter"}, {"source.inconsistent.schema.handling.mode", "a row that cannot be read is a dead letter"},
		{"source.enable.time.adjuster", "years are written with four digits"}, {"source.read.only", own}, {"source.gtid.", own}, {"source.connector.adapter", own}, {"source.database.initial.statements", "tailbox runs none: inserts need no setting of the table, and its own connections are set by source.url"}, {"source.database.protocol", own},
		{"source.database.jdbc.", own}, {"source.database.dbname", "source.url names a database"}, {"source.bigint.unsigned.handling.mode", "it is at its default"},
		{"source.ddl.parser.type", "there is no schema history"}, {"source.include.schema.comments", "no schema is sent"}, {"source.event.converting.failure.handling.mode", "a row that cannot be read is a dead letter"},
		{"source.streaming.delay.ms", own}, {"source.query.fetch.size", own}, {"source.skip.messages.without.change", "inserts alone are sent"}, {"source.statistics.metrics.enabled", own},
		{"source.transaction.metadata.factory", "the event's source is not sent"},
		{"source.mongodb.poll.interval.ms", own}, {"source.mongodb.connect.timeout.ms", own}, {"source.mongodb.server.selection.timeout.ms", own}, {"source.mongodb.socket.timeout.ms", own},
		{"source.mongodb.heartbeat.frequency.ms", own}, {"source.mongodb.task.id", own}, {"source.mongodb.members.auto.discover", own}, {"source.mongodb.name", routerNames},
		{"source.mongodb.ssl.keystore.", "it is of a key store"}, {"source.mongodb.ssl.truststore.", "it is of a key store"}, {"source.capture.", "the inserts of the outbox are read"}, {"source.cursor.max.await.time.ms", own}, {"source.cursor.oversize.", "a large document is a dead letter"},
		{"source.json.serialization.mode", "the router sends values as before"}, {"source.filters.match.mode", named}, {"source.collection.exclude.list", named},
		{"source.collection.blacklist", old}, {"source.database.exclude.list", named}, {"source.database.blacklist", old},
		{"quarkus.", "it is the Java server's"}, {profilePrefix, "it is of another profile"}, {otherPrefix, "it is not Debezium's"},
		{"api.", own},
		{"transforms.", "the transformation is not in the list of transforms"}, {"predicates", "no transformation that is kept uses it"}, {"predicates.", "no transformation that is kept uses it"}, {"sink.", "it is of another sink"}, {"format.schemas.enable", "key, value and header have this option of their own, or need none"}, {"format.", "it is of another format"},
		{"key.converter.", "it is of another converter"}, {"value.converter.", "it is of another converter"}, {"header.converter.", "it is of another converter"},
	}
}

// Why options have no effect because of the router, which may be missing.
const (
	routerNames = "an outbox event router names the topics itself"
	routerKeys  = "an outbox event router makes the key itself"
)

// driverOptions are options of the drivers of Postgres, MySQL and MariaDB that change nothing that the log holds, beside those that end a wait. Debezium passes all options database. and driver. on to them.
func driverOptions() []string {
	return []string{"ApplicationName", "allowPublicKeyRetrieval", "autoReconnect", "characterEncoding", "connectionTimeZone", "requireSSL", "serverTimezone", "tcpKeepAlive", "trustServerCertificate", "connection.timezone", "useSSL", "useUnicode"}
}

// admin has metrics and health served at the port where Debezium Server would, but to this machine alone: others have to name a token,
// which Debezium has not.
func (c *conversion) admin() {
	if s := c.take(profileKey); s != nil && strings.Contains(s.value, ",") {
		c.problem(s, "names several profiles, of which tailbox reads one: name one, and give what the others hold in its options")
	}
	for _, key := range []string{"quarkus.config.locations", otherPrefix + "smallrye.config.locations", otherPrefix + "smallrye.config.profile"} {
		if s := c.take(key); s != nil {
			c.problem(s, "brings options that are not read: write them into a file that you give to the import, and remove this")
		}
	}
	s := c.settings["quarkus.http.port"]
	if s == nil || s.raw == "" {
		return // rest lists one that is empty
	}
	c.take("quarkus.http.port")
	if _, err := strconv.ParseUint(s.value, 10, 16); err != nil {
		c.problem(s, "must be a port from 1 to 65535, or 0 for any that is free")
		return
	}
	c.out.section(0, "admin", "")
	c.out.set(1, "listen", quoted("127.0.0.1:"+s.value), "", s)
}

// rest lists what is ignored, and tells what is not known.
func (c *conversion) rest() {
	for _, key := range c.keys("source.") {
		if !knows(c.kind, strings.TrimPrefix(key, "source.")) {
			c.ignore("Debezium's connector for this kind of database does not know it", key)
		}
	}
	c.harmful()
	for _, key := range c.keys("") {
		s, why := c.settings[key], ""
		for _, o := range ignoredOptions() {
			if key == o.prefix || strings.HasSuffix(o.prefix, ".") && strings.HasPrefix(key, o.prefix) {
				why = o.why
				break
			}
		}
		if (why == routerNames || why == routerKeys) && c.routerName() == "" {
			why = "nothing is taken over without an outbox event router, which makes topic and key itself"
		}
		name, source := strings.CutPrefix(key, "source.")
		if _, option, _ := strings.Cut(name, "."); source && why == "" && (strings.HasPrefix(name, "database.") || strings.HasPrefix(name, "driver.")) && (containsFold(driverOptions(), option) || strings.HasSuffix(strings.ToLower(option), "timeout")) {
			why = "it is about the driver's own connection"
		}
		if why == "" && source && isRouterOption(name) {
			why = "without transforms.NAME. in front, Debezium ignores it as well"
		}
		if why == "" && (source && !heard(name) || c.server && !source) {
			why = unheardOf
		}
		if c.server && slices.Contains(converters(), name) {
			why = "Debezium Server takes its converters from debezium.format.*"
		}
		if why == "" {
			c.take(key)
			c.problem(s, "is no option that is known to change nothing: remove it, if the messages do not depend on it")
			continue
		}
		c.ignore(why, key)
	}
}

// harmful tells options of the source that would change the messages, or that send further ones.
func (c *conversion) harmful() {
	for _, key := range []string{"snapshot.mode", "skipped.operations", "exactly.once.support", "exactly.once.source.support", "flush.lsn.source", "lsn.flush.mode"} { // some of their values are harmful
		if s := c.settings["source."+key]; s != nil {
			c.tell(s)
		}
	}
	for key, harmless := range map[string]string{"source.converters": "",
		"source.post.processors": "", "source.slot.stream.params": "", "source.cursor.pipeline": "", "source.field.exclude.list": "",
		"source.field.renames": "", "source.field.blacklist": "", "source.mongodb.authentication.class": "io.debezium.connector.mongodb.connection.DefaultMongoDbAuthProvider"} {
		if s := c.settings[key]; s == nil || s.used {
			continue
		}
		s := c.take(key)
		if s.value != harmless {
			c.problem(s, "would change what is sent, and is not built into tailbox: set it to %q, or keep Debezium for this outbox", harmless)
			if key == "source.converters" || key == "source.post.processors" {
				for _, name := range commas(s.value) {
					c.ignore("it is of what "+s.key+" names, which is refused", c.keys("source."+name+".")...)
				}
			}
			continue
		}
		c.out.ignored(s, "it is at its default")
	}
	c.sendsNothing()
	for key, all := range map[string]string{"source.gtid.source.includes": ".*", "source.gtid.source.excludes": ""} {
		switch s := c.settings[key]; {
		case s == nil || s.used:
		case c.settings["source.gtid.source.filter.dml.events"].is("false"):
			c.ignore("it chooses a position, and no rows", key)
		case s.fault == "" && s.value == all:
			c.ignore("it lets the transactions of all servers through", key)
		default:
			c.problem(c.take(key), "has Debezium leave out rows of transactions that other servers began, and is not built into tailbox: remove it if messages of all servers are to be sent")
		}
	}
	// Kafka Connect starts a connector with required only on a worker with enabled.
	for key, transactions := range map[string]string{"source.exactly.once.support": "required", "source.exactly.once.source.support": "enabled"} {
		if s := c.settings[key]; s.is(transactions) {
			c.problem(c.take(key), "has Kafka Connect send in transactions, and tailbox can send a message twice: let what reads the messages drop those whose header id it has seen, "+
				"then remove this option from the file that is imported")
		}
	}
	for _, key := range append(c.keys("source.column."), c.keys("source.datatype.propagate.source.type")...) {
		some, all := c.sends(c.settings[key].value)
		switch {
		case strings.HasSuffix(key, ".propagate.source.type") && !c.out.names(".schema: "):
			c.ignore("no schema is sent", key)
			continue
		case key == "source.column.include.list" || key == "source.column.whitelist":
			if all {
				c.ignore("it names all columns that are sent", key)
				continue
			}
		case !some && !strings.HasPrefix(key, "source.datatype."):
			c.ignore("it names no column that is sent", key)
			continue
		}
		c.problem(c.take(key), "would change columns of the outbox, and is not built into tailbox: let the application write what may be sent")
	}
	makes := c.settings["source.topic.creation.enable"]
	for _, key := range c.keys("source.topic.creation.") {
		if c.server || makes.is("false") || c.settings[key] == makes { // Debezium Server and such a worker make no topics either
			c.ignore("no topic is made by it", key)
			continue
		}
		c.problem(c.take(key), "tailbox makes no topics: make them with these settings before tailbox starts, as by kafka-topics --create, and remove this option")
	}
	c.modes()
	c.comments()
	c.ignore("messages without a table are not sent", "source.message.prefix.exclude.list")
	if s := c.settings["source.message.prefix.include.list"]; s != nil && !s.used && s.value != "" {
		c.problem(c.take("source.message.prefix.include.list"), "has Debezium send what pg_logical_emit_message writes as it is: remove it if nothing reads those messages, or write them in the form that source.messages takes")
	}
}

// sendsNothing refuses options with which Debezium sends no message that is inserted from now on.
func (c *conversion) sendsNothing() {
	if s := c.settings["source.snapshot.mode"]; s.is("custom") {
		c.problem(c.take("source.snapshot.mode"), "runs a class of yours, which can have Debezium stop after its snapshot: set it to no_data if messages are to be sent")
	}
	if s := c.settings["source.skipped.operations"]; s != nil && containsFold(commas(s.value), "c") {
		c.problem(c.take("source.skipped.operations"), "has Debezium skip inserts, so that it sends no message of the outbox: take c out of it, or remove it, if messages are to be sent")
	}
	const stream = "source.snapshot.mode.configuration.based.start.stream"
	if s := c.settings["source.snapshot.mode"]; s.is("initial_only") || s.is("configuration_based") && !c.settings[stream].is("true") {
		c.problem(c.take("source.snapshot.mode"), "has Debezium stop after its snapshot, so that it sends no message that is inserted later: set it to no_data if messages are to be sent")
	}
}

// sends reports whether a list of patterns names a column of an outbox that the router reads, and whether it names all of them.
func (c *conversion) sends(patterns string) (some, all bool) {
	columns := []string{c.columnOf("table.field.event.id", "id"), c.columnOf("table.field.event.key", "aggregateid"), c.columnOf("table.field.event.payload", "payload"),
		c.columnOf("route.by.field", "aggregatetype"), c.options["table.field.event.timestamp"], c.options["table.field.event.schema.version"], c.options["tracing.span.context.field"]}
	columns = append(columns, c.placedColumns()...)
	re, err := compile("i", strings.Join(commas(patterns), "|"))
	if err != nil {
		return true, false
	}
	all = true
	for _, table := range c.tables {
		for _, column := range columns {
			if column != "" {
				named := re.MatchString(table + "." + column)
				some, all = some || named, all && named
			}
		}
	}
	return some, all
}

// comments lists options that are comments by their names, as JSON has no others. Their text is not repeated.
func (c *conversion) comments() {
	for _, key := range c.keys("source.") {
		name := strings.ToLower(strings.TrimPrefix(key, "source."))
		if strings.HasPrefix(name, "//") || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_") || name == "comment" {
			c.ignore("it is a comment", key)
		}
	}
}
