package debezium

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// connectors are the kinds of database by the classes of their connectors.
func connectors() map[string]string {
	return map[string]string{"io.debezium.connector.postgresql.PostgresConnector": "postgres", "io.debezium.connector.mysql.MySqlConnector": "mysql",
		"io.debezium.connector.mariadb.MariaDbConnector": "mariadb", "io.debezium.connector.mongodb.MongoDbConnector": mongodb}
}

// ofKnown is the package of a connector for a database that is read.
var ofKnown = lazyregexp.New(`^io\.debezium\.connector\.(postgresql|mysql|mariadb|mongodb)\.`)

// managed is a connector that Confluent Cloud runs.
var managed = lazyregexp.New(`^(Postgres|MySql|MariaDb|MongoDb|SqlServer)\w*Source(V2)?$`)

const mongodb = "mongodb"

// source writes pipeline and source; ok is false if the connector is not known, and so none of its options.
func (c *conversion) source() (ok bool) {
	class := c.take("source.connector.class")
	if inside := append(c.keys("quarkus.debezium"), c.keys("source.quarkus.debezium")...); class == nil && len(inside) > 0 {
		fix := "write the options of the connector in it into a file of their own, as debezium.source.* and debezium.transforms.*"
		if strings.Contains(inside[0], "quarkus.debezium-outbox") {
			fix = "it says how the application writes the outbox: give the configuration of the connector that reads it"
		}
		c.problem(c.take(inside[0]), "is of an extension of Quarkus in the application, which tailbox does not read: %s", fix)
		return false
	}
	if class == nil {
		if !c.server && slices.ContainsFunc(c.keys("source."), func(key string) bool { return ofWorker(strings.TrimPrefix(key, "source.")) }) {
			c.missing("source.connector.class", "is missing: these are the options of a worker of Kafka Connect: give the connector too, as GET /connectors/NAME/config answers")
			return false
		}
		c.missing("source.connector.class", "is missing: this is no configuration of a Debezium connector: give the whole of it, as GET /connectors/NAME/config answers")
		return false
	}
	known := slices.Sorted(maps.Keys(connectors()))
	full, meant := classOf(class.value, "Connector", known...)
	c.kind = connectors()[full]
	if c.kind == "mysql" && c.settings["source.connector.adapter"].is("mariadb") {
		c.kind = "mariadb"
	}
	if c.kind == "" {
		if meant != "" {
			c.problem(class, otherPackage, meant)
			return false
		}
		if managed().MatchString(class.value) {
			c.problem(class, "is a managed connector of Confluent Cloud, whose options and defaults are not Debezium's: write the options that Debezium's own connector would have, or begin with a tailbox.yaml of your own")
			return false
		}
		if ofKnown().MatchString(class.value) {
			c.problem(class, "is no class of Debezium's, which has %s for what tailbox reads", strings.Join(known, ", "))
			return false
		}
		c.problem(class, "tailbox reads the logs of Postgres, MySQL, MariaDB and MongoDB alone: keep Debezium for this outbox")
		return false
	}
	unnamed := unheardOf
	if c.kind == "postgres" {
		unnamed = "Debezium does not know it either: its option is database.dbname"
	}
	c.ignore(unnamed, "source.database.name")
	pipeline, from := c.pipeline()
	c.out.set(0, "pipeline", pipeline, "", from)
	c.out.section(0, "source", "")
	c.out.set(1, "kind", c.kind, "", class)
	switch c.kind {
	case "postgres":
		c.url()
		c.slot()
		for _, file := range c.offsetFiles {
			c.out.ignored(&setting{key: file}, "the slot tells where Debezium stopped")
		}
	case mongodb:
		c.mongoURL()
		c.leftOff()
	default:
		c.mysqlURL()
		c.leftOff()
	}
	c.out.set(1, "start", "now", "rows that are there now were Debezium's to send")
	c.outboxTables()
	return true
}

// pipeline is the name of the pipeline: that of the connector.
func (c *conversion) pipeline() (name string, from *setting) {
	for _, key := range append([]string{"source.name"}, prefixes()...) {
		if name != "" {
			break
		}
		if s := c.take(key); s != nil && s.value != "" {
			if strings.Contains(s.value, "${") {
				c.problem(s, "holds a variable whose value is not known, and the pipeline is named after it: write the value")
			}
			name, from = pipelineName(s.value), s
		}
	}
	if name == "" {
		return "default", nil
	}
	return name, from
}

var (
	pipelinePattern = lazyregexp.New(`^[a-z][a-z0-9_-]{0,49}$`)
	notName         = lazyregexp.New(`[^a-z0-9_-]+`)
)

// pipelineName makes the name of a pipeline of a connector's. Two connectors with one pipeline would wait for each other's lock, so what
// cannot stay as it is, and could then equal another's, ends in a sum of what it was.
func pipelineName(connector string) string {
	if pipelinePattern().MatchString(connector) {
		return connector
	}
	const most, digits = 50, 8
	sum := sha256.Sum256([]byte(connector))
	name := strings.TrimLeft(notName().ReplaceAllString(strings.ToLower(connector), "-"), "-_0123456789")
	if name = strings.TrimRight(name[:min(len(name), most-digits-1)], "-_"); name == "" {
		name = "debezium"
	}
	return name + "-" + hex.EncodeToString(sum[:])[:digits]
}

// url writes the connection as libpq's keywords.
func (c *conversion) url() {
	var parts []string
	var keys []*setting
	for _, k := range [][2]string{{"hostname", "host"}, {"port", "port"}, {"dbname", "dbname"}, {"user", "user"}, {"password", "password"},
		{"sslmode", "sslmode"}, {"sslrootcert", "sslrootcert"}, {"sslcert", "sslcert"}, {"sslkey", "sslkey"}, {"sslpassword", "sslpassword"}} {
		s := c.take("source.database." + k[0])
		if s == nil {
			if slices.Contains([]string{"hostname", "dbname", "user"}, k[0]) {
				c.missing("source.database."+k[0], "is missing: without it Debezium cannot connect; if the environment sets it, name the variable as in ${%s}", variableOf("database."+k[0]))
			}
			continue
		}
		if k[0] == "sslmode" && !strings.Contains(s.value, "${") {
			s.value = strings.ToLower(s.value)
			if modes := []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}; !slices.Contains(modes, s.value) {
				c.problem(s, "is none of the modes that Debezium knows: choose one of %s", strings.Join(modes, ", "))
			}
		}
		if k[0] == "sslkey" {
			c.out.note(1, s.key+": the file must be PEM; Debezium reads PKCS#8 in DER")
		}
		keys = append(keys, s)
		parts = append(parts, k[1]+"="+keyword(s.value))
	}
	c.out.note(1, keysOf(keys))
	c.address = quoted(strings.Join(parts, " "))
	c.out.set(1, "url", c.address, "")
	c.out.comesFrom(keys...)
	decides("url", keys...)
}

// keyword quotes a value of libpq's keywords, where it has to be. A variable has to be, because it may hold any text, which is escaped when
// tailbox.yaml is read.
func keyword(v string) string {
	if v != "" && !strings.ContainsAny(v, " \t\r\n\v\f'\\") && !strings.Contains(v, "${") {
		return v
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// secondConnector is how to come from another output plugin. A connector that has an offset does not make another slot.
const secondConnector = "start a second connector, with another name, topic.prefix (database.server.name in Debezium 1) and slot.name, plugin.name=pgoutput and snapshot.mode=no_data (never in old versions), while this one runs; then stop this one, and import the second"

// slot writes which slot and publication are taken over.
func (c *conversion) slot() {
	plugin := c.take("source.plugin.name")
	switch {
	case plugin == nil:
		c.missing("source.plugin.name", "is missing, so that Debezium's slot has the output plugin decoderbufs, which cannot be taken over: "+secondConnector)
	case !plugin.is("pgoutput"):
		c.problem(plugin, "a slot with this output plugin cannot be taken over: "+secondConnector)
	}
	slot, publication := c.text("source.slot.name", "debezium"), c.text("source.publication.name", "dbz_publication")
	c.out.set(1, "slot", quoted(slot.value), "", slot)
	c.out.set(1, "publication", quoted(publication.value), "", publication)
	c.out.set(1, "take_over", "true", "go on from where that slot stands")
	if s := c.take("source.slot.drop.on.stop"); s != nil {
		if strings.EqualFold(s.value, "true") {
			c.problem(s, "lets Debezium drop the slot when it stops, and with it what is committed until tailbox init: set it to false, let Debezium restart its task once, then stop it")
		} else {
			c.out.ignored(s, "the slot stays")
		}
	}
	if s := c.take("source.slot.failover"); s.is("true") {
		c.out.set(1, "failover", "true", "", s)
	} else if s != nil {
		c.out.ignored(s, "it is at its default")
	}
	for key, nobody := range map[string]string{"source.flush.lsn.source": "false", "source.lsn.flush.mode": "manual"} {
		if s := c.settings[key]; s.is(nobody) {
			c.problem(c.take(key), "keeps Debezium from moving its slot, from which tailbox goes on, so that tailbox would send again all since the slot's position: remove it, "+
				"let Debezium restart its task and send one message, then stop it")
		}
	}
}

// outboxTables writes the tables.
func (c *conversion) outboxTables() {
	what := "table"
	if c.kind == mongodb {
		what = "collection"
	}
	include := c.take("source." + what + ".include.list")
	if include == nil {
		include = c.take("source." + what + ".whitelist")
		if include != nil && c.settings["source.topic.prefix"] != nil {
			c.problem(include, "Debezium 2 and later, to which topic.prefix belongs, do not know this option and read all %ss: rename it to %s", what, c.prefixed("source."+what+".include.list"))
		}
	}
	if include == nil {
		c.missing("source."+what+".include.list", "is missing, so that Debezium reads %ss that are no outbox: name the outbox, as in inventory.outbox", what)
		return
	}
	action, signals := c.settings["source.heartbeat.action.query"], c.settings["source.signal.data.collection"]
	for _, s := range []*setting{action, signals} {
		if s != nil {
			c.tell(s)
		}
	}
	c.out.section(1, "tables", include.key)
	decides("tables", include)
	for _, pattern := range commas(include.value) {
		table, ok := literal(pattern)
		if strings.Contains(pattern, "${") {
			c.problem(include, "%s is a variable whose value is not known: write the value", pattern)
			continue
		}
		if strings.ContainsAny(pattern, "\"`") {
			c.problem(include, "%s matches no %s, because Debezium counts its quotes as a part of the name: write %s", pattern, what, strings.NewReplacer(`"`, "", "`", "").Replace(pattern))
			continue
		}
		if !ok {
			c.problem(include, "%s is a pattern: name each outbox, as in inventory.outbox", pattern)
			continue
		}
		if slices.Contains(c.tables, table) {
			continue // it is listed twice
		}
		switch writes := action != nil && heartbeatWrites(action.value, table); {
		case writes && !beat().MatchString(table[strings.LastIndexByte(table, '.')+1:]):
			c.problem(include, "names %s, which %s writes to: take it out of this list if it is only there for heartbeats; if it is an outbox, remove %s, which tailbox does not run", table, action.key, action.key)
			continue
		case writes:
			c.out.ignored(&setting{key: what + " " + table}, action.key+" writes to it: an idle log is confirmed without it")
			continue
		}
		if signals != nil && strings.EqualFold(signals.value, table) {
			c.out.ignored(&setting{key: what + " " + table}, "it is the one of "+signals.key)
			continue
		}
		written := c.tableName(include, table, what)
		if written == "" {
			continue
		}
		c.tables = append(c.tables, table)
		c.out.line(2, "- name: "+quoted(written), "")
		c.out.comesFrom(include)
		c.out.set(3, "shape", "debezium", "")
		c.out.set(3, "on_delivered", "keep", "as Debezium, which leaves rows alone")
	}
	c.captured(what)
	switch {
	case len(c.tables) > 0 || len(c.problems) > 0:
	case len(commas(include.value)) > 0:
		own := action
		if own == nil {
			own = signals
		}
		c.problem(include, "names no table but what heartbeats and signals use: add the outbox table or, if this is it, remove %s, which has no effect in tailbox", own.key)
	default:
		c.problem(include, "is empty, so that Debezium reads %ss that are no outbox: name the outbox, as in inventory.outbox", what)
	}
}

// container is what a table or a collection lies in.
func (c *conversion) container() string {
	if c.kind == "postgres" {
		return "schema"
	}
	return "database"
}

// tableName is the name of a table as tailbox.yaml has it. If there is none, tableName adds the problem and returns "".
func (c *conversion) tableName(include *setting, table, what string) string {
	container, example := c.container(), "inventory.outbox"
	if c.kind == "postgres" {
		example = "public.outbox"
	}
	first, rest, _ := strings.Cut(table, ".")
	switch {
	case rest == "":
		c.problem(include, "%s matches no %s, because Debezium compares it with %s.%s as a whole: name it with its %s, as in %s", table, what, container, what, container, example)
	case !strings.Contains(rest, "."):
		return table
	case c.kind == mongodb: // whose databases have no dot in their names
		return first + `."` + rest + `"`
	default:
		c.problem(include, "%s has two dots: leave out the name of the database; if a name holds a dot, write another table here, and its name by hand under source.tables of tailbox.yaml, with that part in double quotes", table)
	}
	return ""
}

// captured refuses lists that leave out an outbox: Debezium captures the tables that all lists let through. what is table or collection.
func (c *conversion) captured(what string) {
	container := c.container()
	c.target()
	for key, excludes := range map[string]bool{container + ".include.list": false, container + ".exclude.list": true, what + ".exclude.list": true} {
		s := c.settings["source."+key]
		if s == nil {
			continue
		}
		value, fault := c.resolve("source."+key, s.raw, true)
		patterns := commas(value)
		if fault != "" || len(patterns) == 0 {
			continue // nothing tells what it names
		}
		re, err := compile("i", strings.Join(patterns, "|"))
		if err != nil {
			c.problem(c.take("source."+key), "cannot be read: %v: remove it, because %s.include.list names each outbox", err, what)
			continue
		}
		for _, table := range c.tables {
			name := table
			if strings.HasPrefix(key, container) {
				name, _, _ = strings.Cut(table, ".")
			}
			if re.MatchString(name) == excludes {
				c.problem(c.take("source."+key), "leaves out %s %s, so that Debezium sends no message of it: remove it if these are to be sent, or take that out of %s.include.list", what, table, what)
			}
		}
	}
}

// target refuses the database or the collection that alone MongoDB's connector watches, if an outbox is not in it.
func (c *conversion) target() {
	scope, target := c.settings["source.capture.scope"], c.settings["source.capture.target"]
	if c.kind != mongodb || target == nil {
		return
	}
	for _, table := range c.tables {
		if database, _, _ := strings.Cut(table, "."); scope.is("database") && database != target.value || scope.is("collection") && table != target.value {
			c.problem(c.take("source.capture.target"), "leaves out collection %s, so that Debezium sends no message of it: remove it and capture.scope if these are to be sent", table)
			return
		}
	}
}

// literal is the name that a pattern of Debezium's stands for, if it stands for one alone. A dot that is not escaped counts as
// one.
func literal(pattern string) (name string, ok bool) {
	name = strings.NewReplacer(`\.`, ".", "[.]", ".").Replace(pattern)
	return name, name != "" && !strings.ContainsAny(name, `\*+?()[]{}|^$`)
}
