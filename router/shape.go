package router

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// shapeDebezium is the one shape whose topic column holds an aggregate type, from which the topic is made.
const shapeDebezium = "debezium"

// A shaper makes topic, key, value and headers of the messages of one table.
type shaper struct {
	// topic makes the topic; nil takes it as it is.
	topic *topicRule
	// topicColumn is named in errors.
	topicColumn string
	placements  []placement
	// tombstone: an empty payload becomes a nil value.
	tombstone bool
	// timestamp: the message's own time goes with it.
	timestamp bool
}

// newShaper reads the options of a table: own override those of the whole pipeline, one by one. A topic rule of the whole
// pipeline is for tables of shape debezium only; the others use their topic as it is, unless they bring a rule. pathOf
// tells where an option stands in the configuration.
func newShaper(t *outbox.Table, shared, own *spec, pathOf func(option string) []string) (*shaper, []*Problem) {
	s := &shaper{topicColumn: t.Columns.Topic, tombstone: own.tombstone,
		timestamp: own.columns["created_at"] != ""}
	var problems []*Problem
	ownRule := own.regexSet && own.regex != shared.regex || own.replacementSet && own.replacement != shared.replacement
	if t.Columns.Topic != "" && (t.Shape == shapeDebezium || ownRule) {
		rule, regexErr, replacementErr := newTopicRule(own.regex, own.replacement)
		if regexErr != nil {
			problems = append(problems, &Problem{Path: pathOf("route.topic.regex"), Value: own.regex,
				Reason: regexErr.Error()})
		}
		if replacementErr != nil {
			problems = append(problems, &Problem{Path: pathOf("route.topic.replacement"), Value: own.replacement,
				Reason: replacementErr.Error()})
		}
		s.topic = rule
	}
	for _, p := range own.placements {
		s.placements = append(s.placements,
			placement{placementSpec: p, value: columnOf(&t.Columns, p.column), ignoreMissing: own.ignoreMissing})
	}
	return s, problems
}

func (s *shaper) shape(m *outbox.Message, d *sink.Delivery) error {
	d.Message = m
	d.Topic, d.Key, d.Value = m.Topic, m.Key, m.Payload
	d.Headers, d.Partition = nil, nil
	if s.timestamp {
		d.Timestamp = m.CreatedAt
	}
	if s.tombstone && len(bytes.TrimSpace(m.Payload)) == 0 {
		d.Value = nil
	}
	if s.topic != nil {
		if m.Topic == "" {
			return fmt.Errorf("make topic: column %s is empty in the row: the application has to fill it, or edit the topic and replay", s.topicColumn)
		}
		d.Topic = s.topic.topic(m.Topic)
	}
	for i := range s.placements {
		if err := s.placements[i].apply(m, d); err != nil {
			return err
		}
	}
	return nil
}

// A tableShaper belongs to one table.
type tableShaper struct {
	// name is the table's qualified name, or "." and its name where the schema is found by the server.
	name   string
	suffix bool
	*shaper
}

// find returns the shaper of the message's table.
func (r *Router) find(table string) *shaper {
	if r.all != nil {
		return r.all
	}
	for i := range r.shapers {
		t := &r.shapers[i]
		if t.name == table || t.suffix && (strings.HasSuffix(table, t.name) || table == t.name[1:]) {
			return t.shaper
		}
	}
	return nil
}
