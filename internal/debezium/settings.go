package debezium

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/router"
)

// A setting is one option as a file has it.
type setting struct {
	// key is as it stands in the file; the settings' own keys have no prefix debezium.
	key, value string
	// file is environment for what is no file's; line is 0 where it is not known.
	file string
	line int
	used bool
}

// secret tells whether the value must not be shown.
func (s *setting) secret() bool {
	for _, word := range []string{"password", "secret", "token", "jaas", "passphrase", "connection.string"} {
		if strings.Contains(s.key, word) {
			return true
		}
	}
	return false
}

const (
	serverPrefix = "debezium."
	// environment stands for a file.
	environment = "environment"
)

// read reads the options of a file.
func (c *conversion) read(f File) {
	l := &layer{name: filepath.Base(f.Name)}
	c.layers = append(c.layers, l)
	if text := bytes.TrimSpace(f.Data); len(text) > 0 && text[0] == '{' {
		c.readJSON(l, text)
		return
	}
	for _, p := range router.ParseProperties(f.Data) {
		l.settings = append(l.settings, &setting{key: p.Key, value: strings.TrimSpace(p.Value), file: l.name, line: p.Line})
	}
}

// readJSON reads a connector: its configuration alone, or under "config" beside its name, as Kafka Connect's REST interface
// takes them.
func (c *conversion) readJSON(l *layer, text []byte) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		c.problems = append(c.problems, &Problem{file: l.name, Key: "JSON", Reason: fmt.Sprintf("cannot be read: %v: give the connector's configuration as Kafka Connect takes it", err)})
		return
	}
	if config, ok := whole["config"]; ok {
		if connector, ok := whole["name"]; ok {
			c.addJSON(l, "name", connector)
		}
		whole = nil
		if err := json.Unmarshal(config, &whole); err != nil {
			c.problems = append(c.problems, &Problem{file: l.name, Key: "config", Reason: "must be an object of options"})
			return
		}
	}
	for key, value := range whole {
		c.addJSON(l, key, value)
	}
}

func (c *conversion) addJSON(l *layer, key string, value json.RawMessage) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value) // a number or boolean
		if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
			c.problems = append(c.problems, &Problem{file: l.name, Key: key, Reason: "must be a text, a number or a boolean"})
			return
		}
	}
	l.settings = append(l.settings, &setting{key: key, value: strings.TrimSpace(text), file: l.name})
}

// environmentKeys are options that are often left to the environment.
func environmentKeys() []string {
	return []string{"sink.type", "sink.kafka.producer.bootstrap.servers", "sink.http.url", "source.connector.class", "source.database.hostname",
		"source.database.port", "source.database.user", "source.database.password", "source.database.dbname", "source.slot.name",
		"source.publication.name", "source.table.include.list", "source.topic.prefix", "source.plugin.name"}
}

// fromEnvironment takes options from the environment, where Debezium Server would. They stay references to it.
func (c *conversion) fromEnvironment(env func(string) (string, bool)) {
	for _, key := range environmentKeys() {
		name := strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(serverPrefix + key))
		value, set := env(name)
		if !set {
			continue
		}
		s := &setting{key: "$" + name, value: "${" + name + "}", file: environment}
		if slices.Contains([]string{"sink.type", "source.connector.class", "source.table.include.list", "source.topic.prefix", "source.plugin.name"}, key) {
			s.value = value // decides what is written
		}
		c.settings[key] = s
	}
}

// expression is a reference of MicroProfile's configuration, or a $ that is escaped.
var expression = regexp.MustCompile(`\$\$|\$\{([^{}:]*)(:[^{}]*)?\}`)

// envName is what tailbox.yaml takes for the name of a variable.
var envName = regexp.MustCompile(`^[A-Z0-9_]+$`)

// expandAll resolves references and escapes as Debezium Server does. Variables of the environment stay references.
func (c *conversion) expandAll(env func(string) (string, bool)) {
	for _, s := range c.settings {
		if s.file == environment {
			continue
		}
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
				return other.value
			}
			if variable := strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name)); strings.Contains(name, ".") {
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
}
