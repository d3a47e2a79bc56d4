package debezium

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/router"
)

// strimzi reads a KafkaConnector.
func (c *conversion) strimzi(l *layer, t *tree) {
	c.parts(l, t, [][]string{{"name", "metadata", "name"}, {"connector.class", "spec", "class"}, {"tasks.max", "spec", "tasksMax"}})
	c.fields(l, "", t.get("spec", "config"))
	for _, s := range l.settings {
		switch s.raw { // booleans of the YAML that Kubernetes reads
		case "yes", "on", "Yes", "On", "YES", "ON":
			s.raw = "true"
		case "no", "off", "No", "Off", "NO", "OFF":
			s.raw = "false"
		}
	}
}

// worker reads a KafkaConnect, which is the worker of connectors.
func (c *conversion) worker(l *layer, t *tree) {
	own := &layer{name: l.name}
	c.layers = append(c.layers, own)
	if servers := t.get("spec", "bootstrapServers"); servers != nil {
		c.option(own, "bootstrap.servers", servers)
	}
	c.fields(own, "", t.get("spec", "config"))
	for _, key := range []string{"tls", "authentication"} {
		c.unreadPart(own, "spec."+key, t.get("spec", key), "", "write it as producer.security.protocol, producer.sasl.* and producer.ssl.* into spec.config")
	}
}

// operator reads the resource of Debezium's operator.
func (c *conversion) operator(l *layer, spec *tree) {
	before := len(l.settings)
	defer func() { l.settings = append(l.settings[:before:before], asProperties(l.settings[before:])...) }()
	prefixed := func(prefix string, t *tree) { c.fields(l, prefix, t) }
	one := func(key string, path ...string) {
		if value := spec.get(path...); value != nil {
			c.option(l, serverPrefix+key, value)
		}
	}
	one("source.connector.class", "source", "class")
	prefixed(serverPrefix+"source.", spec.get("source", "config"))
	one("sink.type", "sink", "type")
	prefixed(serverPrefix+"sink."+spec.is("sink", "type")+".", spec.get("sink", "config"))
	for _, part := range []string{"key", "value", "header"} {
		one("format."+part, "format", part, "type")
		prefixed(serverPrefix+"format."+part+".", spec.get("format", part, "config"))
	}
	var names []string
	if chain := spec.get("transforms"); chain != nil {
		for i, transform := range chain.items {
			name := fmt.Sprintf("t%d", i)
			names = append(names, name)
			prefix := serverPrefix + "transforms." + name + "."
			for _, key := range []string{"type", "predicate", "negate"} {
				if value := transform.get(key); value != nil {
					c.option(l, prefix+key, value)
				}
			}
			prefixed(prefix, transform.get("config"))
		}
	}
	if len(names) > 0 {
		c.option(l, serverPrefix+"transforms", &tree{text: strings.Join(names, ",")})
	}
	names = nil
	if predicates := spec.get("predicates"); predicates != nil {
		for _, f := range predicates.fields {
			names = append(names, f.key)
			one("predicates."+f.key+".type", "predicates", f.key, "type")
			prefixed(serverPrefix+"predicates."+f.key+".", f.value.get("config"))
		}
		c.option(l, serverPrefix+"predicates", &tree{text: strings.Join(names, ",")})
	}
	prefixed("quarkus.", spec.get("quarkus", "config"))
	if given := spec.get("runtime", "environment", "vars"); given != nil {
		for _, item := range given.items {
			c.variables.give(&setting{key: item.is("name"), raw: item.is("value"), file: l.name, line: item.line}, true)
		}
	}
	c.unreadPart(l, "spec.runtime.environment.from", spec.get("runtime", "environment", "from"), "name", "give NAME, with its values in clear text, beside this one, or remove this if Debezium uses none of them")
}

// asProperties reads settings as Debezium Server does: its operator writes them into application.properties as they are, so that the file's reader takes one
// level of backslashes, and takes a further line for a property of its own.
func asProperties(settings []*setting) (read []*setting) {
	for _, s := range settings {
		for i, p := range router.ParseProperties([]byte("value=" + s.raw)) {
			if i > 0 {
				read = append(read, &setting{key: p.Key, raw: p.Value, file: s.file, line: s.line})
				continue
			}
			s.raw = p.Value
			read = append(read, s)
		}
	}
	return read
}

// configMap reads the files of a ConfigMap, each in its own form.
func (c *conversion) configMap(l *layer, t *tree) {
	c.resources = append(c.resources, t.is("metadata", "name"))
	for _, part := range []string{"data", "stringData"} {
		files := t.get(part)
		if files != nil && t.is("kind") == "Secret" && part == "data" {
			c.unreadPart(l, "data", files, "", "it is in base64: give what it holds in a file")
			continue
		}
		if files == nil {
			continue
		}
		var given []*setting
		for _, f := range files.fields {
			switch {
			case f.value.kind != scalar:
			case variable.MatchString(f.key), optionVariable.MatchString(f.key), strings.HasPrefix(f.key, serverPrefix):
				given = append(given, &setting{key: f.key, raw: f.value.text, file: l.name, line: f.value.line})
			case strings.HasSuffix(f.key, ".sh") && !strings.Contains(f.value.text, "connector.class"): // it starts something
			case strings.ContainsAny(f.value.text, "=:{"):
				c.read(File{Name: f.key, Data: []byte(f.value.text)})
			}
		}
		c.environ(l, given, false)
	}
}

// ofConfluent reports whether a document is a Connector of Confluent for Kubernetes.
func ofConfluent(t *tree) bool {
	return t.is("kind") == "Connector" && strings.HasPrefix(t.is("apiVersion"), "platform.confluent.io/")
}

// unreadPart tells a part that matters and is not read. One that names what is to be given beside it, by itself or in a field, is told if that is not given.
func (c *conversion) unreadPart(l *layer, key string, part *tree, field, fix string) {
	if part == nil || part.kind == null {
		return
	}
	p := &Problem{file: l.name, line: part.line, Key: key, Reason: "is not read: " + fix}
	if field == "" {
		c.problems = append(c.problems, p)
		return
	}
	part.walk(func(t *tree) {
		names := []string{t.is(field)}
		for _, item := range append(t.items, part) {
			names = append(names, item.text)
		}
		for _, name := range names {
			if name != "" {
				c.wanted = append(c.wanted, wanted{filepath.Base(name), p})
			}
		}
	})
}

// A wanted is what has to be given beside a file, by the name of its file or of its resource, or else a problem.
type wanted struct {
	name string
	*Problem
}

// ungiven tells what other files name and nobody gives.
func (c *conversion) ungiven(files []File) {
	for _, w := range c.wanted {
		given := slices.Contains(c.resources, w.name) || slices.ContainsFunc(files, func(f File) bool { return filepath.Base(f.Name) == w.name })
		if !given && !slices.Contains(c.problems, w.Problem) {
			w.Reason = strings.ReplaceAll(w.Reason, "NAME", w.name)
			c.problems = append(c.problems, w.Problem)
		}
	}
}
