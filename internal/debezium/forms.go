package debezium

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/tailbox/tailbox/router"
)

// formsRead names what can be read, for errors.
const formsRead = "tailbox reads properties, a connector as JSON or YAML (alone, with its name, or as GET /connectors answers), KafkaConnector, KafkaConnect and ConfigMap of Kubernetes, " +
	"DebeziumServer of its operator, compose files, .env files, and scripts, files of HTTP clients and collections of Postman that send one connector"

// ask is how to give a connector that stands in a form that is not read.
const ask = "give the answer of GET /connectors/NAME/config, or write the options alone into a file of JSON or properties"

var (
	comment     = regexp.MustCompile(`(?s)\A\s*(?://[^\n]*(?:\n|\z)|#[^\n]*(?:\n|\z)|/\*.*?\*/)`)
	curl        = regexp.MustCompile(`(?m)^[^={\n]*\bcurl\s`)
	body        = regexp.MustCompile(`\{\s*"`)
	object      = regexp.MustCompile(`\A(?:\{\s*"|\[\s*\{)`)
	declared    = regexp.MustCompile(`(?m)^\s*(?:[^#;\s][^#\n]*)?connector\.class(?:\W|\bto\b){1,60}io\.debezium\.`)
	ksql        = regexp.MustCompile(`(?im)^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:SOURCE|SINK)\s+CONNECTOR\b`)
	terraform   = regexp.MustCompile(`(?m)^\s*resource\s+"[A-Za-z0-9_-]+"\s+"[^"]+"\s*\{`)
	powershell  = regexp.MustCompile(`(?mi)^\s*\$\w+\s*=\s*@[{'"]|\bInvoke-(?:RestMethod|WebRequest)\b`)
	markup      = regexp.MustCompile(`\A<`)
	yamlKey     = regexp.MustCompile(`(?m)^(?:apiVersion|kind|services|spec|config|items|connector\.class|name):(?:\s|$)|^---(?:\s|$)`)
	variable    = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	anyVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	sent        = regexp.MustCompile(`@"?([\w./-]+\.json)\b`)
	interpolate = regexp.MustCompile(`\$\$|\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])([^}]*))?\}`)
	dependent   = regexp.MustCompile(`\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)
)

// read reads the options of a file, in whatever form they stand there.
func (c *conversion) read(f File) {
	l := &layer{name: filepath.Base(f.Name)}
	c.layers = append(c.layers, l)
	if c.readOffsets(l.name, f.Data) {
		return
	}
	whole := bytes.TrimPrefix(decoded(f.Data), []byte("\uFEFF"))
	text := bytes.TrimSpace(whole)
	bare := text
	for m := comment.Find(bare); m != nil; m = comment.Find(bare) {
		bare = bytes.TrimSpace(bare[len(m):])
	}
	extension := strings.ToLower(filepath.Ext(l.name))
	if !slices.Contains([]string{".yaml", ".yml", ".json", ".properties", ".env"}, extension) && !object.Match(bare) {
		if bare = c.program(l, bare); bare == nil {
			return
		}
	}
	switch {
	case bytes.HasPrefix(bare, []byte("{")), bytes.HasPrefix(bare, []byte("[")):
		t, err := readJSON(inPlace(whole, bare))
		if err != nil {
			c.unreadable(l, "JSON", bare, err)
			return
		}
		c.document(l, t)
	case extension == ".yaml", extension == ".yml", yamlKey.Match(text) && !bytes.Contains(text, []byte("debezium.source.")) && extension != ".properties":
		documents, err := readYAML(inPlace(whole, text))
		if err != nil {
			c.unreadable(l, "YAML", text, err)
			return
		}
		c.connectors(l, documents)
	default:
		c.properties(l, whole)
	}
}

// inPlace is a part of a text, on the lines on which it stands there.
func inPlace(whole, part []byte) []byte {
	at := max(bytes.LastIndex(whole, part), 0) // the last: comments in front may hold the same
	return append(bytes.Repeat([]byte("\n"), bytes.Count(whole[:at], []byte("\n"))), part...)
}

// decoded is a text as UTF-8, if its first character tells that it is UTF-16, as PowerShell writes it.
func decoded(text []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return text
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

// program reads the connector that a program sends to Kafka Connect, such as a script of a shell or the file of an HTTP client. It returns what is left to
// read; nil if nothing is.
func (c *conversion) program(l *layer, text []byte) (left []byte) {
	if request.Match(text) {
		c.bodies(l, requests(text))
		return nil
	}
	sends := curl.Match(text)
	if sends || declared.Match(text) {
		found, err := scriptConnectors(text)
		switch {
		case err != nil:
			c.unreadable(l, "JSON", text, err)
			return nil
		case len(found) > 0:
			c.connectors(l, found)
			return nil
		}
	}
	for _, foreign := range []struct {
		form *regexp.Regexp
		name string
	}{{ksql, "SQL of ksqlDB"}, {terraform, "a resource of Terraform"}, {powershell, "a script of PowerShell"}, {markup, "XML or HTML"}} {
		if foreign.form.Match(text) {
			c.form(l, "it is "+foreign.name+", which tailbox does not read: "+ask)
			return nil
		}
	}
	if !sends {
		return text
	}
	at, end := body.FindIndex(text), bytes.LastIndexByte(text, '}')
	if at == nil || end < at[0] {
		if file := sent.FindSubmatch(text); file != nil {
			c.form(l, "it sends "+string(file[1])+": give that file")
			return nil
		}
		c.form(l, "it is a script that sends no connector: "+formsRead)
		return nil
	}
	return text[at[0] : end+1]
}

// unfound names the files that hold a connector in a form that is not read, if no other file holds one.
func (c *conversion) unfound(files []File) {
	if _, set := c.variables.get(variableOf(serverPrefix + "source.connector.class")); set || len(c.problems) > 0 || slices.ContainsFunc(c.layers, func(l *layer) bool {
		return slices.ContainsFunc(l.settings, func(s *setting) bool { return strings.HasSuffix(s.key, "connector.class") })
	}) {
		return
	}
	for _, f := range files {
		if declared.Match(f.Data) {
			c.form(&layer{name: filepath.Base(f.Name)}, "it holds a connector in a form that tailbox does not read: "+ask)
		}
	}
}

// form notes that a file is of a form that cannot be read.
func (c *conversion) form(l *layer, why string) {
	c.problems = append(c.problems, &Problem{file: l.name, Key: "form", Reason: why})
}

// unreadable notes that a text is not what it looks like.
func (c *conversion) unreadable(l *layer, format string, text []byte, err error) {
	if bytes.Contains(text, []byte("{{")) {
		c.form(l, fmt.Sprintf("it is a template (%v): give it with the values filled in, as helm template prints it", err))
		return
	}
	c.problems = append(c.problems, &Problem{file: l.name, Key: format, Reason: fmt.Sprintf("cannot be read: %v: give the connector's configuration as Kafka Connect takes it", err)})
}

// properties reads Java's properties, or variables as in a .env file.
func (c *conversion) properties(l *layer, text []byte) {
	if given := readVariables(l.name, text); len(given) > 0 {
		c.environ(l, given, false)
		return
	}
	for _, p := range router.ParseProperties(text) {
		l.settings = append(l.settings, &setting{key: p.Key, raw: p.Value, file: l.name, line: p.Line})
	}
	if bareConnector(l.settings) {
		c.setApart(l, 0)
	}
}

// readVariables reads a .env file; nil if a line is none of such a file. Values are as they are written, but for quotes around them, and a comment behind
// a value without quotes.
func readVariables(file string, text []byte) (given []*setting) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
		if !ok || !anyVariable.MatchString(key) {
			return nil
		}
		value = strings.TrimSpace(value)
		if size := len(value); size > 1 && (value[0] == '"' || value[0] == '\'') && value[size-1] == value[0] {
			value = value[1 : size-1]
		} else if at := strings.Index(value, " #"); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		given = append(given, &setting{key: key, raw: value, file: file, line: n})
	}
	return given
}

// document reads a document of JSON or YAML.
func (c *conversion) document(l *layer, t *tree) {
	from := len(l.settings)
	switch kind := t.is("kind"); {
	case t.kind == sequence:
		c.several(l, t.items)
	case t.kind != mapping:
		c.form(l, "it holds no options: "+formsRead)
	case kind == "List" && t.get("items") != nil:
		c.several(l, t.get("items").items)
	case kind == "KafkaConnector":
		c.strimzi(l, t)
		c.setApart(l, from)
	case ofConfluent(t):
		c.parts(l, t, [][]string{{"name", "metadata", "name"}, {"connector.class", "spec", "class"}, {"tasks.max", "spec", "taskMax"}})
		c.fields(l, "", t.get("spec", "configs"))
		c.setApart(l, from)
	case kind == "Template" && t.get("objects") != nil: // OpenShift's
		if slices.ContainsFunc(t.get("objects").items, func(o *tree) bool {
			return isConnector(o) || o.is("kind") == "KafkaConnect" || o.is("kind") == "DebeziumServer"
		}) {
			c.form(l, "it is a Template of OpenShift, whose parameters tailbox does not fill in: give what `oc process -f "+l.name+" --local -o yaml` prints")
		}
	case kind == "KafkaConnect":
		c.worker(l, t)
	case kind == "DebeziumServer":
		c.operator(l, t.get("spec"))
	case kind == "ConfigMap", kind == "Secret":
		c.configMap(l, t)
	case t.get("spec", "template", "spec", "containers") != nil:
		c.containers(l, t.get("spec", "template", "spec", "containers"))
	case kind == "Pod":
		c.containers(l, t.get("spec", "containers"))
	case t.get("apiVersion") != nil && kind != "":
		return // another resource, such as a Service beside the connector
	case t.get("debezium") != nil && t.get("debezium").kind == mapping && t.get("debezium", "connector.class") == nil:
		c.nested(l, "", t)
	case t.get("error_count") != nil && t.get("configs") != nil, t.get("connector", "state") != nil && t.get("tasks") != nil:
		c.form(l, "it says how a connector is, and not what it does: "+ask)
	case t.get("services") != nil:
		c.compose(l, t.get("services"))
	case t.get("connectorConfiguration") != nil: // Amazon's MSK Connect
		c.fields(l, "", t.get("connectorConfiguration"))
		c.setApart(l, from)
	case t.get("config") != nil:
		c.parts(l, t, [][]string{{"name", "name"}, {"connector.class", "class"}, {"tasks.max", "tasksMax"}}) // the last two as in a KafkaConnector's spec
		if t.get("config").kind != mapping {
			c.problems = append(c.problems, &Problem{file: l.name, Key: "config", Reason: "must be an object of options"})
			return
		}
		c.fields(l, "", t.get("config"))
		if got := (&layer{settings: l.settings[from:]}); got.has("connector.class") || !got.has(serverPrefix+"source.connector.class") {
			c.setApart(l, from)
		}
	case strings.Contains(t.is("info", "schema"), "postman.com"):
		var bodies []string
		t.walk(func(t *tree) { bodies = append(bodies, t.is("request", "body", "raw")) })
		c.bodies(l, bodies)
	case expanded(t):
		var all []*tree
		for _, f := range t.fields {
			all = append(all, f.value.get("info"))
		}
		c.several(l, all)
	case t.get("connector.class") == nil && t.has("connector.class"):
		c.form(l, "it holds a connector deeper inside, as values of a Helm chart do: give what helm template prints, or "+ask)
	default:
		c.fields(l, "", t)
		if bareConnector(l.settings[from:]) {
			c.setApart(l, from)
		}
	}
}

// bodies reads the connectors among the bodies of requests to Kafka Connect, which reads the first value of a body.
func (c *conversion) bodies(l *layer, all []string) {
	var found []*tree
	for _, text := range all {
		if !strings.Contains(text, `"connector.class"`) {
			continue
		}
		t, err := jsonTree(numbers(strings.NewReader(text)), mostDepth)
		if err != nil {
			c.unreadable(l, "JSON", []byte(text), err)
			return
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		c.form(l, "no request in it sends a connector: "+formsRead)
	}
	c.connectors(l, found)
}

// connectors takes the only one, or the one of several that several takes.
func (c *conversion) connectors(l *layer, found []*tree) {
	if len(found) == 1 {
		c.document(l, found[0])
	} else {
		c.several(l, found)
	}
}

// expanded reports whether a document is the answer of GET /connectors?expand=info.
func expanded(t *tree) bool {
	return len(t.fields) > 0 && !slices.ContainsFunc(t.fields, func(f field) bool { return f.value.get("info", "config") == nil })
}

// isConnector reports whether a document is a connector, in one of its forms.
func isConnector(t *tree) bool {
	return t.is("kind") == "KafkaConnector" || ofConfluent(t) || t.get("kind") == nil && (t.get("config") != nil || t.get("connector.class") != nil || t.get("connectorConfiguration") != nil)
}

// nested reads options whose names stand in pieces, one inside the other, as Quarkus has them in YAML. Its key ~ is the name above.
func (c *conversion) nested(l *layer, prefix string, t *tree) {
	for _, f := range t.fields {
		key := strings.TrimSuffix(prefix+f.key, ".~")
		switch f.value.kind {
		case mapping:
			c.nested(l, key+".", f.value)
		case sequence:
			var items []string
			for _, item := range f.value.items {
				items = append(items, item.text)
			}
			c.option(l, key, &tree{text: strings.Join(items, ","), line: f.value.line})
		default:
			c.option(l, key, f.value)
		}
	}
}

// several takes the only connector of a list, or the only one with an outbox event router.
func (c *conversion) several(l *layer, all []*tree) {
	var names, others []string
	var routers, rest []*tree
	for _, t := range all {
		if t.kind != mapping {
			continue
		}
		if !isConnector(t) {
			rest = append(rest, t)
			continue
		}
		name := connectorName(t)
		names = append(names, name)
		if routes(t) {
			routers = append(routers, t)
		} else {
			others = append(others, name)
		}
	}
	switch {
	case len(routers) == 1:
		for _, name := range others {
			c.out.ignored(&setting{key: "connector " + name}, "it has no outbox event router")
		}
		c.document(l, routers[0])
	case len(routers) > 1 || len(names) > 0:
		c.form(l, fmt.Sprintf("it holds %d connectors, %s, of which %d have an outbox event router: give one of them in a file of its own", len(names), strings.Join(names, ", "), len(routers)))
	}
	for _, t := range rest {
		c.document(l, t)
	}
}

// connectorName is the name that a document gives its connector.
func connectorName(t *tree) string {
	return cmp.Or(t.is("name"), t.is("metadata", "name"), t.is("config", "name"), "without a name")
}

// routes reports whether an outbox event router stands somewhere in a connector.
func routes(t *tree) (found bool) {
	t.walk(func(t *tree) { found = found || t.kind == scalar && strings.HasSuffix(t.text, "EventRouter") })
	return found
}

// parts reads options that stand somewhere in a document: each is an option and the path to its value.
func (c *conversion) parts(l *layer, t *tree, options [][]string) {
	for _, o := range options {
		if value := t.get(o[1:]...); value != nil {
			c.option(l, o[0], value)
		}
	}
}

// fields reads options that stand side by side, under a prefix. There may be none.
func (c *conversion) fields(l *layer, prefix string, t *tree) {
	if t == nil {
		return
	}
	for _, f := range t.fields {
		c.option(l, prefix+f.key, f.value)
	}
}

func (c *conversion) option(l *layer, key string, value *tree) {
	switch value.kind {
	case mapping, sequence:
		c.problems = append(c.problems, &Problem{file: l.name, line: value.line, Key: key, Reason: "must be a text, a number or a boolean"})
		return
	case null:
		c.out.ignored(&setting{key: key}, "it is null, so that its default counts")
		return
	}
	l.settings = append(l.settings, &setting{key: key, raw: value.text, file: l.name, line: value.line})
}
