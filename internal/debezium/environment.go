package debezium

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
	"github.com/tailbox/tailbox/router"
)

// underscored and variableOf are the names of the environment's variables that count before an option: MicroProfile's rule, the second in capitals.
func underscored(option string) string { return notInName().ReplaceAllString(option, "_") }

func variableOf(option string) string { return strings.ToUpper(underscored(option)) }

// shellLine is a value without quotes behind which a line of a shell goes on.
var shellLine = lazyregexp.New(`^[^"'\s]*(?:;\s|\s(?:&&|\|\|?)\s)|^[^"']*\$\(`)

// defaulted begins a reference with a default in a .env file.
var defaulted = lazyregexp.New(`\$\{(\w+):?-`)

var (
	// inQuotes is a value in quotes, and perhaps a comment behind it.
	inQuotes = lazyregexp.New(`^(?:'([^']*)'|"((?:[^"\\]|\\.)*)")(?:\s+#.*)?$`)
	// escaped is a quote or a backslash in double quotes.
	escaped = lazyregexp.New(`\\(["\\])`)
	// bareName is a reference without braces, and what takes its meaning away.
	bareName = lazyregexp.New(`[$\\]?\$[A-Za-z_]\w*`)
)

// readVariables reads a .env file; nil if a line is none of such a file. Values are as they are written, but for quotes around them, a comment behind
// them, and references to what stands above.
func readVariables(file string, text []byte) (given []*setting) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
		if !ok || !anyVariable().MatchString(key) {
			return nil
		}
		value = strings.TrimSpace(value)
		if !strings.HasSuffix(file, ".env") && shellLine().MatchString(value) {
			return nil // a script of one line, say
		}
		literal := strings.HasPrefix(value, "'")
		if m := inQuotes().FindStringSubmatch(value); m != nil {
			value = m[1] + escaped().ReplaceAllString(m[2], "$1") // one of them is empty
		} else if at := strings.Index(value, " #"); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		if !literal { // as Debezium Server has a reference and a default
			value = defaulted().ReplaceAllString(value, "${$1:")
			value = bareName().ReplaceAllStringFunc(value, func(name string) string {
				if !slices.ContainsFunc(given, func(s *setting) bool { return s.key == name[1:] }) {
					return name
				}
				return "${" + name[1:] + "}"
			})
		}
		given = append(given, &setting{key: key, raw: value, file: file, line: n})
	}
	return given
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
		"format.schemas.enable", "format.key.schemas.enable", "format.value.schemas.enable", "format.header.schemas.enable", "transforms", "quarkus.http.port",
		"quarkus.config.locations", otherPrefix + "smallrye.config.locations", otherPrefix + "smallrye.config.profile"}
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
	if chain := c.settings["transforms"]; chain != nil {
		names, _ := c.resolve("transforms", chain.raw, true)
		var options []string
		for _, name := range commas(names) {
			for _, option := range append(router.OptionNames(), "type") {
				options = append(options, "transforms."+name+"."+option)
			}
		}
		c.fromVariables(options)
	}
	c.fromNames()
	c.fromSource()
}

func (c *conversion) fromVariables(keys []string) {
	for _, key := range keys {
		option := key
		if name, other := strings.CutPrefix(key, otherPrefix); other {
			option = name
		} else if !strings.HasPrefix(key, "quarkus.") {
			option = serverPrefix + key
		}
		for _, name := range []string{underscored("%" + c.inForce + "." + option), variableOf("%" + c.inForce + "." + option), underscored(option), variableOf(option)} {
			if c.fromVariable(key, name) {
				break
			}
		}
	}
}

// fromVariable takes an option from a variable, if that is set.
func (c *conversion) fromVariable(key, name string) bool {
	value, set := c.variables.look(name)
	given := c.variables.given[name]
	if !set && given == nil {
		return false
	}
	s := &setting{key: "$" + name, raw: value, file: environment}
	switch {
	case given != nil: // it may be a reference to what the environment will have
		s.raw, s.file, s.line, s.dollars, s.origin = given.raw, given.file, given.line, given.dollars, given
	case (strings.HasPrefix(key, otherPrefix) || c.copied(key)) && envName().MatchString(name):
		s.raw = "${" + name + "}"
	}
	c.file(key, s)
	return true
}

// fromNames takes options from variables that nothing has looked for: Debezium Server takes each whose name begins as that of an option, and makes
// the option's name of it, in small letters with dots. What another option refers to may have no other purpose.
func (c *conversion) fromNames() {
	references := ""
	for _, s := range c.settings {
		references += s.raw + "\n"
	}
	known := map[string]string{}
	for _, o := range ignoredOptions() {
		known[variableOf(serverPrefix+o.prefix)] = o.prefix
	}
	for _, option := range strings.Fields(optionsOfDebezium) {
		known[variableOf(serverPrefix+"source."+option)] = "source." + option
	}
	for _, option := range sinkOptions() {
		known[variableOf(serverPrefix+"sink."+option)] = "sink." + option
	}
	v := &c.variables
	for _, name := range slices.Sorted(slices.Values(v.names)) {
		if v.looked[name] || !optionVariable().MatchString(name) || kubernetesVariable().MatchString(name) {
			continue
		}
		plain := strings.TrimPrefix(strings.ToUpper(name), variableOf("%"+c.inForce+"."))
		if strings.HasPrefix(plain, "_") {
			continue // of another profile
		}
		key, ok := known[plain]
		if !ok {
			key = strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(plain, "_", ".")), serverPrefix)
		}
		if ok || !strings.Contains(references, "${"+name) && v.uses[name] == nil {
			c.fromVariable(key, name)
		}
	}
}

// systemProperty is an option of Debezium Server among the arguments of Java.
const systemProperty = `-D((?:%[^.\s]+\.)?debezium\.[^=\s]+|quarkus\.profile)=`

var properties = lazyregexp.New(systemProperty)

// systemProperties refuses variables that hand options to Java.
func (c *conversion) systemProperties() {
	for _, name := range []string{"DEBEZIUM_OPTS", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"} {
		value, _ := c.variables.get(name)
		if found := properties().FindStringSubmatch(value); found != nil {
			p := &Problem{Key: "$" + name, Reason: "sets " + found[1] + " as a system property of Java, which counts before files and other variables: take each -Ddebezium… out of it, and give the option in a file"}
			if given := c.variables.given[name]; given != nil {
				p.file, p.line = given.file, given.line
			}
			c.problems = append(c.problems, p)
		}
	}
}

// sinkOptions are the options of sinks whose names a variable does not tell, because they hold a sign that is no dot.
func sinkOptions() []string {
	options := []string{"http.batch.max-size"}
	for _, name := range []string{"url", "auth.user", "auth.password", "auth.jwt", "auth.seed", "auth.tls.keystore", "auth.tls.keystore.password", "auth.tls.password", "create-stream", "stream-name",
		"subjects", "storage", "async.enabled", "async.timeout.ms", "sync.retries", "sync.retry.interval.ms", "sync.retry.max.interval.ms", "sync.retry.backoff.multiplier"} {
		options = append(options, "nats-jetstream."+name)
	}
	return options
}

// variables are those of the environment.
type variables struct {
	environment func(name string) (value string, set bool)
	names       []string
	// given are those that files set, such as a compose file; they count first.
	given map[string]*setting
	// plain are those of files of variables, such as .env: a compose file and a script take theirs from there.
	plain map[string]*setting
	// uses are the settings that refer to a variable of a file, by its name.
	uses map[string][]*setting
	// looked are the names that options were looked for under.
	looked map[string]bool
}

// plainly takes the variables of a file that holds nothing else.
func (v *variables) plainly(given []*setting) {
	if v.plain == nil {
		v.plain = map[string]*setting{}
	}
	for _, s := range given {
		if _, itself := s.itself(); !itself {
			v.plain[s.key] = s
		}
	}
}

// setAgain is why a variable of a file has no effect that another one sets.
func setAgain(file, other string) string {
	if file == other {
		return "it is set again in another service or container, and that counts"
	}
	return "it is set again in another file, and that counts"
}

// severalValues is why a reference cannot be resolved to a variable of two processes.
const severalValues = "it refers to a variable that services or containers set to different values: give only the one that is Debezium's"

// give takes a variable of a file, and returns one of the same name that counts no more. One that stands beside a process counts before one of a .env file.
func (v *variables) give(s *setting, beside bool) (idle *setting) {
	if v.given == nil {
		v.given = map[string]*setting{}
	}
	if idle = v.given[s.key]; idle != nil && idle.beside && !beside {
		return s
	}
	if s.beside = beside; beside && idle != nil && idle.beside && idle.raw != s.raw {
		s.fault = severalValues
	}
	v.given[s.key] = s
	if !slices.Contains(v.names, s.key) {
		v.names = append(slices.Clone(v.names), s.key)
	}
	return idle
}

// use notes that a setting refers to a variable of a file.
func (v *variables) use(name string, by *setting) {
	if v.uses == nil {
		v.uses = map[string][]*setting{}
	}
	if by != nil {
		v.uses[name] = append(v.uses[name], by)
	}
}

// known reports whether a file has a variable, or the environment.
func (v *variables) known(name string) bool {
	_, set := v.get(name)
	return set || v.given[name] != nil
}

// itself reports whether a variable is set to itself, so that it is left to the environment, perhaps with a default, which begins with its colon.
func (s *setting) itself() (byDefault string, itself bool) {
	if strings.HasPrefix(s.raw, "${") && forms.ReferenceSize(s.raw) == len(s.raw) {
		name, byDefault := nameAndDefault(s.raw)
		return byDefault, name == s.key
	}
	return "", false
}

// serve reports whether a file sets a variable of Debezium Server; beside: one that stands beside a process.
func (v *variables) serve(beside bool) bool {
	for name, s := range v.given {
		if optionVariable().MatchString(name) && (s.beside || !beside) {
			return true
		}
	}
	return false
}

// get returns a variable as Debezium gets it. One that a file sets to itself is left to the environment.
func (v *variables) get(name string) (value string, set bool) {
	s := v.given[name]
	if s != nil {
		if _, itself := s.itself(); itself {
			s = v.plain[name]
		}
	}
	if s != nil {
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
	notInName          = lazyregexp.New(`[^A-Za-z0-9]`)
	optionVariable     = lazyregexp.New(`(?i)^(_[A-Z0-9]+_)?DEBEZIUM_(SOURCE|SINK|FORMAT|TRANSFORMS|PREDICATES)(_|$)`)
	kubernetesVariable = lazyregexp.New(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP)(_[A-Z]+)?)?)$`)
)
