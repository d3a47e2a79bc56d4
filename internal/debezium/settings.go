package debezium

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tailbox/tailbox/router"
)

// A setting is one option as a file has it.
type setting struct {
	// key is as it stands in the file; the settings' own keys have no prefix debezium. raw is the value there, and value that with
	// its references resolved.
	key, raw, value string
	// file is environment for what is no file's; line is 0 if it is not known.
	file string
	line int
	used bool
	// fault is why a reference in the value cannot be resolved, "" = all can; told: that has been told.
	fault string
	told  bool
}

// secret reports whether the value must not be shown.
func (s *setting) secret() bool {
	key := strings.ReplaceAll(strings.ToLower(s.key), "_", ".") // a variable is secret as the option it stands for
	for _, word := range []string{"password", "secret", "token", "jaas", "passphrase", "connection.string", "keystore.key"} {
		if strings.Contains(key, word) {
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
		l.settings = append(l.settings, &setting{key: p.Key, raw: strings.TrimSpace(p.Value), file: l.name, line: p.Line})
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
	l.settings = append(l.settings, &setting{key: key, raw: strings.TrimSpace(text), file: l.name})
}
