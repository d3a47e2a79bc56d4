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
		"sink.kafka.producer.sasl.jaas.config", "sink.kafka.producer.compression.type", "sink.http.url", "sink.http.headers.prefix", "sink.http.headers.encode.base64",
		"sink.http.batch.enabled", "sink.nats-jetstream.url", "sink.nats-jetstream.auth.user", "sink.nats-jetstream.auth.password",
		"source.connector.class", "source.database.hostname", "source.database.port", "source.database.user", "source.database.password", "source.database.dbname",
		"source.slot.name", "source.publication.name", "source.table.include.list", "source.topic.prefix", "source.plugin.name", "format.key", "format.value", "format.header",
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
	names, _ := c.resolve(chain.raw, true)
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
			if !set {
				continue
			}
			s := &setting{key: "$" + name, raw: value, file: environment}
			if other || c.copied(key) {
				s.raw = "${" + name + "}"
			}
			c.settings[key] = s
			break
		}
	}
}

// variables are those of the environment.
type variables struct {
	get   func(name string) (value string, set bool)
	names []string
	// looked are the names that options were looked for under.
	looked map[string]bool
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

// unread returns a problem for each variable that Debezium Server takes an option from and that was not read, because its name does not tell
// which option. A variable that a setting refers to is no such.
func (v *variables) unread(settings map[string]*setting) (problems Problems) {
	references := ""
	for _, s := range settings {
		references += s.raw + "\n"
	}
	for _, name := range slices.Sorted(slices.Values(v.names)) {
		if v.looked[name] || !optionVariable.MatchString(name) || kubernetesVariable.MatchString(name) || strings.Contains(references, "${"+name) {
			continue
		}
		problems = append(problems, &Problem{file: environment, Key: "$" + name, Reason: "stands for an option of Debezium Server that its name does not tell: " +
			"write that option into the file, as debezium.…=${" + name + "}, or unset the variable if Debezium does not use it"})
	}
	return problems
}
