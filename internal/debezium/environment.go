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

// staysReference tells whether an option is only copied, so that tailbox.yaml can name the variable. All others decide what is written.
func staysReference(key string) bool {
	return strings.HasPrefix(key, "source.database.") && key != "source.database.server.name" || strings.HasPrefix(key, otherPrefix) ||
		slices.Contains([]string{"sink.kafka.producer.bootstrap.servers", "sink.http.url", "source.slot.name", "source.publication.name", "sink.nats-jetstream.url",
			"sink.nats-jetstream.auth.user", "sink.nats-jetstream.auth.password"}, key)
}

// fromEnvironment takes options from the environment, where Debezium Server would: all that a file has, and those that are known.
func (c *conversion) fromEnvironment(env func(string) (string, bool)) {
	keys := environmentKeys()
	for key := range c.settings {
		if !strings.HasPrefix(key, profilePrefix) {
			keys = append(keys, key)
		}
	}
	c.fromVariables(env, keys)
	chain := c.settings["transforms"]
	if chain == nil {
		return
	}
	var options []string
	for _, name := range commas(chain.value) {
		for _, option := range append(router.OptionNames(), "type") {
			options = append(options, "transforms."+name+"."+option)
		}
	}
	c.fromVariables(env, options)
}

func (c *conversion) fromVariables(env func(string) (string, bool), keys []string) {
	for _, key := range keys {
		option, other := strings.CutPrefix(key, otherPrefix)
		if !other && !strings.HasPrefix(key, "quarkus.") {
			option = serverPrefix + key
		}
		for _, name := range []string{variableOf("%prod." + option), variableOf(option)} {
			value, set := env(name)
			if !set {
				continue
			}
			s := &setting{key: "$" + name, value: value, file: environment}
			isList := key == "sink.kafka.producer.bootstrap.servers" || key == "sink.nats-jetstream.url"
			if several := isList && strings.Contains(value, ","); staysReference(key) && !several {
				s.value, s.reference = "${"+name+"}", true
			}
			c.settings[key] = s
			break
		}
	}
}

// expression is a reference of MicroProfile's configuration, or a $ that is escaped.
var expression = regexp.MustCompile(`\$\$|\$\{([^{}:]*)(:[^{}]*)?\}`)

// envName is what tailbox.yaml takes for the name of a variable.
var envName = regexp.MustCompile(`^[A-Z0-9_]+$`)

// expandAll resolves references and escapes as Debezium Server does. Variables of the environment stay references.
func (c *conversion) expandAll(env func(string) (string, bool)) {
	for _, s := range c.settings {
		c.expand(s, env)
	}
}

// expand resolves one option, and before it those that it refers to.
func (c *conversion) expand(s *setting, env func(string) (string, bool)) {
	if s.reference || s.expanded {
		return
	}
	s.expanded, s.expanding = true, true
	defer func() { s.expanding = false }()
	s.value = expression.ReplaceAllStringFunc(s.value, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		parts := expression.FindStringSubmatch(ref)
		name, byDefault := parts[1], parts[2]
		if envName.MatchString(name) {
			if byDefault != "" {
				return "${" + name + ":-" + byDefault[1:] + "}"
			}
			return ref
		}
		if other := c.settings[otherPrefix+name]; other != nil {
			if other.expanding {
				c.problem(s, "${%s} refers back to itself: give one of them a value", name)
				return ref
			}
			c.expand(other, env)
			return other.value
		}
		if variable := variableOf(name); strings.Contains(name, ".") {
			if _, set := env(variable); set {
				return "${" + variable + "}"
			}
		}
		if byDefault != "" {
			return byDefault[1:]
		}
		c.problem(s, "${%s} is a reference that nothing defines: write $${%s} if it is meant for Debezium itself", name, name)
		return ref
	})
}
