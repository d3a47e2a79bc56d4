package debezium

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
	"github.com/tailbox/tailbox/router"
)

// formsRead names what can be read, for errors.
const formsRead = "tailbox reads properties, a connector as JSON or YAML (alone, with its name, or as GET /connectors answers), KafkaConnector, KafkaConnect and ConfigMap of Kubernetes, " +
	"DebeziumServer of its operator, compose files, .env files, and scripts, files of HTTP clients, collections of Postman and exports of Insomnia that send one connector"

var (
	curl        = lazyregexp.New(`(?m)^[^={\n]*\bcurl\s|\$\(\s*curl\s`)
	body        = lazyregexp.New(`\{\s*"`)
	named       = lazyregexp.New(`connector\.class|"config\b`)
	object      = lazyregexp.New(`\A(?:\{\s*"|\[\s*\{)`)
	yamlKey     = lazyregexp.New(`(?m)^(?:apiVersion|kind|services|spec|config|items|connector\.class|name):(?:\s|$)|^---(?:\s|$)`)
	variable    = lazyregexp.New(`^[A-Z_][A-Z0-9_]*$`)
	anyVariable = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	scriptName  = lazyregexp.New(`(?i)\.(?:sh|bash)$`)
	external    = lazyregexp.New(`(?m)^(?:<(?:@\S*)?[ \t]+|file,)([^\s;]+)`)
	printed     = lazyregexp.New(`(?:\s-d|--data(?:-\w+)?|--json)[\s=]*["']?(?:@-|\$)`)
	interpolate = lazyregexp.New(`\$\$|\$[A-Za-z_][A-Za-z0-9_]*|\$\{`)
	composed    = lazyregexp.New(`(?s)^\$\{?([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])(.*))?$`)
	dependent   = lazyregexp.New(`\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)
)

// readForm reads the options of a file, in whatever form they stand there. It returns its layer and its text; that of offsets is empty.
func (c *conversion) readForm(f File) (l *layer, text []byte) {
	l = &layer{name: filepath.Base(f.Name)}
	c.layers = append(c.layers, l)
	if c.readOffsets(l.name, f.Data) {
		return l, nil
	}
	whole := forms.WithoutHead(withoutBOM(f.Data))
	text = bytes.TrimSpace(whole)
	bare := forms.WithoutComments(text)
	extension := strings.ToLower(filepath.Ext(l.name))
	if !slices.Contains([]string{".yaml", ".yml", ".json", ".properties", ".env"}, extension) && !object().Match(bare) {
		if bare = c.program(l, bare); bare == nil {
			return l, text
		}
	}
	switch {
	case bytes.HasPrefix(bare, []byte("{")), bytes.HasPrefix(bare, []byte("[")):
		if t, err := forms.ReadJSON(append(forms.InPlace(whole, bare), '\n')); err != nil {
			c.unreadable(l, "JSON", bare, err)
		} else {
			c.document(l, t)
		}
	case extension == ".yaml", extension == ".yml", yamlKey().Match(text) && !bytes.Contains(text, []byte("debezium.source.")) && extension != ".properties":
		if c.tasks(l, text) {
			return l, nil
		} else if documents, err := forms.ReadYAML(whole); err != nil {
			c.unreadable(l, "YAML", text, err)
		} else {
			c.connectors(l, documents)
		}
	default:
		c.properties(l, whole)
	}
	return l, text
}

// withoutBOM is a text as UTF-8, without the mark that one may begin with.
func withoutBOM(text []byte) []byte { return bytes.TrimPrefix(forms.Decoded(text), []byte("\uFEFF")) }

// program reads the connector that a program sends to Kafka Connect, such as a script of a shell or the file of an HTTP client. It returns what is left to
// read; nil if nothing is.
func (c *conversion) program(l *layer, text []byte) (left []byte) {
	form, alone := forms.Foreign(l.name, text)
	if bodies := forms.Requests(text); forms.SendsConnector(text) && (form != forms.Markdown || named().MatchString(strings.Join(bodies, ""))) {
		c.bodies(l, bodies)
		return nil
	}
	if forms.Misleads(l.name, text) {
		return nil
	}
	if files := sentAlone(text); len(files) > 0 {
		c.unread = append(c.unread, unread{l.name, giveFiles(files, text)})
		return nil
	}
	if alone {
		c.unread = append(c.unread, unread{l.name, forms.WhyUnread(l.name, text)})
		return nil
	}
	sends := callsHTTP(text)
	if sends || forms.Declares(text) || forms.HoldsResource(text) {
		found, err := forms.ScriptConnectors(text)
		switch wrong := (*forms.YAMLError)(nil); {
		case errors.As(err, &wrong):
			c.unreadable(l, "YAML", text, err)
			return nil
		case err != nil && form == "" && madeByJQ().Match(text):
			c.unread = append(c.unread, unread{l.name, sendsPrinted})
			return nil
		case err != nil:
			c.unreadable(l, "JSON", text, err)
			return nil
		case len(found) > 0:
			c.connectors(l, found)
			return nil
		}
	}
	data, files := sentConnector(text, form), sentFiles(text)
	if form == forms.Markdown && body().Match(text) { // it may show requests to others
		files = sentFiles(toConnectors(text))
	}
	why := notSent
	switch {
	case forms.HasNoOptions(form) && !sends && !forms.Declares(text), form == forms.Markdown && (!sends || data == nil && len(files) == 0):
		why = forms.WhyUnread(l.name, text)
	case !sends && (!scriptName().MatchString(l.name) || forms.Declares(text) || readVariables(l.name, text) != nil):
		return text
	case sends && data != nil:
		return data
	case len(files) > 0:
		why = giveFiles(files, text)
	case !sends && form != "":
		why = forms.WhyUnread(l.name, text)
	case sends && printed().Match(text):
		why = sendsPrinted
	}
	c.unread = append(c.unread, unread{l.name, why})
	return nil
}

// notSent is why a script is refused whose commands name no connector and no file with one.
const notSent = "it is a script that sends no connector: " + formsRead

// sentConnector is what may be the JSON of a connector in a script that cannot be read as a shell reads it; nil if nothing there is called as a connector's
// options are. On a page, what stands between the first and the last brace is one document or prose.
func sentConnector(text []byte, form string) []byte {
	at, end := body().FindIndex(text), bytes.LastIndexByte(text, '}')
	if at == nil || end <= at[0] || !named().Match(text[at[0]:end]) {
		return nil
	}
	data := text[at[0] : end+1]
	if _, err := forms.ReadJSON(data); err != nil && (form == forms.Markdown || !bytes.Contains(data, []byte("connector.class"))) {
		return nil
	}
	return data
}

// form notes that a file is of a form that cannot be read.
func (c *conversion) form(l *layer, why string) {
	c.problems = append(c.problems, &Problem{file: l.name, Key: "form", Reason: why})
}

// placeholder stands in a template for a value of JSON without quotes, as in one of Terraform.
var placeholder = lazyregexp.New(`"\s*:\s*\$\{\w+\}`)

// unreadable notes that a text is not what it looks like.
func (c *conversion) unreadable(l *layer, format string, text []byte, err error) {
	if bytes.Contains(text, []byte("{{")) {
		c.form(l, fmt.Sprintf("it is a template (%v): give it with the values filled in, as helm template prints it", err))
		return
	}
	if placeholder().Match(text) {
		c.form(l, fmt.Sprintf("it is a template (%v): give it with the values filled in", err))
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
	all := router.ParseProperties(text)
	if len(all) > 0 && !slices.ContainsFunc(all, func(p router.Property) bool { return !strings.HasPrefix(p.Key, ";") }) {
		c.form(l, "each of its lines begins with ;, which begins no comment in a file of properties, so that Debezium finds no option: remove it from those that count")
		return
	}
	for _, p := range all {
		l.settings = append(l.settings, &setting{key: p.Key, raw: p.Value, file: l.name, line: p.Line})
	}
	if bareConnector(l.settings) {
		c.setApart(l, 0)
	}
}

// document reads a document of JSON or YAML.
func (c *conversion) document(l *layer, t *forms.Tree) {
	from := len(l.settings)
	switch kind := t.Is("kind"); {
	case t.Kind == forms.Sequence:
		c.several(l, t.Items)
	case t.Kind != forms.Mapping:
		c.form(l, "it holds no options: "+formsRead)
	case (kind == "List" || kind == "KafkaConnectorList") && t.Get("items") != nil:
		c.several(l, t.Get("items").Items)
	case kind == "KafkaConnector":
		c.strimzi(l, t)
		c.setApart(l, from)
	case ofConfluent(t):
		c.parts(l, t, [][]string{{"name", "metadata", "name"}, {"connector.class", "spec", "class"}, {"tasks.max", "spec", "taskMax"}})
		c.fields(l, "", t.Get("spec", "configs"))
		c.setApart(l, from)
	case kind == "Template" && t.Get("objects") != nil: // OpenShift's
		if slices.ContainsFunc(t.Get("objects").Items, func(o *forms.Tree) bool {
			return isConnector(o) || o.Is("kind") == "KafkaConnect" || o.Is("kind") == "DebeziumServer"
		}) {
			c.form(l, "it is a Template of OpenShift, whose parameters tailbox does not fill in: give what `oc process -f "+l.name+" --local -o yaml` prints, with -p NAME=VALUE for each parameter that it misses")
		}
	case kind == "KafkaConnect", kind == "KafkaConnectS2I":
		c.worker(l, t)
	case kind == "DebeziumServer":
		c.operator(l, t.Get("spec"))
	case kind == "ConfigMap", kind == "Secret":
		c.configMap(l, t)
	case t.Get("spec", "template", "spec", "containers") != nil:
		c.containers(l, t.Get("spec", "template", "spec", "containers"))
	case kind == "Pod":
		c.containers(l, t.Get("spec", "containers"))
	case t.Get("apiVersion") != nil && kind != "":
		return // another resource, such as a Service beside the connector
	case ofQuarkus(t.Get("debezium")):
		c.nested(l, "", t)
	case t.Get("error_count") != nil && t.Get("configs") != nil, t.Get("connector", "state") != nil && t.Get("tasks") != nil:
		c.form(l, "it says how a connector is, and not what it does: "+forms.Ask)
	case t.Get("services") != nil:
		c.compose(l, t)
	case t.Get("connectorConfiguration") != nil: // Amazon's MSK Connect
		c.fields(l, "", t.Get("connectorConfiguration"))
		c.setApart(l, from)
	case t.Get("config") != nil:
		outside := c.parts(l, t, [][]string{{"name", "name"}, {"connector.class", "class"}, {"tasks.max", "tasksMax"}}) // the last two as in a KafkaConnector's spec
		delete(outside, "name")
		if t.Get("config").Kind != forms.Mapping {
			c.problems = append(c.problems, &Problem{file: l.name, Key: "config", Reason: "must be an object of options"})
			return
		}
		c.overridden(l, t.Get("config"), outside)
		c.besideConfig(t)
		if got := (&layer{settings: l.settings[from:]}); got.has("connector.class") || !got.has(serverPrefix+"source.connector.class") {
			c.setApart(l, from)
		}
	case strings.Contains(t.Is("info", "schema"), "postman.com"), strings.Contains(t.Is("__export_source"), "insomnia"):
		c.bodies(l, forms.Collected(t))
	case expanded(t):
		var all []*forms.Tree
		for _, f := range t.Fields {
			all = append(all, f.Value.Get("info"))
		}
		c.several(l, all)
	case t.Get("connector.class") == nil && t.Has("connector.class"):
		c.form(l, "it holds a connector deeper inside: if these are the values of a Helm chart, give what helm template prints; else "+forms.Ask)
	default:
		c.fields(l, "", t)
		if bareConnector(l.settings[from:]) {
			c.setApart(l, from)
		}
	}
}

// besideConfig lists what stands beside the name and the options of a connector.
func (c *conversion) besideConfig(t *forms.Tree) {
	for _, f := range t.Fields {
		switch f.Key {
		case "name", "class", "tasksMax", "config", "tasks", "type": // the last two as GET /connectors/NAME answers
		case "initial_state", "state", "pause":
			c.out.ignored(&setting{key: f.Key}, notAskedState)
		default:
			c.out.ignored(&setting{key: f.Key}, "it stands beside the connector's options")
		}
	}
}

// bodies reads the connectors among the bodies of requests to Kafka Connect, which reads the first value of a body.
func (c *conversion) bodies(l *layer, all []string) {
	var found []*forms.Tree
	for _, text := range all {
		if !strings.Contains(text, `"connector.class"`) {
			continue
		}
		t, err := forms.ReadFirstJSON(text)
		if err != nil {
			c.unreadable(l, "JSON", []byte(text), err)
			return
		}
		if t.Kind == forms.Sequence {
			found = append(found, t.Items...)
		} else {
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		c.connectors(l, found)
		return
	}
	why := "no request in it sends a connector: " + formsRead
	if file := external().FindStringSubmatch(strings.Join(all, "\n")); file != nil {
		why = giveFiles(file[1:], nil)
	}
	c.unread = append(c.unread, unread{l.name, why})
}

// connectors takes the only one, or the one of several that several takes.
func (c *conversion) connectors(l *layer, found []*forms.Tree) {
	if len(found) == 1 {
		c.document(l, found[0])
	} else {
		c.several(l, found)
	}
}

// expanded reports whether a document is the answer of GET /connectors?expand=info.
func expanded(t *forms.Tree) bool {
	return len(t.Fields) > 0 && !slices.ContainsFunc(t.Fields, func(f forms.Field) bool { return f.Value.Get("info", "config") == nil })
}

// isConnector reports whether a document is a connector, in one of its forms.
func isConnector(t *forms.Tree) bool {
	return t.Is("kind") == "KafkaConnector" || ofConfluent(t) || t.Get("kind") == nil && (t.Get("config") != nil || t.Get("connector.class") != nil || t.Get("connectorConfiguration") != nil)
}

// ofQuarkus reports whether what stands under debezium are options of Debezium Server. A program of Spring may have a connector there, and a chart its values.
func ofQuarkus(t *forms.Tree) bool {
	return t != nil && t.Get("connector.class") == nil && slices.ContainsFunc(t.Fields, func(f forms.Field) bool { return optionVariable().MatchString(variableOf(serverPrefix + f.Key)) })
}

// nested reads options whose names stand in pieces, one inside the other, as Quarkus has them in YAML. Its key ~ is the name above.
func (c *conversion) nested(l *layer, prefix string, t *forms.Tree) {
	for _, f := range t.Fields {
		key := strings.TrimSuffix(prefix+f.Key, ".~")
		switch f.Value.Kind {
		case forms.Mapping:
			c.nested(l, key+".", f.Value)
		case forms.Sequence:
			var items []string
			for _, item := range f.Value.Items {
				items = append(items, item.Text)
			}
			c.option(l, key, &forms.Tree{Text: strings.Join(items, ","), Line: f.Value.Line})
		default:
			c.option(l, key, f.Value)
		}
	}
}

// several takes the only connector of a list, or the only one with an outbox event router.
func (c *conversion) several(l *layer, all []*forms.Tree) {
	var names, others []string
	var connectors, routers, rest, once []*forms.Tree
	for _, t := range all {
		if t.Kind == forms.Mapping && (!isConnector(t) || !slices.ContainsFunc(once, func(before *forms.Tree) bool { return sameConnector(before, t) })) {
			once = append(once, t)
		}
	}
	if len(once) == 1 && len(all) > 1 {
		c.document(l, once[0])
		return
	}
	for _, t := range once {
		if !isConnector(t) {
			rest = append(rest, t)
			continue
		}
		name := connectorName(t)
		connectors, names = append(connectors, t), append(names, name)
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
	case len(connectors) == 1: // document says what it lacks
		c.document(l, connectors[0])
	case len(connectors) > 0:
		c.form(l, severalConnectors("it holds", names, len(routers)))
	}
	for _, t := range rest {
		c.document(l, t)
	}
}

// sameConnector reports whether two documents are one connector, as in a script that creates it or else updates it.
func sameConnector(a, b *forms.Tree) bool {
	return isConnector(a) && isConnector(b) && a.Get("kind") == nil && b.Get("kind") == nil && maps.Equal(optionsOf(a), optionsOf(b)) &&
		(connectorName(a) == connectorName(b) || connectorName(a) == nameless || connectorName(b) == nameless)
}

// optionsOf are the options of a connector as texts, but for its name.
func optionsOf(t *forms.Tree) map[string]string {
	options := map[string]string{}
	for _, f := range cmp.Or(t.Get("config"), t.Get("connectorConfiguration"), t).Fields {
		if f.Key != "name" {
			options[f.Key] = fmt.Sprint(f.Value.Kind, f.Value.Text, len(f.Value.Items), len(f.Value.Fields))
		}
	}
	return options
}

// nameless stands for the name of a connector without one.
const nameless = "without a name"

// severalConnectors is why none of several connectors is taken.
func severalConnectors(hold string, names []string, routed int) string {
	named := ", " + strings.Join(names, ", ")
	if !slices.ContainsFunc(names, func(name string) bool { return name != nameless }) {
		named = " without names"
	}
	if routed == 0 {
		return fmt.Sprintf("%s %d connectors%s, of which none has an outbox event router, so that there is no outbox to relay", hold, len(names), named)
	}
	return fmt.Sprintf("%s %d connectors%s, of which %d have an outbox event router: give one of them in a file of its own", hold, len(names), named, routed)
}

// connectorName is the name that a document gives its connector.
func connectorName(t *forms.Tree) string {
	return cmp.Or(t.Is("name"), t.Is("metadata", "name"), t.Is("config", "name"), nameless)
}

// routes reports whether an outbox event router stands somewhere in a connector.
func routes(t *forms.Tree) (found bool) {
	t.Walk(func(t *forms.Tree) {
		found = found || t.Kind == forms.Scalar && strings.HasSuffix(t.Text, "EventRouter")
	})
	return found
}

// parts reads options that stand somewhere in a document: each is an option and the path to its value. It returns the places of those that are there.
func (c *conversion) parts(l *layer, t *forms.Tree, options [][]string) map[string]string {
	places := map[string]string{}
	for _, o := range options {
		if value := t.Get(o[1:]...); value != nil {
			c.option(l, o[0], value)
			places[o[0]] = strings.Join(o[1:], ".")
		}
	}
	return places
}

// fields reads options that stand side by side, under a prefix. There may be none.
func (c *conversion) fields(l *layer, prefix string, t *forms.Tree) {
	if t == nil {
		return
	}
	for _, f := range t.Fields {
		c.option(l, prefix+f.Key, f.Value)
	}
}

// noOptionValue is why a list or a mapping is refused as the value of an option.
const noOptionValue = "must be a text, a number or a boolean"

func (c *conversion) option(l *layer, key string, value *forms.Tree) {
	switch value.Kind {
	case forms.Mapping, forms.Sequence:
		c.problems = append(c.problems, &Problem{file: l.name, line: value.Line, Key: key, Reason: noOptionValue})
		return
	case forms.Null:
		c.out.ignored(&setting{key: key}, "it is null, so that its default counts")
		return
	}
	l.settings = append(l.settings, &setting{key: key, raw: value.Option(), file: l.name, line: value.Line})
}
