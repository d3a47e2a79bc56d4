package debezium

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

// routerClasses are Debezium's outbox event routers.
func routerClasses() []string {
	return []string{"io.debezium.transforms.outbox.EventRouter", "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter"}
}

// routerClass is the outbox event router for this kind of database.
func (c *conversion) routerClass() string {
	if c.kind == mongodb {
		return routerClasses()[1]
	}
	return routerClasses()[0]
}

// router writes the options of the outbox event router.
func (c *conversion) router() {
	chain := c.take("transforms")
	c.aliases()
	if chain == nil {
		c.missing("transforms", "is missing: without %s there is no outbox to relay", c.routerClass())
		c.formats()
		return
	}
	found, renamed, before := "", false, len(c.problems) // renamed: in front of the router
	c.then = map[string]*setting{}
	for _, name := range commas(chain.value) {
		if chain.fault != "" {
			break // told by take
		}
		class := c.take("transforms." + name + ".type")
		switch {
		case class == nil:
			c.problems = append(c.problems, &Problem{of: chain, file: chain.file, line: chain.line, Key: chain.key, Value: name, Reason: "transform " + name + " has no option type: remove it from the list, or name its class"})
		case found != "" && c.reroutes(name, class):
		case !slices.Contains(routerClasses(), class.value):
			if passes, renames := c.passes(name, class, found != "", renamed); passes {
				renamed = renamed || renames
			} else {
				own := "; Debezium's outbox event router is " + c.routerClass()
				if c.routerName() != "" {
					own = ""
				}
				c.problem(class, "this transformation would change the messages, and is not built into tailbox: do without it, or keep Debezium for this outbox%s", own)
				c.ofRefused(name)
			}
		case found == name:
			c.problem(chain, "names %s twice, which Kafka Connect refuses: name it once", name)
		case found != "":
			c.problem(class, "is a second outbox event router: split the configuration, one pipeline a router")
			c.ofRefused(name)
		default:
			found = name
			c.ofDatabase(class)
			c.out.section(0, "router", class.key)
		}
	}
	if found != "" {
		switch {
		case c.kind == "mysql":
			c.out.note(1, "a column of type JSON: its text is MySQL's own, with a space behind : and , where Debezium writes none")
		case c.kind == mongodb && !c.settings["transforms."+found+".collection.expand.json.payload"].is("true"):
			c.out.note(1, "a payload that is a document: it is JSON in one line, as in 12; Debezium writes several lines, and {\"$numberInt\": \"12\"}")
		}
		given := c.routerOptions("transforms." + found + ".")
		for _, option := range slices.Sorted(maps.Keys(c.then)) {
			if s := c.then[option]; s != nil {
				c.out.set(1, option, quoted(s.value), "", s)
			}
		}
		c.rules("route.topic.", "transforms."+found+".route.topic.", given)
		c.predicate("transforms."+found+".", renamed)
	} else if len(c.problems) == before && chain.fault == "" {
		c.problem(chain, "names no transformation of class %s: without one there is no outbox to relay", c.routerClass())
	}
	c.formats()
}

// ofDatabase refuses a router that is made for another kind of database. Its options are then judged as those of the router that this one needs.
func (c *conversion) ofDatabase(class *setting) {
	plain, mongo := routerClasses()[0], routerClasses()[1]
	c.mongoRouter = class.value == mongo
	switch {
	case c.kind == "" || c.mongoRouter == (c.kind == mongodb):
		return
	case c.mongoRouter:
		c.problem(class, "is for MongoDB's documents: this database needs %s, with its options table.*", plain)
	default:
		c.problem(class, "stops Debezium at the first document, because it reads rows of a table: MongoDB needs %s", mongo)
	}
	c.mongoRouter = !c.mongoRouter
}

// routerName is the name of the outbox event router in the list of transformations; "" if there is none.
func (c *conversion) routerName() string {
	chain := c.settings["transforms"]
	if chain == nil {
		return ""
	}
	for _, name := range commas(chain.value) {
		if class := c.settings["transforms."+name+".type"]; class != nil && slices.Contains(routerClasses(), class.value) {
			return name
		}
	}
	return ""
}

// ofRefused lists the options of a transformation that is refused, and of its predicate, unless the router has the same one.
func (c *conversion) ofRefused(name string) {
	prefixes := []string{"transforms." + name + "."}
	router := c.settings["transforms."+c.routerName()+".predicate"]
	if s := c.settings["transforms."+name+".predicate"]; s != nil && !router.is(s.value) {
		prefixes = append(prefixes, "predicates."+s.value+".")
	}
	const why = "it is of the transformation that is refused"
	c.listAll(why, prefixes...)
	list := c.settings["predicates"]
	if list == nil || slices.ContainsFunc(commas(list.value), func(name string) bool { s := c.settings["predicates."+name+".type"]; return s == nil || s.idle != why }) {
		return
	}
	c.ignore(why, "predicates")
}

// listAll lists the options whose keys begin so as those that have no effect.
func (c *conversion) listAll(why string, prefixes ...string) {
	for _, key := range slices.Sorted(maps.Keys(c.settings)) {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			c.settings[key].used = true
			c.out.ignored(c.settings[key], why)
		}
	}
}

// passes lists a transformation that changes no message of the outbox, and its options. renames means that it names topics in front of the router.
func (c *conversion) passes(name string, class *setting, routed, renamed bool) (ok, renames bool) {
	var why string
	switch class.value {
	case regexRouter, byLogicalTableRouter:
		if renames = !routed; renames {
			why = "the outbox event router behind it names topic and key"
		}
	case extractNewState, "io.debezium.transforms.UnwrapFromEnvelope":
		if routed && !c.tombstones() {
			why = "it opens change events, and behind the outbox event router a message of the outbox is none. A message without a payload (NULL), which it may drop, is sent"
		}
	case schemaChangeFilter:
		why = "it drops schema changes, which are no messages of the outbox"
	case filter:
		why = "it drops nothing that the outbox sends"
	}
	if why == "" {
		return false, false
	}
	if c.routerName() == "" {
		why = "there is no outbox event router, whose messages it could change"
	}
	p, defined := c.predicateOf("transforms." + name + ".")
	if !defined {
		return true, renames
	}
	if class.value == filter && !c.dropsNone(p, routed, renamed) {
		return false, false
	}
	c.listAll(why, "transforms."+name+".")
	return true, renames
}

// reroutes writes the options of a RegexRouter behind the router, which names the topic anew. Of several, only one is built in.
func (c *conversion) reroutes(name string, class *setting) bool {
	const regex, replacement = "route.topic.then.regex", "route.topic.then.replacement"
	switch class.value {
	case regexRouter, "io.confluent.connect.cloud.transforms.TopicRegexRouter":
	default:
		return false
	}
	if _, second := c.then[regex]; second {
		return false
	}
	prefix := "transforms." + name + "."
	for option, of := range map[string]string{regex: "regex", replacement: "replacement"} {
		c.then[option] = c.take(prefix + of)
		if c.then[option] == nil {
			c.problems = append(c.problems, &Problem{file: class.file, line: class.line, Key: c.prefixed(prefix + of), Reason: "is missing: Debezium does not start without it"})
		}
	}
	if c.then[regex] != nil && c.then[replacement] != nil {
		c.rules("route.topic.then.", prefix, c.then)
	}
	if predicate := c.take(prefix + "predicate"); predicate != nil {
		c.problem(predicate, "tailbox renames the topics of all messages: do without this predicate, or let the regular expression match what the predicate names")
	}
	c.take(prefix + "negate")
	return true
}

// rules refuses options that tailbox's router does not take, such as a replacement that names a group which the regular expression lacks: Debezium stops
// at the first message then. given are the options by the router's names. rule begins the names of those that make the topic, and key is that of Debezium's.
func (c *conversion) rules(rule, key string, given map[string]*setting) {
	options := router.Options{}
	for name, s := range given {
		if s.fault != "" {
			return // take told it
		}
		options[name] = s.value
		if reference().MatchString(s.value) {
			now, fault := c.resolve(s.key, s.raw, true)
			if fault != "" {
				now = reference().ReplaceAllString(s.value, "") // it may hold anything
			}
			options[name] = now
		}
	}
	if part := javaOnly(options[rule+"regex"]); part != "" {
		c.problem(given[rule+"regex"], "cannot be read: it holds %s, which Java reads in another way than tailbox: write it in Go's syntax (RE2)", part)
		return
	}
	shape, _ := outbox.ShapeNamed("debezium")
	_, err := router.New(router.Config{Tables: []outbox.Table{{Shape: shape.Name, Columns: shape.Columns}}, Options: options, Sinks: []string{"any"}})
	problems, _ := errors.AsType[router.Problems](err)
	for _, p := range problems {
		name, reason := p.Path[len(p.Path)-1], p.Reason
		switch {
		case strings.HasPrefix(reason, "read regular expression"):
			reason += ": write it in Go's syntax (RE2)"
		case strings.HasPrefix(name, rule) && !strings.Contains(reason, ": "):
			reason += ": name a group that it has"
			if !c.toKafka() {
				reason += `, or write \$ for a literal $`
			}
		}
		if s := given[name]; s != nil {
			c.problem(s, "%s", reason)
		} else {
			c.missing(key+strings.TrimPrefix(name, rule), "is missing, and its default, %s, %s", p.Value, reason)
		}
	}
	if variable := reference().FindString(options[rule+"replacement"]); err == nil && variable != "" {
		c.problem(given[rule+"replacement"], "tailbox.yaml takes %s for a variable of the environment: write the group's number, as in $1, or give it a name in small letters; or write the value if something else fills it in before", variable)
	}
}

// tombstones reports whether the router makes some, which a transformation behind it may drop.
func (c *conversion) tombstones() bool {
	for key, s := range c.settings {
		if strings.HasSuffix(key, ".route.tombstone.on.empty.payload") && strings.EqualFold(s.value, "true") {
			return true
		}
	}
	return false
}

// ofFirst reports whether a configuration is one of Debezium 1, because its list of tables has its old name and it has no topic.prefix.
func (c *conversion) ofFirst() bool {
	return c.settings["source.table.whitelist"] != nil && c.settings["source.topic.prefix"] == nil
}

// noOption is why an option has no effect that Debezium does not have.
const noOption = "the outbox event router of Debezium 3.6 has no such option, and ignores it as well"

// routerOptions writes the options of the router, and returns them by its own names.
func (c *conversion) routerOptions(prefix string) map[string]*setting {
	given := map[string]*setting{}
	var adjusts *setting
	c.options = map[string]string{}
	for _, key := range c.keys(prefix) {
		name := strings.TrimPrefix(key, prefix)
		if name == "predicate" || name == "negate" {
			continue
		}
		if c.renamed(prefix, name) {
			continue
		}
		if name != "field.name.adjustment.mode" && name != "drop.fields.header.name" && !c.routerKnows(name) {
			c.ignore(noOption, key)
			continue
		}
		s := c.take(key)
		if name == "field.name.adjustment.mode" && !s.is("none") {
			adjusts = s
			continue
		}
		if name == "field.name.adjustment.mode" || name == "drop.fields.header.name" {
			c.out.ignored(s, "it changes nothing in an outbox event")
			continue
		}
		canonical := strings.Replace(name, "collection.", "table.", 1)
		note := ""
		if canonical == "table.op.invalid.behavior" && s.is("fatal") {
			note = "Debezium stops at an update of the outbox; tailbox logs it and goes on"
		}
		switch {
		case s.fault != "":
		case canonical == "table.field.event.schema.version":
			c.options[canonical] = s.value
			c.out.ignored(s, "no schema version is sent")
			continue
		case canonical == "table.fields.additional.placement":
			s.value = colons().ReplaceAllString(strings.TrimRight(s.value, ","), "$1") // Java's split drops empty parts at the end
		case s.value == "" && name == "route.topic.replacement":
			c.problem(s, "is empty, and so is every topic: remove the option, if its default is what you want")
		case !ofColumns().MatchString(name) && containsFold(choices(), s.value):
			s.value = strings.ToLower(s.value)
		}
		if canonical == "table.field.event.type" && s.value != "type" {
			note = "Debezium does not read it; remove the line if the table has no such column"
			if err := c.describeTables(); err == nil && !c.columns.blind && !c.columns.has(s.value) {
				c.out.ignored(s, "Debezium does not read it, and the table has no such column")
				continue
			}
		}
		given[canonical], c.options[canonical] = s, s.value
		if canonical == "table.fields.additional.placement" {
			c.placements = s
		}
		if c.placements == s && slices.ContainsFunc(c.headers(), func(header placement) bool { return header.as == "id" }) {
			c.out.note(1, "two headers are named id, as in Debezium: the first holds the message's id, by which consumers drop duplicates")
		}
		c.out.set(1, name, quoted(s.value), note, s)
	}
	switch {
	case adjusts == nil:
	case c.expands():
		c.problem(adjusts, "changes the names in an expanded payload, and is not built into tailbox: set it to none once what reads the messages takes them so")
	default:
		c.out.ignored(adjusts, "no payload is expanded, whose names it would change")
	}
	c.traced()
	if c.kind == mongodb { // its router drops nothing
		return given
	}
	for _, name := range []string{"table.json.payload.null.behavior", "table.json.payload.empty.array.behavior"} {
		if _, set := c.options[name]; c.expands() && !set {
			c.out.set(1, name, "ignore", "Debezium's default; remove the line to keep them")
		}
	}
	return given
}

// ofColumns is an option whose value is a text of the user's, such as the name of a column.
var ofColumns = lazyregexp.New(`\.event\.|^route\.(by|topic)\.|placement$|^tracing\.(span|operation)\.`)

// colons are those that an entry of a placement ends in.
var colons = lazyregexp.New(`:+(,|$)`)

// choices are the values of options that have only some, in whatever case Debezium takes them.
func choices() []string {
	return []string{"true", "false", "warn", "error", "fatal", "ignore", "optional_bytes", "optional_string"}
}

// aliases writes the classes in full that Kafka Connect takes by their last part too.
func (c *conversion) aliases() {
	for key, s := range c.settings {
		if c.server || !strings.HasSuffix(key, ".type") || !strings.HasPrefix(key, "transforms.") && !strings.HasPrefix(key, "predicates.") {
			continue
		}
		for _, class := range append(routerClasses(), regexRouter, filter, byLogicalTableRouter, extractNewState, schemaChangeFilter, topicNameMatches, recordIsTombstone) {
			if strings.HasSuffix(class, "."+s.value) && !strings.Contains(s.value, ".") {
				s.value = class
			}
		}
	}
}

// routerKnows reports whether the router has an option. That of MongoDB has names of its own for what is about the table.
func (c *conversion) routerKnows(name string) bool {
	const table, collection, behavior = "table.", "collection.", "table.op.invalid.behavior"
	switch {
	case strings.HasPrefix(name, "format."), strings.HasPrefix(name, "route.topic.then."), c.mongoRouter && strings.HasPrefix(name, table) && name != behavior, !c.mongoRouter && strings.HasPrefix(name, collection):
		return false
	}
	return isRouterOption(name)
}

// isRouterOption reports whether a router, whichever it is, has an option.
func isRouterOption(name string) bool {
	return slices.Contains(router.OptionNames(), strings.Replace(name, "collection.", "table.", 1))
}

// formats writes format.key, format.value and format.header.
func (c *conversion) formats() {
	for _, part := range []string{"key", "value", "header"} {
		if c.server {
			c.serverFormat(part)
		} else {
			c.connectFormat(part)
		}
	}
}

// asText refuses a converter that writes the text of Java's object in place of a payload with fields.
func (c *conversion) asText(part string, s *setting) {
	what, fix := "", ""
	switch {
	case part != "value" || s == nil:
	case c.expands():
		what = "expanded payload"
		if c.kind == mongodb {
			fix = "; or remove collection.expand.json.payload if all payloads are texts, which Debezium does not expand"
		}
	case c.envelops():
		what = "envelope"
	}
	if what != "" {
		c.problem(s, "has Debezium write an %s as Struct{name=value}, which is no JSON, and which tailbox does not write: set it to JSON without schemas once what reads the messages takes that%s", what, fix)
	}
}

func (c *conversion) serverFormat(part string) {
	key := "format." + part
	if part == "key" && c.keyless() {
		c.ignore("this sink sends no key", append(c.keys(key+"."), key)...)
		return
	}
	format := c.text(key, "json")
	if class := c.take(key + ".class"); class != nil {
		if s := c.settings[key]; s != nil {
			c.out.ignored(s, c.prefixed(key)+".class names the converter")
		}
		c.converter(part, key, class)
		return
	}
	if part == "header" && (format.value == "simplestring" || format.value == "binary") {
		c.out.note(1, c.prefixed(key)+": Debezium 3.6 does not start with this format of headers")
	}
	switch format.value {
	case "json", "jsonbytearray":
		c.json(part, key, c.schemas(key), format)
	case "simplestring":
		c.asText(part, c.settings[key])
		c.out.set(1, key, format.value, "", format)
	case "binary":
		c.binary(part, key, format)
	default:
		c.problem(format, "this format is not built into tailbox: set it to json with %s.schemas.enable=false, or to simplestring or binary, which pass on the column's bytes", format.key)
		c.ignore("it is of the format that is refused", c.keys(key+".")...)
	}
	c.converterOptions(key)
}

func (c *conversion) connectFormat(part string) {
	key := part + ".converter"
	s := c.take(key)
	if s == nil {
		if part == "header" {
			return // SimpleHeaderConverter: the text
		}
		c.problems = append(c.problems, &Problem{Key: key, Reason: "is missing, so that the worker's counts: name the worker's file too (its properties, .env or compose file, or KafkaConnect), or add the line to the connector"})
		return
	}
	c.converter(part, key, s)
}

// schemas takes the option that puts schemas around what a converter of JSON writes.
func (c *conversion) schemas(key string) *setting {
	if s := c.take(key + ".schemas.enable"); s != nil || !c.server {
		return s
	}
	return c.take("format.schemas.enable")
}

// converter writes the format of a converter whose class is given.
func (c *conversion) converter(part, key string, s *setting) {
	class, meant := classOf(s.value, "Converter", stringConverter, byteArrayConverter, jsonConverter, binaryDataConverter, byteBufferConverter, byteArraysConverter)
	if class == "" && meant == "" {
		class, meant = classOf(s.value, "HeaderConverter", simpleHeaderConverter)
	}
	switch class {
	case stringConverter, simpleHeaderConverter:
		c.asText(part, s)
		c.out.set(1, "format."+part, "simplestring", "", s)
	case byteArrayConverter:
		c.asBytes(part, s)
	case binaryDataConverter, byteBufferConverter, byteArraysConverter:
		c.binary(part, key, s)
	case jsonConverter:
		c.json(part, key, c.schemas(key), s)
	default:
		if meant != "" {
			c.problem(s, otherPackage, meant)
			c.ignore("it is of the converter that is refused", c.keys(key+".")...)
			break
		}
		c.problem(s, "this converter is not built into tailbox: use org.apache.kafka.connect.json.JsonConverter with %s.schemas.enable=false, or "+
			"org.apache.kafka.connect.storage.StringConverter or io.debezium.converters.BinaryDataConverter, which pass on the column's bytes", c.prefixed(key))
		c.ignore("it is of the converter that is refused", c.keys(key+".")...)
	}
	c.converterOptions(key)
}
