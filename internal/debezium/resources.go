package debezium

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/router"
)

// notAskedState is why the state of a connector has no effect.
const notAskedState = "it says whether Debezium runs, which tailbox does not ask"

// strimzi reads a KafkaConnector.
func (c *conversion) strimzi(l *layer, t *forms.Tree) {
	c.overridden(l, t.Get("spec", "config"), c.parts(l, t, [][]string{{"name", "metadata", "name"}, {"connector.class", "spec", "class"}, {"tasks.max", "spec", "tasksMax"}}))
	for _, key := range []string{"pause", "state"} {
		if t.Is("spec", key) != "" {
			c.out.ignored(&setting{key: "spec." + key}, notAskedState)
		}
	}
}

// overridden reads the options of a KafkaConnector, of which those count that stand outside of its config.
func (c *conversion) overridden(l *layer, config *forms.Tree, outside map[string]string) {
	if config == nil {
		return
	}
	for _, f := range config.Fields {
		if place := outside[f.Key]; place != "" {
			c.out.ignored(&setting{key: f.Key, file: l.name, line: f.Value.Line}, "Strimzi takes it from "+place+", and ignores it here")
			continue
		}
		c.option(l, f.Key, f.Value)
	}
}

// worker reads a KafkaConnect, which is the worker of connectors.
func (c *conversion) worker(l *layer, t *forms.Tree) {
	own := &layer{name: l.name}
	c.layers = append(c.layers, own)
	if servers := t.Get("spec", "bootstrapServers"); servers != nil {
		c.option(own, "bootstrap.servers", servers)
	}
	c.fields(own, "", t.Get("spec", "config"))
	c.defaultsIn = cmp.Or(c.defaultsIn, "Strimzi")
	for _, s := range variablesOf(own, t.Get("spec", "template", "connectContainer")) {
		c.variables.give(s, true)
	}
	for _, key := range []string{"tls", "authentication"} {
		c.unreadPart(own, "spec."+key, t.Get("spec", key), "", "write it as producer.security.protocol, producer.sasl.* and producer.ssl.* into spec.config")
	}
}

// operator reads the resource of Debezium's operator.
func (c *conversion) operator(l *layer, spec *forms.Tree) {
	before := len(l.settings)
	defer func() { l.settings = append(l.settings[:before:before], asProperties(l.settings[before:])...) }()
	prefixed := func(prefix string, t *forms.Tree) { c.fields(l, prefix, t) }
	one := func(key string, path ...string) {
		if value := spec.Get(path...); value != nil {
			c.option(l, serverPrefix+key, value)
		}
	}
	one("source.connector.class", "source", "class")
	prefixed(serverPrefix+"source.", spec.Get("source", "config"))
	one("sink.type", "sink", "type")
	prefixed(serverPrefix+"sink."+spec.Is("sink", "type")+".", spec.Get("sink", "config"))
	for _, part := range []string{"key", "value", "header"} {
		one("format."+part, "format", part, "type")
		prefixed(serverPrefix+"format."+part+".", spec.Get("format", part, "config"))
	}
	var names []string
	if chain := spec.Get("transforms"); chain != nil {
		for i, transform := range chain.Items {
			name := fmt.Sprintf("t%d", i)
			names = append(names, name)
			prefix := serverPrefix + "transforms." + name + "."
			for _, key := range []string{"type", "predicate", "negate"} {
				if value := transform.Get(key); value != nil {
					c.option(l, prefix+key, value)
				}
			}
			prefixed(prefix, transform.Get("config"))
		}
	}
	if len(names) > 0 {
		c.option(l, serverPrefix+"transforms", &forms.Tree{Text: strings.Join(names, ",")})
	}
	names = nil
	if predicates := spec.Get("predicates"); predicates != nil {
		for _, f := range predicates.Fields {
			names = append(names, f.Key)
			one("predicates."+f.Key+".type", "predicates", f.Key, "type")
			prefixed(serverPrefix+"predicates."+f.Key+".", f.Value.Get("config"))
		}
		c.option(l, serverPrefix+"predicates", &forms.Tree{Text: strings.Join(names, ",")})
	}
	prefixed("quarkus.", spec.Get("quarkus", "config"))
	if given := spec.Get("runtime", "environment", "vars"); given != nil {
		for _, item := range given.Items {
			c.variables.give(&setting{key: item.Is("name"), raw: item.Is("value"), file: l.name, line: item.Line}, true)
		}
	}
	c.unreadPart(l, "spec.runtime.environment.from", spec.Get("runtime", "environment", "from"), "name", "give NAME, with its values in clear text, beside this one, or remove this if Debezium uses none of them")
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
func (c *conversion) configMap(l *layer, t *forms.Tree) {
	c.resources = append(c.resources, t.Is("metadata", "name"))
	if binary := t.Get("binaryData"); binary != nil && slices.ContainsFunc(binary.Fields, func(f forms.Field) bool {
		return slices.Contains([]string{".json", ".properties", ".yaml", ".yml", ".env"}, filepath.Ext(f.Key))
	}) {
		c.unreadPart(l, "binaryData", binary, "", "it is in base64: give what it holds in a file")
	}
	for _, part := range []string{"data", "stringData"} {
		files := t.Get(part)
		if files != nil && t.Is("kind") == "Secret" && part == "data" {
			c.unreadPart(l, "data", files, "", "it is in base64: give what it holds in a file")
			continue
		}
		if files == nil {
			continue
		}
		var given []*setting
		for _, f := range files.Fields {
			switch {
			case f.Value.Kind != forms.Scalar:
			case variable().MatchString(f.Key), optionVariable().MatchString(f.Key), strings.HasPrefix(f.Key, serverPrefix):
				given = append(given, &setting{key: f.Key, raw: f.Value.Text, file: l.name, line: f.Value.Line, hidden: t.Is("kind") == "Secret"})
			case strings.HasSuffix(f.Key, ".sh") && !strings.Contains(f.Value.Text, "connector.class"): // it starts something
			case strings.ContainsAny(f.Value.Text, "=:{"):
				c.readEntry(l, f.Key, f.Value.Text)
			}
		}
		c.environ(l, given, false)
	}
}

// readEntry reads a file of a ConfigMap. If it cannot be read and holds nothing of Debezium, it is another program's.
func (c *conversion) readEntry(l *layer, name, text string) {
	layers, problems, idle, variables, others := len(c.layers), len(c.problems), len(c.out.idle), len(c.variables.given), len(c.unread)
	c.read(File{Name: name, Data: []byte(text)})
	ours := len(c.problems) == problems || len(c.variables.given) > variables || len(c.unread) > others || forms.Declares([]byte(text))
	for _, read := range c.layers[layers:] {
		ours = ours || slices.ContainsFunc(read.settings, func(s *setting) bool {
			key, _ := inProfile(s.key)
			return strings.HasPrefix(key, serverPrefix) || strings.HasPrefix(key, "transforms.") || strings.HasPrefix(key, "database.") || ofConverter(key) || ofWorker(key)
		})
	}
	if !ours {
		c.layers, c.problems, c.out.idle = c.layers[:layers], c.problems[:problems], c.out.idle[:idle]
		c.out.ignored(&setting{key: name, file: l.name}, "it is no file of Debezium or of its worker")
	}
}

// ofConfluent reports whether a document is a Connector of Confluent for Kubernetes.
func ofConfluent(t *forms.Tree) bool {
	return t.Is("kind") == "Connector" && strings.HasPrefix(t.Is("apiVersion"), "platform.confluent.io/")
}

// unreadPart tells a part that matters and is not read. One that names what is to be given beside it, by itself or in a field, is told if that is not given.
func (c *conversion) unreadPart(l *layer, key string, part *forms.Tree, field, fix string) {
	if part == nil || part.Kind == forms.Null {
		return
	}
	p := &Problem{file: l.name, line: part.Line, Key: key, Reason: "is not read: " + fix}
	if field == "" {
		c.problems = append(c.problems, p)
		return
	}
	part.Walk(func(t *forms.Tree) {
		names := []string{t.Is(field)}
		for _, item := range append(t.Items, part) {
			names = append(names, item.Text)
		}
		for _, name := range names {
			if name != "" {
				c.wanted = append(c.wanted, wanted{filepath.Base(name), p})
			}
		}
	})
}

// A wanted is what has to be given beside a file, or else a problem: a file or a resource of that name or, without a name, options of Debezium Server.
type wanted struct {
	name string
	*Problem
}

// ungiven tells what other files name and nobody gives.
func (c *conversion) ungiven(files []File) {
	for _, w := range c.wanted {
		given := slices.Contains(c.resources, w.name) || slices.ContainsFunc(files, func(f File) bool { return filepath.Base(f.Name) == w.name })
		given = given || w.name == "" && slices.ContainsFunc(c.layers, func(l *layer) bool { return l.name != w.file && serves(l.settings) })
		if !given && !slices.Contains(c.problems, w.Problem) {
			w.Reason = strings.ReplaceAll(w.Reason, "NAME", w.name)
			c.problems = append(c.problems, w.Problem)
		}
	}
}
