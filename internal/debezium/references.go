package debezium

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
)

const (
	providedPattern = `\$\{([^{}:]+):(?:(?:[^{}:]|\$\{[^{}]*\})*:)?([^{}]*)\}`
	filledInPattern = `\$\{[A-Za-z_][A-Za-z0-9_]*\}`
)

var (
	// expression begins a reference of MicroProfile's configuration, or is a $ that is escaped.
	expression = lazyregexp.New(`\$\$|\$\{`)
	// provided is a reference to a provider of Kafka Connect's configuration: its name, a path that may be left out and may hold another reference, and a key.
	provided = lazyregexp.New(providedPattern)
	// filledIn is a reference that Kafka Connect does not know, so that something fills it in before.
	filledIn         = lazyregexp.New(filledInPattern)
	providedOrFilled = lazyregexp.New(providedPattern + "|" + filledInPattern)
	// envName is what tailbox.yaml takes for the name of a variable.
	envName = lazyregexp.New(`^[A-Z0-9_]+$`)
)

// producerPrefixes begin the options of a Kafka producer, those that count first in front.
func (c *conversion) producerPrefixes() []string {
	if c.server {
		return []string{"sink.kafka.producer."}
	}
	return []string{"source.producer.override.", "source.producer."}
}

// producerOption is the name of a producer's option, "" for others.
func (c *conversion) producerOption(key string) string {
	for _, prefix := range c.producerPrefixes() {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			return name
		}
	}
	return ""
}

// copied reports whether an option is only copied into one text, so that tailbox.yaml can name the variable. All others decide what is
// written.
func (c *conversion) copied(key string) bool {
	return slices.Contains([]string{"source.mongodb.connection.string", "source.mongodb.hosts", "source.mongodb.user", "source.mongodb.password"}, key) ||
		strings.HasPrefix(key, "source.database.") && key != "source.database.server.name" && key != "source.database.ssl.mode" || c.servers(key) ||
		slices.Contains([]string{"sink.http.url", "source.slot.name", "source.publication.name", "sink.nats-jetstream.auth.user", "sink.nats-jetstream.auth.password"}, key) ||
		slices.Contains([]string{"client.id", "ssl.truststore.location", "ssl.keystore.location"}, c.producerOption(key))
}

// servers reports whether an option is a list of servers, of which each is copied. One variable cannot be several.
func (c *conversion) servers(key string) bool {
	return key == "sink.nats-jetstream.url" || key == "source.bootstrap.servers" && !c.server || c.producerOption(key) == "bootstrap.servers"
}

// partsCopied reports whether parts of an option are copied. Its own syntax, such as $$ for $, is not.
func (c *conversion) partsCopied(key string) bool {
	return c.producerOption(key) == "sasl.jaas.config" || strings.HasPrefix(key, "transforms.") && strings.HasSuffix(key, ".route.topic.replacement")
}

// resolveAll resolves references and escapes in all options, as Debezium Server or Kafka Connect does.
func (c *conversion) resolveAll() {
	for key, s := range c.settings {
		s.value, s.fault = c.resolve(key, s.raw, !c.copied(key) && !c.partsCopied(key))
		if !c.servers(key) {
			continue
		}
		now, fault := c.resolve(key, s.raw, true)
		if own := strings.Count(reference().ReplaceAllString(s.value, ""), ","); fault == "" && (own != strings.Count(s.value, ",") || own != strings.Count(now, ",")) {
			s.value = now // a comma within a reference, or in what it stands for
		}
	}
}

// template is a placeholder of Helm, Postman or an HTTP client.
var template = lazyregexp.New(`\{\{[^{}]*\}\}`)

// reference is a variable as tailbox.yaml has it.
var reference = lazyregexp.New(`\$\{[A-Z0-9_]+(:-[^}]*)?\}`)

// resolve returns what a value is with its references resolved, or why that cannot be done. Variables of the environment stay
// references to them, or are taken as they are now.
func (c *conversion) resolve(key, raw string, now bool) (value, fault string) {
	if !strings.HasSuffix(key, "password") { // whose blanks count
		raw = strings.TrimSpace(raw)
	}
	if found := template().FindString(raw); found != "" {
		return raw, found + " is filled in before Debezium sees it: write the value"
	}
	r := resolver{c: c, key: key, now: now}
	if c.server {
		value = r.expressions(raw)
	} else {
		value = forms.EachReference(raw, r.providers, r.shell)
	}
	return value, r.fault
}

// A resolver resolves the references in one value.
type resolver struct {
	c   *conversion
	key string
	now bool
	// open are the names whose values are being resolved.
	open []string
	// fault is the first thing that is wrong, with its fix.
	fault string
}

// wrong notes what is wrong with a reference, which then stays.
func (r *resolver) wrong(ref, format string, args ...any) string {
	if r.fault == "" {
		r.fault = fmt.Sprintf(format, args...)
	}
	return ref
}

// eachReference replaces the references in a text that start finds. A reference in braces may hold others; one that does not end is none.
func eachReference(text string, start *regexp.Regexp, replace func(ref string) string) string {
	var b strings.Builder
	for at := start.FindStringIndex(text); at != nil; at = start.FindStringIndex(text) {
		from, end := at[0], at[1]
		if text[end-1] == '{' {
			end = from + forms.ReferenceSize(text[from:])
		}
		b.WriteString(text[:from])
		if end == from {
			end = at[1]
			b.WriteString(text[from:end])
		} else {
			b.WriteString(replace(text[from:end]))
		}
		text = text[end:]
	}
	b.WriteString(text)
	return b.String()
}

// nameAndDefault takes a reference of Debezium Server apart. A default begins with its colon; it is "" if there is none.
func nameAndDefault(ref string) (name, byDefault string) {
	inner := ref[len("${") : len(ref)-1]
	if at := strings.IndexByte(inner, ':'); at >= 0 {
		return inner[:at], inner[at:]
	}
	return inner, ""
}

// expressions resolves the references of Debezium Server. What they stand for may hold others. A $ that is none is written $$ or \$. For a connector of Kafka
// Connect, it resolves those in the variables of files, which have no such escapes.
func (r *resolver) expressions(s string) string {
	if r.c.server {
		s = strings.ReplaceAll(s, `\$`, "$$")
	}
	return eachReference(s, expression(), func(ref string) string {
		if ref == "$$" && !r.c.server {
			return ref
		} else if ref == "$$" {
			return "$"
		}
		name, byDefault := nameAndDefault(ref)
		if slices.Contains(r.open, name) {
			return r.wrong(ref, "${%s} refers back to itself: give one of them a value", name)
		}
		if strings.Contains(name, "{") {
			return r.wrong(ref, "%s is a reference whose name holds another one, which is not read: write the value", ref)
		}
		other := r.c.settings[otherPrefix+name]
		if r.c.variables.known(name) || envName().MatchString(name) && other == nil {
			return r.variable(ref, name, byDefault)
		}
		if other != nil {
			return r.nested(name, other.raw)
		}
		for _, variable := range []string{underscored(name), variableOf(name)} {
			if r.c.variables.known(variable) {
				return r.variable(ref, variable, byDefault)
			}
		}
		if byDefault != "" {
			return r.nested(name, byDefault[1:])
		}
		dollars := "$$"
		if set := r.c.settings[r.key]; set != nil && set.dollars != "" {
			dollars = set.dollars
		}
		return r.wrong(ref, "${%s} is a reference that nothing defines: write %s{%s} if it is meant for Debezium itself", name, dollars, name)
	})
}

// variable resolves a reference to the environment. byDefault begins with its colon. If a file gives the variable a value, that counts; but a secret stays
// where it is.
func (r *resolver) variable(ref, name, byDefault string) string {
	value, set := r.c.variables.get(name)
	given := r.c.variables.given[name]
	if given != nil {
		r.c.variables.use(name, r.c.settings[r.key])
		if given.fault != "" {
			return r.wrong(ref, "%s", given.fault)
		}
		if own, itself := given.itself(); itself { // it is of whoever starts the process
			if own != "" && !r.now && ofSecret(name, r.c.settings[r.key], ref) {
				r.c.setBefore(name, "its value in "+given.file)
				own = ""
			}
			given, byDefault = r.c.variables.plain[name], cmp.Or(own, byDefault)
		}
	}
	now := r.now || !envName().MatchString(name)
	switch {
	case set && given != nil && !now && (given.hidden || ofSecret(name, r.c.settings[r.key], ref)):
		r.c.setBefore(name, "its value in "+given.file)
		return "${" + name + "}"
	case set && (given != nil || now && r.c.server):
		return r.nested(name, value)
	case set && now:
		return value
	case now && byDefault != "":
		return r.nested(name, byDefault[1:])
	case now:
		return r.unset(ref, name)
	case byDefault == "":
		return "${" + name + "}"
	}
	text := byDefault[1:]
	if strings.Contains(text, "${") { // tailbox.yaml has no default within a default
		other := resolver{c: r.c, key: r.key, now: true, open: append(slices.Clone(r.open), name)}
		if text = other.expressions(text); other.fault != "" || forms.SecretName().MatchString(byDefault) {
			return "${" + name + "}"
		}
	}
	switch {
	case !strings.ContainsAny(text, "{}"):
		return "${" + name + ":-" + text + "}"
	case set:
		return value
	}
	return text
}

// ofSecret reports whether a reference in an option stands for a secret.
func ofSecret(name string, option *setting, ref string) bool {
	return forms.SecretName().MatchString(name) || (&setting{key: name}).secret() || option != nil &&
		(strings.HasSuffix(strings.ToLower(option.key), "password") || option.secret() && strings.TrimSpace(option.raw) == ref)
}

func (r *resolver) unset(ref, name string) string {
	return r.wrong(ref, "it depends on this option what is written here, and the environment variable %s is not set: set it to what Debezium gets", name)
}

func (r *resolver) nested(name, value string) string {
	r.open = append(r.open, name)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.expressions(value)
}

// providers resolves the references of Kafka Connect to the environment. What other providers find is not known here: where a value is only copied, a
// variable stands for it; else it is wrong.
func (r *resolver) providers(s string) string {
	return providedOrFilled().ReplaceAllStringFunc(s, func(ref string) string {
		if filledIn().FindString(ref) == ref {
			return r.filled(ref)
		}
		parts := provided().FindStringSubmatch(ref)
		provider, name := parts[1], parts[2]
		if !r.c.isEnvironment(provider) && !r.now {
			return "${" + r.c.standsFor(variableOf(strings.TrimPrefix(r.key, "source.")), "what Kafka Connect finds as "+strings.Trim(ref, "${}")) + "}"
		}
		if !r.c.isEnvironment(provider) {
			return r.wrong(ref, "Kafka Connect looks this up by its provider %s, which is not built into tailbox: put what it finds into an environment variable in capitals, "+
				"and write ${env:NAME} in place of %s in the file that is imported", provider, ref)
		}
		if !envName().MatchString(name) {
			return r.wrong(ref, "%s cannot stand in tailbox.yaml, whose variables have names of capitals, digits and underscores: give the variable such a name, or write its value", ref)
		}
		return r.variable(ref, name, "")
	})
}

// ownSyntax are options in whose own syntax a reference names a group, say, or whose references stay.
var ownSyntax = lazyregexp.New(`\.(replacement|regex|pattern)$|^sasl\.jaas\.config$`)

// filled resolves a reference that a tool such as envsubst replaces before Kafka Connect reads the connector. It writes no secret. In an option that is
// not copied, one in small letters is part of the option's own syntax.
func (r *resolver) filled(ref string) string {
	name := ref[len("${") : len(ref)-1]
	inCapitals := envName().MatchString(name)
	if r.now && ownSyntax().MatchString(r.key) || !inCapitals && !r.c.copied(r.key) {
		return ref
	}
	given := r.c.variables.plain[name]
	value, set := r.c.variables.environment(name)
	switch {
	case given == nil && r.now && set:
		return value
	case given == nil && r.now:
		return r.unset(ref, name)
	case given == nil && !inCapitals:
		return "${" + r.c.standsFor(variableOf(strings.TrimPrefix(r.key, "source.")), "what is filled in for "+name+" before Kafka Connect sees the connector") + "}"
	case given == nil:
		r.c.setBefore(name, "what is filled in for it before Kafka Connect sees the connector")
		return ref
	}
	r.c.variables.use(name, r.c.settings[r.key])
	switch {
	case r.now, !ofSecret(name, r.c.settings[r.key], ref):
		return given.raw
	case !inCapitals:
		return "${" + r.c.standsFor(variableOf(strings.TrimPrefix(r.key, "source.")), "the value of "+name+" in "+given.file) + "}"
	}
	r.c.setBefore(name, "its value in "+given.file)
	return ref
}

// shell resolves a reference of a script: one to the environment, with or without a default.
func (r *resolver) shell(ref string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(ref, forms.ReferencePrefix), "}")
	asWritten := forms.Written(ref)
	if work, ok := strings.CutPrefix(name, "!"); ok {
		return r.wrong(forms.Show(work), "the shell works out %s before Kafka Connect sees it: write what it becomes into the script", forms.Show(work))
	}
	name, hidden := forms.SetSecret(name)
	name, byDefault, has := strings.Cut(name, "-")
	name, orEmpty := strings.CutSuffix(name, ":")
	if !anyVariable().MatchString(name) {
		if !has {
			asWritten = "$" + name
		}
		group := ""
		if strings.HasSuffix(r.key, "replacement") {
			group = `; if it is a group of the regular expression, write \` + asWritten + `, which the shell leaves alone`
		}
		return r.wrong(asWritten, "%s is an argument of the script: write its value in place of it%s", asWritten, group)
	}
	value, set := r.c.variables.environment(name)
	given := r.c.variables.plain[name]
	if hidden {
		given = nil // what the script sets counts
	}
	if given != nil {
		value, set = given.raw, true
		r.c.variables.use(name, r.c.settings[r.key])
	}
	set = set && (value != "" || !orEmpty)
	now := func() string {
		switch {
		case set && given != nil:
			return r.nested(name, value)
		case set:
			return value
		}
		other := resolver{c: r.c, key: r.key, now: true}
		value := forms.Show(forms.EachReference(byDefault, other.providers, other.shell))
		if other.fault != "" {
			return r.wrong(asWritten, "%s", other.fault)
		}
		return value
	}
	switch {
	case r.now && !set && hidden:
		return r.wrong(asWritten, "%s has the name of a secret, so that what the script sets it to is not read: write its value in place of it", asWritten)
	case r.now && !set && !has:
		return r.wrong(asWritten, "it depends on this option what is written here, and %s, which the script does not set to one text, is not in the environment: "+
			"set it to what the script gets, or write its value into the script", asWritten)
	case r.now, set && given != nil && !ofSecret(name, r.c.settings[r.key], ref):
		return now()
	case set && given != nil && envName().MatchString(name):
		r.c.setBefore(name, "its value in "+given.file)
		return "${" + name + "}"
	case !envName().MatchString(name):
		from := "the value of the script's " + name
		if byDefault != "" {
			from += ", or " + forms.Show(strings.ReplaceAll(byDefault, forms.ReferencePrefix, "${")) + " if that is not set"
		}
		return "${" + r.c.standsFor(variableOf(strings.TrimPrefix(r.key, "source.")), from) + "}"
	case hidden:
		r.c.setBefore(name, "what the script sends for it")
		return "${" + name + "}"
	case !has:
		return "${" + name + "}"
	}
	other := resolver{c: r.c, key: r.key, now: true}
	text := forms.Show(forms.EachReference(byDefault, other.providers, other.shell))
	switch {
	case other.fault != "" || forms.NamesSecret(byDefault): // it needs this variable
		return "${" + name + "}"
	case strings.ContainsAny(text, "{}$\n"): // which no default in tailbox.yaml has
		return now()
	}
	return "${" + name + ":-" + text + "}"
}

// standsFor is the variable that stands for what is not known here: it has the name of the option, and a number if that refers to several.
func (c *conversion) standsFor(option, what string) string {
	name := option
	for n := 2; c.toSet[name] != "" && c.toSet[name] != what; n++ {
		name = fmt.Sprintf("%s_%d", option, n)
	}
	c.setBefore(name, what)
	return name
}

// setBefore has the result say to what a variable has to be set.
func (c *conversion) setBefore(name, what string) {
	if c.toSet == nil {
		c.toSet = map[string]string{}
	}
	c.toSet[name] = what
}

// isEnvironment reports whether a provider of Kafka Connect's looks into the environment. If the worker's file is not there, its usual
// name counts.
func (c *conversion) isEnvironment(provider string) bool {
	if class := c.settings["source.config.providers."+provider+".class"]; class != nil {
		return strings.HasSuffix(class.raw, ".EnvVarConfigProvider")
	}
	return provider == "env"
}
