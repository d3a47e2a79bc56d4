package debezium

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// prefixes are the options that topics begin with, of this and of earlier versions.
func prefixes() []string {
	return []string{"source.topic.prefix", "source.database.server.name", "source.mongodb.name"}
}

// topicPrefix takes what the topics of change events begin with; nil if nothing says it.
func (c *conversion) topicPrefix() *setting {
	for _, key := range prefixes() {
		if s := c.take(key); s != nil {
			return s
		}
	}
	return nil
}

// A predicate decides which records a transformation is applied to.
type predicate struct {
	name, negate *setting
	class        string
	// topics is the pattern of topics, nil if the predicate has none.
	topics *regexp.Regexp
}

// predicateOf takes the predicate of a transformation, nil if there is none. If it is wrong, predicateOf reports that, and ok is false.
func (c *conversion) predicateOf(prefix string) (p *predicate, ok bool) {
	name, negate := c.take(prefix+"predicate"), c.take(prefix+"negate")
	switch {
	case name == nil && negate != nil && !c.server:
		c.problem(negate, "Kafka Connect does not start with it, because no predicate is named: remove it, or name the predicate in %spredicate", prefix)
		return nil, false
	case name == nil && negate != nil:
		c.out.ignored(negate, "no predicate is named")
	}
	if name == nil {
		return nil, true
	}
	of := "predicates." + name.value + "."
	list, class, pattern := c.take("predicates"), c.take(of+"type"), c.take(of+"pattern")
	for _, key := range c.keys(of) {
		c.settings[key].used = true
	}
	if name.fault != "" || pattern != nil && pattern.fault != "" {
		return nil, false // take reports it
	}
	if list == nil || !slices.Contains(commas(list.value), name.value) || class == nil {
		c.problem(name, "is not defined, so that Debezium cannot run: name it in predicates, and its class in predicates.%s.type; or remove this option if the transformation is to be applied to each table", name.value)
		return nil, false
	}
	p = &predicate{name: name, negate: negate, class: class.value}
	if p.class == topicNameMatches && pattern != nil {
		re, err := compile("", pattern.value)
		if err != nil {
			c.problem(pattern, "cannot be read: %v: write it in Go's syntax (RE2)", err)
			return nil, false
		}
		if prefix := c.topicPrefix(); prefix != nil && prefix.fault != "" {
			return nil, false // take reports it
		}
		p.topics = re
	}
	return p, true
}

// ofItsOwn is how Debezium goes on with other tables: tailbox takes the place of a whole connector, with its slot or its position.
const ofItsOwn = "keep this connector for it: start a second one for the outbox alone, without this predicate, with another name, topic.prefix and slot.name, and snapshot.mode=no_data, while this one runs; " +
	"then take the outbox out of this one's table.include.list, stop the second, and import that"

// lets reports whether a predicate lets a transformation see the inserts of a table. ok is false if tailbox cannot evaluate it.
func (c *conversion) lets(p *predicate, table string) (yes, ok bool) {
	if p.class == recordIsTombstone {
		return p.negate.is("true"), true
	}
	if p.topics == nil {
		return false, false
	}
	topic := c.topicOf(table)
	return p.topics.MatchString(topic) != p.negate.is("true"), topic != ""
}

// predicate checks that the router is applied to each table that is read: Debezium sends the changes of others as they are. renamed means that a
// transformation in front of the router names topics, so that the predicate sees other ones.
func (c *conversion) predicate(prefix string, renamed bool) {
	p, ok := c.predicateOf(prefix)
	if p == nil || !ok {
		return
	}
	noTombstones := p.class == recordIsTombstone && p.negate.is("true")
	if noTombstones && !c.settings["source.tombstones.on.delete"].is("false") {
		c.problem(p.name, "does not apply the router to tombstones, so that Debezium sends the tombstones of deleted rows as they are: set tombstones.on.delete to false")
		return
	}
	if (p.topics == nil || renamed) && !noTombstones {
		c.problem(p.name, "tailbox evaluates only "+topicNameMatches+" with a pattern, and only if no transformation in front of the router names topics: "+
			"remove this option if the router is applied to each table of table.include.list")
		return
	}
	for _, table := range c.tables {
		switch yes, ok := c.lets(p, table); {
		case !ok:
			c.problem(p.name, "tailbox does not know the topics that this predicate sees, because of topic.naming.strategy: remove this option if the router is applied to each table of table.include.list")
			return
		case !yes:
			c.problem(p.name, "does not apply the outbox event router to table %s, whose topic is %s, so that Debezium sends its changes as they are: if it is an outbox, let the predicate choose that topic; "+
				"else "+ofItsOwn, table, c.topicOf(table))
		}
	}
	for _, s := range []*setting{p.name, p.negate} {
		if s != nil {
			c.out.ignored(s, "nothing but the tables of table.include.list is read, and the router is applied to each of them")
		}
	}
}

// dropsNone reports whether a Filter with this predicate drops no record of the outbox. routed means that it stands behind the router, whose topics no
// predicate is evaluated for, and renamed that another transformation names topics in front of it.
func (c *conversion) dropsNone(p *predicate, routed, renamed bool) bool {
	if p == nil || p.class != recordIsTombstone && (routed || renamed) || routed && c.tombstones() {
		return false
	}
	return !slices.ContainsFunc(c.tables, func(table string) bool {
		yes, ok := c.lets(p, table)
		return yes || !ok
	})
}

// notInTopic is what Debezium replaces in the name of a topic.
var notInTopic = lazyregexp.New(`[^A-Za-z0-9._-]`)

// topicOf is the topic that a table's changes have in front of the router; "" if it is named by another strategy than the connector's default.
func (c *conversion) topicOf(table string) string {
	delimiter, topic, strategy := ".", table, "io.debezium.schema.DefaultTopicNamingStrategy"
	if c.kind == "postgres" {
		strategy = "io.debezium.schema.SchemaTopicNamingStrategy"
	}
	if s := c.settings["source.topic.naming.strategy"]; s != nil && s.value != strategy {
		return ""
	}
	if s := c.settings["source.topic.delimiter"]; s != nil {
		delimiter = s.value
	}
	if prefix := c.topicPrefix(); prefix != nil {
		topic = prefix.value + delimiter + strings.Replace(table, ".", delimiter, 1)
	}
	return notInTopic().ReplaceAllString(topic, "_")
}
