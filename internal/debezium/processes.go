package debezium

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
	"github.com/tailbox/tailbox/router"
)

// compose reads the environment of the services that are Debezium's.
func (c *conversion) compose(l *layer, file *forms.Tree) {
	if file.Get("include") != nil {
		c.out.ignored(&setting{key: "include"}, "its files are not read: give each one that has a part of Debezium or of its worker beside this file")
	}
	for _, service := range file.Get("services").Fields {
		var given []*setting
		add := func(key string, value *forms.Tree) {
			s := &setting{key: key, file: l.name, line: value.Line, raw: "${" + key + "}"} // without a value, that of whoever starts it
			if value.Kind == forms.Scalar {
				s.dollars, s.raw = "$$$$", value.Text
			}
			s.raw = c.ofCompose(s, s.raw)
			given = append(given, s)
		}
		if environ := service.Value.Get("environment"); environ != nil {
			for _, f := range environ.Fields {
				add(f.Key, f.Value)
			}
			for _, item := range environ.Items {
				key, value, ok := strings.Cut(item.Text, "=")
				t := &forms.Tree{Text: value, Line: item.Line}
				if !ok {
					t.Kind = forms.Null
				}
				add(key, t)
			}
		}
		c.process(l, given, service.Value, "services."+service.Key+".", "env_file", "path", "give NAME beside this file, or remove this if Debezium uses no variable of it")
	}
}

// ofCompose writes the references of compose in a text as Debezium Server has them. Compose fills in what a .env file sets; a secret stays a reference.
func (c *conversion) ofCompose(s *setting, text string) string {
	return eachReference(text, interpolate(), func(ref string) string {
		m := composed().FindStringSubmatch(strings.TrimSuffix(ref, "}"))
		switch {
		case ref == "$$":
			return "$"
		case m == nil:
			return ref
		case strings.HasSuffix(m[2], "+"):
			c.problems = append(c.problems, &Problem{of: s, file: s.file, line: s.line, Key: s.key, Reason: ref + " is not read: write the value"})
			return ref
		}
		if given := c.variables.plain[m[1]]; given != nil && (given.raw != "" || !strings.HasPrefix(m[2], ":")) && !ofSecret(m[1], s, ref) {
			c.variables.use(m[1], s)
			return given.raw
		}
		if strings.HasSuffix(m[2], "-") {
			return "${" + m[1] + ":" + c.ofCompose(s, m[3]) + "}"
		}
		return "${" + m[1] + "}"
	})
}

// containers reads the environment of the containers of Kubernetes that are Debezium's.
func (c *conversion) containers(l *layer, all *forms.Tree) {
	if all == nil {
		return
	}
	for _, container := range all.Items {
		given := variablesOf(l, container)
		c.process(l, given, container, "", "envFrom", "name", "give NAME, with its values in clear text, beside this file, or remove this if Debezium uses none of them")
	}
}

// variablesOf returns the variables of a container.
func variablesOf(l *layer, container *forms.Tree) (given []*setting) {
	environ := container.Get("env")
	if environ == nil {
		return nil
	}
	for _, item := range environ.Items {
		s := &setting{key: item.Is("name"), file: l.name, line: item.Line, dollars: "$$$$"}
		s.raw = dependent().ReplaceAllStringFunc(item.Is("value"), func(ref string) string {
			if ref == "$$" {
				return "$"
			}
			return "${" + ref[2:len(ref)-1] + "}"
		})
		if item.Get("valueFrom") != nil {
			s.raw = "${" + s.key + "}" // from a secret, say
		}
		given = append(given, s)
	}
	return given
}

// ofKsql has the variables of a worker inside ksqlDB the names that those of other workers have.
func ofKsql(given []*setting) {
	for _, s := range given {
		if name, ours := strings.CutPrefix(s.key, "KSQL_CONNECT_"); ours {
			s.key = "CONNECT_" + name
		}
	}
}

// process takes the variables of a service or a container, which stands at a place in its file, if that is Debezium's. Others that it has under a key are not read.
func (c *conversion) process(l *layer, given []*setting, of *forms.Tree, place, others, field, fix string) {
	ofKsql(given)
	server, worker := serves(given), works(given) || slices.ContainsFunc(given, func(s *setting) bool {
		return ofConverter(workerOption(s.key)) || imageName().MatchString(of.Is("image")) && slices.Contains(imageVariables(), s.key)
	})
	if !server && !worker && !mayRun(of.Is("image")) {
		return
	}
	c.unreadPart(l, place+others, of.Get(others), field, fix)
	c.unreadPart(l, place+"extends", of.Get("extends"), "", "give what `docker compose config` prints")
	c.unreadCommand(l, of, place)
	c.unreadMounts(l, of, place)
	if !server && inImage(of.Is("image"), given) {
		c.defaultsIn = debeziumsImage
	}
	if worker && !server {
		c.environWorker(l, given, true)
		return
	}
	c.environ(l, given, true)
}

// debeziumImage is the name of an image that may run Debezium: one of it, or Confluent's of Kafka Connect. besideImage is that of one which runs beside it, such
// as debezium/example-postgres.
var (
	debeziumImage = lazyregexp.New(`debezium|\bcp-(?:kafka|server)-connect`)
	runningImage  = lazyregexp.New(`(?:server|connect)[^/]*$`)
	besideImage   = lazyregexp.New(`(?:^|/)debezium/|(?:postgres|mysql|maria|mongo|kafka|zookeeper)[^/]*$`)
)

// mayRun reports whether an image may run Debezium.
func mayRun(image string) bool {
	return debeziumImage().MatchString(image) && (runningImage().MatchString(image) || !besideImage().MatchString(image))
}

// imageName is the name of Debezium's image of Kafka Connect, in whatever registry.
var imageName = lazyregexp.New(`(?:^|/)debezium/connect(?:-base)?(?:[:@]|$)`)

// inImage reports whether a worker runs in Debezium's image, or in one built on it: no worker starts without a topic for its configurations, and only the
// script of that image takes the topic's name from a variable without CONNECT_ in front.
func inImage(image string, given []*setting) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(given, func(s *setting) bool { return s.key == name })
	}
	return imageName().MatchString(image) || has(configTopic) && !has("CONNECT_"+configTopic) && inOne(given) == ""
}

// configTopic is the variable of the topic that a worker keeps its configurations in.
const configTopic = "CONFIG_STORAGE_TOPIC"

// debeziumsImage has its script overwrite what variables with CONNECT_ in front set.
const debeziumsImage = "Debezium's image"

// converterDefaults makes the worker's converters those that Debezium's image or Strimzi has if nothing names them.
func (c *conversion) converterDefaults() {
	for _, converter := range []string{"key.converter", "value.converter"} {
		s, name := c.settings[converter], converter
		if c.defaultsIn == "" || s != nil && s.raw != "" {
			continue
		}
		if s != nil {
			c.out.ignored(s, "it is empty, so that its default in "+c.defaultsIn+" counts")
		}
		if c.defaultsIn == debeziumsImage {
			name = variableOf(converter)
		}
		c.settings[converter] = &setting{key: "the default of " + name + " in " + c.defaultsIn, raw: jsonConverter}
	}
}

// inCommand is an option of Debezium Server in a command.
var inCommand = lazyregexp.New(systemProperty + `|(?i)\b(?:_[A-Z0-9]+_)?DEBEZIUM_(?:SOURCE|SINK|FORMAT|TRANSFORMS|PREDICATES)_\w+=`)

// unreadCommand refuses options that the command of a process sets.
func (c *conversion) unreadCommand(l *layer, of *forms.Tree, place string) {
	for _, key := range []string{"command", "args", "entrypoint"} {
		command := of.Get(key)
		if command == nil {
			continue
		}
		command.Walk(func(t *forms.Tree) {
			if found := inCommand().FindString(t.Text); found != "" {
				c.problems = append(c.problems, &Problem{file: l.name, line: t.Line, Key: place + key, Value: found,
					Reason: "sets an option in the command, which is not read: give the option in a file or as a variable, and take it out of the command"})
			}
		})
	}
}

// mountedOptions is where Debezium Server finds its options in its image, as the target of a mount.
var mountedOptions = lazyregexp.New(`(?:^|:)/debezium/conf(?:ig)?/?(?:application\.(?:properties|ya?ml))?(?::|$)`)

// unreadMounts reports mounts that bring options of Debezium Server if no such file is given.
func (c *conversion) unreadMounts(l *layer, of *forms.Tree, place string) {
	for _, key := range []string{"volumes", "volumeMounts", "configs"} {
		mounts := of.Get(key)
		if mounts == nil {
			continue
		}
		for _, mount := range mounts.Items {
			if target := cmp.Or(mount.Text, mount.Is("target"), mount.Is("mountPath")); mountedOptions().MatchString(target) {
				c.wanted = append(c.wanted, wanted{"", &Problem{file: l.name, line: mount.Line, Key: place + key, Value: target,
					Reason: "is not read: give the application.properties that is mounted there beside this file, or remove this if there is none"}})
			}
		}
	}
}

// workerOption is the option of Kafka Connect's worker that a variable is named after.
func workerOption(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", ".")) }

// ofConverter reports whether an option chooses a converter, or belongs to one.
func ofConverter(option string) bool {
	return slices.Contains(converters(), option) || converterOf(option) != ""
}

// serves reports whether variables are those of a Debezium Server, and works whether they are those of a worker of Kafka Connect.
func serves(given []*setting) bool {
	return slices.ContainsFunc(given, func(s *setting) bool {
		return optionVariable().MatchString(s.key) || strings.HasPrefix(s.key, serverPrefix)
	})
}

func works(given []*setting) bool {
	return slices.ContainsFunc(given, func(s *setting) bool { return certain(s.key) })
}

// certain reports whether a variable is a worker's: one that a worker needs, or that changes messages. Others with CONNECT_ in front may be those of a
// process that talks to a worker, such as CONNECT_URL.
func certain(name string) bool {
	option, ours := strings.CutPrefix(name, "CONNECT_")
	if !ours {
		return slices.Contains([]string{configTopic, "KEY_CONVERTER", "VALUE_CONVERTER", apicurio, "KAFKA_CONNECT_CONFIGURATION"}, name)
	}
	key := workerOption(option)
	return slices.Contains(imageVariables(), option) || ofConverter(key) || ofWorker(key) || option == "CONFIGURATION" || option == advertisedHost
}

// advertisedHost is the rest of the name of a variable that Confluent's image does not start without. It has another value in each worker of a group.
const advertisedHost = "REST_ADVERTISED_HOST_NAME"

// imageVariables are those that Debezium's image takes without CONNECT_ in front, too.
func imageVariables() []string {
	return []string{"BOOTSTRAP_SERVERS", "KEY_CONVERTER", "VALUE_CONVERTER", "GROUP_ID", configTopic, "OFFSET_STORAGE_TOPIC", "STATUS_STORAGE_TOPIC"}
}

// groupVariable is the variable of a worker's group, with its value.
var groupVariable = lazyregexp.New(`^(?:CONNECT_)?GROUP_ID=.|CONNECT_CONFIGURATION=`)

// deciding returns those variables of a worker, with their values, that are the same in each worker of a group, sorted.
func deciding(given []*setting) []string {
	all := []string{}
	for _, s := range given {
		if name := strings.TrimPrefix(s.key, "KAFKA_"); slices.Contains(imageVariables(), name) || certain(name) && !strings.HasSuffix(name, advertisedHost) {
			all = append(all, s.key+"="+s.raw)
		}
	}
	slices.Sort(all)
	return all
}

// environ takes the variables of one process: options of Debezium Server, or of a worker of Kafka Connect. All others may be referred to. Those of a .env file
// add up to those that stand beside a process.
func (c *conversion) environ(l *layer, given []*setting, beside bool) {
	ofKsql(given)
	if beside && serves(given) && c.variables.serve(true) {
		c.form(l, "it has the variables of a second Debezium Server: give those of one")
		return
	}
	if works(given) {
		c.environWorker(l, given, beside)
		return
	}
	for _, s := range given {
		if strings.HasPrefix(s.key, serverPrefix) {
			l.settings = append(l.settings, s)
		} else if idle := c.variables.give(s, beside); idle != nil {
			c.out.ignored(&setting{key: "$" + idle.key}, setAgain(idle.file, s.file))
		}
	}
}

// environWorker takes the variables of a worker of Kafka Connect. A second worker of the same group with the same options is the same one.
func (c *conversion) environWorker(l *layer, given []*setting, beside bool) {
	if beside {
		options := deciding(given)
		switch {
		case c.worked == nil:
			c.worked = options
		case slices.Equal(options, c.worked) && slices.ContainsFunc(options, groupVariable().MatchString):
			c.out.ignored(&setting{key: "another worker of Kafka Connect"}, "it has the group and the options of the one before")
			return
		default:
			c.form(l, "it has the variables of a second worker of Kafka Connect: give those of one")
			return
		}
	}
	for _, s := range given {
		if !optionVariable().MatchString(s.key) {
			c.variables.give(s, beside)
		}
	}
	own := &layer{name: l.name}
	if prefix := inOne(given); prefix != "" {
		own.settings = c.unpacked(given, prefix, beside)
	} else {
		own.settings = c.eachVariable(given, beside)
	}
	if c.layers = append(c.layers, own); !beside { // those beside a process count before it
		c.layers = append([]*layer{own}, c.layers[:len(c.layers)-1]...)
	}
}

// eachVariable returns the options of a worker that takes each from a variable of its own.
func (c *conversion) eachVariable(given []*setting, beside bool) (own []*setting) {
	var avro []*setting
	for _, s := range given {
		option, ours := strings.CutPrefix(s.key, "CONNECT_")
		if s.key == apicurio && s.raw != "" {
			for _, converter := range []string{"key.converter", "value.converter"} {
				avro = append(avro, &setting{key: converter, raw: "io.apicurio.registry.utils.converter.AvroConverter", file: s.file, line: s.line})
			}
		}
		if !ours && !slices.Contains(imageVariables(), option) {
			switch {
			case ofConverter(workerOption(option)):
				c.out.ignored(&setting{key: "$" + s.key}, "Debezium's image takes this option only from CONNECT_"+s.key+": if yours takes it from this variable, rename it in the file that is imported")
			case traces(s) && c.tracer != nil:
				c.out.ignored(&setting{key: "$" + s.key}, "$"+c.tracer.key+" has the same effect")
			case traces(s):
				c.tracer = s
			case beside && s.key != apicurio:
				c.out.ignored(&setting{key: "$" + s.key}, changesNothing)
			}
			continue // a connector may refer to it
		}
		worker := &setting{key: workerOption(option), raw: c.ofConnect(s.raw), file: s.file, line: s.line, origin: s}
		if ours && (option == "KEY_CONVERTER" || option == "VALUE_CONVERTER") {
			worker.overwritten = s.key
		}
		own = append(own, worker)
	}
	return append(own, avro...)
}

// changesNothing is why a variable of a worker has no effect.
const changesNothing = "it sets no option that changes the messages"

// ofConnect writes references as Kafka Connect has them: one stays a reference to the environment. A default decides now.
func (c *conversion) ofConnect(raw string) string {
	return eachReference(raw, expression(), func(ref string) string {
		if ref == "$$" {
			return ref
		}
		name, byDefault := nameAndDefault(ref)
		value, set := c.variables.environment(name)
		switch {
		case c.variables.plain[name] != nil: // a secret, which stays a reference
		case set:
			return value
		case byDefault != "":
			return c.ofConnect(byDefault[1:])
		}
		return "${env:" + name + "}"
	})
}

// inOne returns what the names of variables begin with if one of them, CONFIGURATION, holds the properties of a worker: the images of Strimzi and Redpanda
// have such. "" if there is none.
func inOne(given []*setting) string {
	for _, s := range given {
		if prefix, ok := strings.CutSuffix(s.key, "CONFIGURATION"); ok && (prefix == "KAFKA_CONNECT_" || prefix == "CONNECT_") {
			return prefix
		}
	}
	return ""
}

// loginVariable is the rest of the name of a variable, of such an image, that secures the connection of producers too.
var loginVariable = lazyregexp.New(`^(?:TLS|TRUSTED_CERTS|SASL|OAUTH)(?:_|$)`)

// unpacked returns the options of a worker whose properties stand in one variable.
func (c *conversion) unpacked(given []*setting, prefix string, beside bool) (own []*setting) {
	for _, s := range given {
		name, ours := strings.CutPrefix(s.key, prefix)
		switch {
		case ours && name == "BOOTSTRAP_SERVERS": // the image writes it in front of the properties, which count before it
			own = slices.Insert(own, 0, &setting{key: "bootstrap.servers", raw: c.ofConnect(s.raw), file: s.file, line: s.line})
		case ours && name == "CONFIGURATION":
			for _, p := range router.ParseProperties([]byte(c.ofConnect(s.raw))) {
				own = append(own, &setting{key: p.Key, raw: p.Value, file: s.file, line: s.line})
			}
		case ours && loginVariable().MatchString(name) && s.raw != "" && s.raw != "false":
			c.problems = append(c.problems, &Problem{file: s.file, line: s.line, Key: "$" + s.key,
				Reason: "is not read: write producer.security.protocol, producer.sasl.* and producer.ssl.* into " + prefix + "CONFIGURATION, and remove it"})
		case beside:
			c.out.ignored(&setting{key: "$" + s.key}, changesNothing)
		}
	}
	return own
}

// apicurio is the variable by which Debezium's image makes Apicurio's the worker's converters, whatever other variables say.
const apicurio = "APICURIO_REGISTRY"
