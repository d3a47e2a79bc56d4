package debezium

import (
	"regexp"
	"slices"
	"strings"
)

// prefixes are the options that topics begin with, of this and of earlier versions.
func prefixes() []string {
	return []string{"source.topic.prefix", "source.database.server.name", "source.mongodb.name"}
}

// topicPrefix is what the topics of change events begin with; nil if nothing says it.
func (c *conversion) topicPrefix() *setting {
	for _, key := range prefixes() {
		if s := c.settings[key]; s != nil {
			return s
		}
	}
	return nil
}

// predicate checks that the router is applied to each table that is read: Debezium sends the changes of others as they are. renamed means that a
// transformation in front of the router names topics, so that the predicate sees other ones.
func (c *conversion) predicate(prefix string, renamed bool) {
	list := c.take("predicates")
	name, negate := c.take(prefix+"predicate"), c.take(prefix+"negate")
	if name == nil {
		if negate != nil {
			c.out.ignored(negate, "no predicate is named")
		}
		return
	}
	of := "predicates." + name.value + "."
	class, pattern := c.take(of+"type"), c.take(of+"pattern")
	for _, key := range c.keys(of) {
		c.settings[key].used = true
	}
	if name.fault != "" || pattern != nil && pattern.fault != "" {
		return // told by take
	}
	if list == nil || !slices.Contains(commas(list.value), name.value) || class == nil {
		c.problem(name, "is not defined, so that Debezium cannot run: name it in predicates, and its class in predicates.%s.type; or remove this option if the router is to be applied to each table", name.value)
		return
	}
	if class.value != topicNameMatches || pattern == nil || renamed {
		c.problem(name, "tailbox evaluates only "+topicNameMatches+" with a pattern, and only if no transformation in front of the router names topics: "+
			"remove this option if the router is applied to each table of table.include.list")
		return
	}
	re, err := regexp.Compile(`^(?:` + pattern.value + `)$`)
	if err != nil {
		c.problem(pattern, "cannot be read: %v: write it in Go's syntax (RE2)", err)
		return
	}
	for _, table := range c.tables {
		topic := c.topicOf(table)
		if topic == "" {
			c.problem(name, "tailbox does not know the topics that this predicate sees, because of topic.naming.strategy: remove this option if the router is applied to each table of table.include.list")
			return
		}
		if re.MatchString(topic) == negate.is("true") {
			c.problem(name, "does not apply the outbox event router to table %s, whose topic is %s, so that Debezium sends its changes as they are: take the table out of table.include.list, "+
				"and keep Debezium for it; if it is an outbox, let the predicate choose that topic", table, topic)
		}
	}
	for _, s := range []*setting{name, negate} {
		if s != nil {
			c.out.ignored(s, "nothing but the tables of table.include.list is read, and the router is applied to each of them")
		}
	}
}

// notInTopic is what Debezium replaces in the name of a topic.
var notInTopic = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// topicOf is the topic that a table's changes have in front of the router; "" if an own strategy names it.
func (c *conversion) topicOf(table string) string {
	delimiter, topic := ".", table
	if s := c.settings["source.topic.naming.strategy"]; s != nil && s.value != "io.debezium.schema.SchemaTopicNamingStrategy" && s.value != "io.debezium.schema.DefaultTopicNamingStrategy" {
		return ""
	}
	if s := c.settings["source.topic.delimiter"]; s != nil {
		delimiter = s.value
	}
	if prefix := c.topicPrefix(); prefix != nil {
		topic = prefix.value + delimiter + strings.Replace(table, ".", delimiter, 1)
	}
	return notInTopic.ReplaceAllString(topic, "_")
}
