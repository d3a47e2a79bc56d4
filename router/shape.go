package router

import (
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// defaultTopicTemplate makes the topic of messages of a table that has no column for it.
const defaultTopicTemplate = "${type}"

// shapeDebezium is the one shape whose topic column holds an aggregate type, from which the topic is made, and whose columns are written as
// Debezium writes them.
const shapeDebezium = "debezium"

// A shaper makes topic, key, value and headers of the messages of one table.
type shaper struct {
	// topic changes the topic; nil takes it as it is.
	topic *topicRule
	// topicColumn is named in errors; "" = the table has none, and template makes the topic.
	topicColumn string
	template    *outbox.TopicTemplate
	// placements are those into headers and the partition.
	placements []placement
	// tombstone: an empty payload becomes a nil value.
	tombstone bool
	// typed: columns are written as Debezium's connectors send them.
	typed bool
	// timestamp: the message's own time goes with it.
	timestamp bool
	// body makes the value of the payload; nil takes it as it is.
	body *body
	// key and id write them as JSON; nil takes them as they are.
	key, id *jsonColumn
	// context, if any, reads a trace context.
	context     *reading
	jsonHeaders bool
	// contextSchema is that of the headers of a trace context.
	contextSchema connectSchema
}

// ruleOf makes a rule of two options, whose names begin with prefix.
func ruleOf(regex, replacement, prefix string, pathOf func(option string) []string) (*topicRule, []*Problem) {
	var problems []*Problem
	wrong := func(name, value, reason string) {
		problems = append(problems, &Problem{Path: pathOf(prefix + name), Value: value, Reason: reason})
	}
	rule, regexErr, replacementErr := newTopicRule(regex, replacement)
	if regexErr != nil {
		wrong("regex", regex, regexErr.Error())
	}
	if replacementErr != nil {
		wrong("replacement", replacement, replacementErr.Error())
	}
	return rule, problems
}

// newShaper reads the options of a table: own override those of the whole pipeline, one by one. A topic rule of the whole
// pipeline is for tables of shape debezium only; the others use their topic as it is, unless they bring a rule, which
// changes the topic, whatever it is made of. pathOf tells where an option stands in the configuration, tablePath where a key of the table does.
func newShaper(t *outbox.Table, shared, own *spec, pathOf func(option string) []string, tablePath func(key string) []string) (*shaper, []*Problem) {
	topicColumn := t.Columns.Topic
	if r := t.Reference("topic"); r != nil {
		topicColumn = r.String()
	}
	s := &shaper{topicColumn: topicColumn, typed: t.Shape == shapeDebezium, tombstone: own.tombstone, timestamp: own.columns["created_at"] != "",
		jsonHeaders: own.jsonHeaders, body: newBody(own)}
	if own.contextColumn != "" {
		s.context = &reading{column: own.contextColumn}
	}
	var problems []*Problem
	ownRule := own.regexSet && own.regex != shared.regex || own.replacementSet && own.replacement != shared.replacement ||
		own.thenRegex != shared.thenRegex || own.thenReplacement != shared.thenReplacement
	if ownRule || topicColumn != "" && t.Shape == shapeDebezium {
		regex, replacement := own.regex, own.replacement
		if t.Shape != shapeDebezium && !own.regexSet && !own.replacementSet { // the table's topic is used as it is
			regex, replacement = "(.*)", "$1"
		}
		rule, bad := ruleOf(regex, replacement, "route.topic.", pathOf)
		problems = append(problems, bad...)
		if own.thenRegex != "" || own.thenReplacement != "" {
			then, bad := ruleOf(own.thenRegex, own.thenReplacement, "route.topic.then.", pathOf)
			problems = append(problems, bad...)
			if own.thenRegex == "" || own.thenReplacement == "" {
				problems = append(problems, &Problem{Path: pathOf("route.topic.then.regex"), Value: own.thenRegex,
					Reason: "goes with route.topic.then.replacement: set both, or neither"})
			}
			if rule != nil {
				rule.then = then
			}
		}
		s.topic = rule
	}
	if topicColumn == "" {
		text := t.Topic
		if text == "" {
			text = defaultTopicTemplate
		}
		template, err := outbox.ParseTopic(text)
		if err != nil {
			problems = append(problems, &Problem{Path: tablePath("topic"), Value: text, Reason: err.Error()})
		}
		s.template = template
	}
	if own.jsonKey {
		key := func(m *outbox.Message) cell { return cell{text: m.Key} }
		s.key = &jsonColumn{reading{t.Columns.Key, key, s.typed}, newConnectSchema(own.keySchema)}
	}
	if own.jsonHeaders {
		s.id = &jsonColumn{reading{t.Columns.ID, columnOf(&t.Columns, t.Columns.ID), s.typed}, newConnectSchema(own.headerSchemas[t.Columns.ID])}
	}
	if s.body != nil {
		s.body.typed = s.typed
	}
	if own.headerSchemas != nil {
		s.contextSchema = newConnectSchema(stringSchema)
	}
	for _, spec := range own.placements {
		p := placement{placementSpec: spec, from: reading{spec.column, columnOf(&t.Columns, spec.column), s.typed}, ignoreMissing: own.ignoreMissing,
			json: own.jsonHeaders, schema: newConnectSchema(own.headerSchemas[spec.column])}
		if own.ignoreMissing && spec.column == t.Columns.Type {
			p.from.value = nil // only Fields tell whether the row has it
		}
		if spec.kind == placeEnvelope {
			s.body.envelope = append(s.body.envelope, p)
			continue
		}
		s.placements = append(s.placements, p)
	}
	return s, problems
}

func (s *shaper) shape(m *outbox.Message, d *sink.Delivery) error {
	d.Message = m
	d.Topic, d.Key, d.Value = m.Topic, m.Key, m.Payload
	d.ID, d.Headers, d.Partition, d.Timestamp = nil, nil, nil, time.Time{}
	if s.timestamp {
		d.Timestamp = m.CreatedAt
	}
	switch {
	case s.template != nil:
		d.Topic = s.template.Of(m)
	case d.Topic == "" && !s.typed: // the row has none, or the table no column for it
		d.Topic = m.Type
	}
	if s.topic != nil {
		if d.Topic == "" {
			return fmt.Errorf("make topic: %s is empty in the row: the application has to fill it, or edit the topic and replay", s.topicFrom())
		}
		d.Topic = s.topic.topic(d.Topic)
	}
	if len(s.placements) > 1 {
		d.Headers = make([]outbox.Header, 0, len(s.placements))
	}
	for i := range s.placements {
		if err := s.placements[i].apply(m, d); err != nil {
			return err
		}
	}
	if s.context != nil {
		s.addContext(m, d)
	}
	if s.key != nil {
		d.Key = s.key.write(m)
	}
	if s.id != nil {
		d.ID = s.id.write(m)
	}
	switch {
	case s.tombstone && (m.Payload == nil || blank(m.Payload) && !(s.typed && m.Binary)):
		d.Value = nil
	case s.body != nil:
		return s.body.write(m, d)
	}
	return nil
}

// topicFrom names what the topic is made of.
func (s *shaper) topicFrom() string {
	if s.template != nil {
		return "all that topic names"
	}
	return "column " + s.topicColumn
}

// blank reports whether a payload is NULL, or nothing but what Java's trim takes away.
func blank(payload []byte) bool {
	for _, c := range payload {
		if c > ' ' {
			return false
		}
	}
	return true
}

// A tableShaper belongs to one table.
type tableShaper struct {
	// name is the table's qualified name, or "." and its name where the schema is found by the server.
	name   string
	suffix bool
	*shaper
	// routes are those of messages of the table.
	routes []*Route
}

// find returns the shaper of the message's table; nil if it is not configured.
func (r *Router) find(table string) *tableShaper {
	if r.all != nil {
		return r.all
	}
	for i := range r.shapers {
		t := &r.shapers[i]
		if t.name == table || t.suffix && (strings.HasSuffix(table, t.name) || table == t.name[1:]) {
			return t
		}
	}
	return nil
}
