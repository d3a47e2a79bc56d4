package debezium

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/router"
)

// variableOf is the name of the environment's variable that counts before an option: MicroProfile's rule, in capitals.
func variableOf(option string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, option)
}

// environmentKeys are options that are looked for in the environment though no file has them. It cannot be listed, and the name of a
// variable does not tell that of its option.
func environmentKeys() []string {
	return []string{"sink.type", "sink.kafka.producer.bootstrap.servers", "sink.kafka.producer.security.protocol", "sink.kafka.producer.sasl.mechanism",
		"sink.kafka.producer.sasl.jaas.config", "sink.kafka.producer.key.serializer", "sink.kafka.producer.value.serializer", "sink.kafka.producer.acks", "sink.kafka.producer.compression.type", "sink.http.url", "sink.http.headers.prefix", "sink.http.headers.encode.base64",
		"sink.http.batch.enabled", "sink.nats-jetstream.url", "sink.nats-jetstream.auth.user", "sink.nats-jetstream.auth.password",
		"source.connector.class", "source.database.hostname", "source.database.port", "source.database.user", "source.database.password", "source.database.dbname",
		"source.slot.name", "source.publication.name", "source.table.include.list", "source.topic.prefix", "source.plugin.name", "format.key", "format.value", "format.header",
		// These have an effect that must not be overlooked.
		"source.slot.drop.on.stop", "source.slot.failover", "source.database.sslmode", "source.database.sslrootcert", "source.binary.handling.mode", "source.converters", "source.post.processors", "source.provide.transaction.metadata", "source.slot.stream.params",
		"source.message.prefix.include.list", "source.time.precision.mode", "source.decimal.handling.mode", "source.signal.data.collection", "source.heartbeat.action.query", "source.collection.include.list", "source.mongodb.connection.string", "source.mongodb.user",
		"source.mongodb.password", "source.mongodb.ssl.enabled", "source.mongodb.authsource", "source.mongodb.hosts", "source.mongodb.ssl.keystore", "source.mongodb.ssl.truststore",
		"source.mongodb.ssl.invalid.hostname.allowed", "source.mongodb.authentication.class", "source.database.ssl.mode", "source.cursor.pipeline", "source.field.renames", "source.field.exclude.list",
		"format.schemas.enable", "format.key.schemas.enable", "format.value.schemas.enable", "format.header.schemas.enable", "transforms", "quarkus.http.port"}
}

// fromEnvironment takes options from the environment, where Debezium Server would: all that a file has, and those that are known.
func (c *conversion) fromEnvironment() {
	keys := environmentKeys()
	for key := range c.settings {
		if !strings.HasPrefix(key, profilePrefix) {
			keys = append(keys, key)
		}
	}
	c.fromVariables(keys)
	chain := c.settings["transforms"]
	if chain == nil {
		return
	}
	names, _ := c.resolve("transforms", chain.raw, true)
	var options []string
	for _, name := range commas(names) {
		for _, option := range append(router.OptionNames(), "type") {
			options = append(options, "transforms."+name+"."+option)
		}
	}
	c.fromVariables(options)
}

func (c *conversion) fromVariables(keys []string) {
	for _, key := range keys {
		option, other := strings.CutPrefix(key, otherPrefix)
		if !other && !strings.HasPrefix(key, "quarkus.") {
			option = serverPrefix + key
		}
		for _, name := range []string{variableOf("%prod." + option), variableOf(option)} {
			value, set := c.variables.look(name)
			given := c.variables.given[name]
			if !set && given == nil {
				continue
			}
			s := &setting{key: "$" + name, raw: value, file: environment}
			switch {
			case given != nil && !set:
				s.raw = given.raw // a reference to what the environment will have
			case given == nil && (other || c.copied(key)):
				s.raw = "${" + name + "}"
			}
			if given != nil {
				s.file, s.line = given.file, given.line
			}
			c.file(key, s)
			break
		}
	}
}

// variables are those of the environment.
type variables struct {
	environment func(name string) (value string, set bool)
	names       []string
	// given are those that files set, such as a compose file; they count first.
	given map[string]*setting
	// looked are the names that options were looked for under.
	looked map[string]bool
}

// give takes a variable of a file.
func (v *variables) give(s *setting) {
	if v.given == nil {
		v.given = map[string]*setting{}
	}
	v.given[s.key] = s
	if !slices.Contains(v.names, s.key) {
		v.names = append(slices.Clone(v.names), s.key)
	}
}

// serve reports whether a file sets a variable of Debezium Server.
func (v *variables) serve() bool {
	for name := range v.given {
		if optionVariable.MatchString(name) {
			return true
		}
	}
	return false
}

// get returns a variable as Debezium gets it. One that a file sets to itself is left to the environment.
func (v *variables) get(name string) (value string, set bool) {
	if s := v.given[name]; s != nil && s.raw != "${"+name+"}" {
		return s.raw, true
	}
	return v.environment(name)
}

// look reads a variable, and remembers that it was read.
func (v *variables) look(name string) (value string, set bool) {
	if v.looked == nil {
		v.looked = map[string]bool{}
	}
	v.looked[name] = true
	return v.get(name)
}

// optionVariable is a variable that stands for an option of Debezium Server. kubernetesVariable is one that Kubernetes sets for a service.
var (
	optionVariable     = regexp.MustCompile(`^(_PROD_)?DEBEZIUM_(SOURCE|SINK|FORMAT|TRANSFORMS|PREDICATES)_`)
	kubernetesVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP)(_[A-Z]+)?)?)$`)
)

// ignoredVariable reports whether all options that a variable can stand for have no effect on what an outbox sends, and why.
func ignoredVariable(name string) (why string, ok bool) {
	name = strings.TrimPrefix(name, "_PROD_")
	for _, o := range ignoredOptions() {
		prefix := variableOf(serverPrefix + o.prefix)
		if strings.HasPrefix(o.prefix, "source.") && (name == prefix || strings.HasSuffix(o.prefix, ".") && strings.HasPrefix(name, prefix)) {
			return o.why, true
		}
	}
	return "", false
}

// unread tells each variable that Debezium Server takes an option from and that was not read, because its name does not tell which option. A variable that a
// setting refers to is no such.
func (c *conversion) unread() {
	references := ""
	for _, s := range c.settings {
		references += s.raw + "\n"
	}
	v := &c.variables
	for _, name := range slices.Sorted(slices.Values(v.names)) {
		if v.looked[name] || !optionVariable.MatchString(name) || kubernetesVariable.MatchString(name) || strings.Contains(references, "${"+name) {
			continue
		}
		if why, ok := ignoredVariable(name); ok {
			c.out.ignored(&setting{key: "$" + name}, why)
			continue
		}
		c.problems = append(c.problems, &Problem{file: environment, Key: "$" + name, Reason: "stands for an option of Debezium Server that its name does not tell: " +
			"write that option into the file, as debezium.…=${" + name + "}, or unset the variable if Debezium does not use it"})
	}
}
