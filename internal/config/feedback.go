package config

import (
	"encoding/json"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// readFeedback reads what business rows are told: a statement by outcome, or for MongoDB an update. It adds the columns that
// they name to those that are read.
func readFeedback(s *Section, kind string, t *outbox.Table) {
	section := s.Section("feedback")
	if section == nil {
		return
	}
	for _, outcome := range outbox.Outcomes() {
		n := section.value(outcome)
		if n == nil {
			continue
		}
		parse, text := source.ParseFeedback, ""
		switch kind {
		case "mongodb":
			parse = source.ParseFeedbackDocument
		case "mysql", "mariadb":
			parse = source.ParseFeedbackMySQL
		}
		if kind == "mongodb" && n.Kind == yaml.MappingNode {
			text = string(section.json(nil, n, section.at(outcome)))
		} else {
			text = section.String(outcome, "")
		}
		f, err := parse(outcome, text)
		if err != nil {
			section.Add(outcome, "", err.Error())
			continue
		}
		if t.Feedback == nil {
			t.Feedback = outbox.Feedback{}
		}
		t.Feedback[outcome] = text
		section.keep(outcome, text)
		for _, column := range f.Columns() {
			if !slices.Contains(t.Fields, column) {
				t.Fields = append(t.Fields[:len(t.Fields):len(t.Fields)], column)
			}
			t.Optional = slices.DeleteFunc(slices.Clone(t.Optional), func(name string) bool { return name == column })
		}
	}
	section.Done()
	if len(section.Keys()) == 0 {
		s.Add("feedback", "", "is empty: name a statement for one of the outcomes, or leave it out", outbox.Outcomes()...)
	}
}

// json writes a value as JSON, with its keys in the file's order, which matters to MongoDB.
func (s *Section) json(b []byte, n *yaml.Node, path []string) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, n.Content[i].Value)
			b = append(b, ':')
			b = s.json(b, n.Content[i+1], append(path[:len(path):len(path)], n.Content[i].Value))
		}
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, item := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = s.json(b, item, path)
		}
		return append(b, ']')
	}
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err == nil {
			if text, err := json.Marshal(v); err == nil {
				return append(b, text...)
			}
		}
	}
	text, _ := s.scalar(n, path, false)
	return appendJSON(b, text)
}

func appendJSON(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // never fails
	return append(b, quoted...)
}

// minRetention keeps a slip such as 24 instead of 24h from emptying a table.
const minRetention = 60 // seconds

// readKept reads how long delivered rows stay, and checks what their columns allow.
func readKept(s *Section, shape *outbox.Shape, t *outbox.Table) {
	byDefault := shape.Retention
	if t.OnDelivered != outbox.Mark || t.Columns.DeliveredAt == "" {
		byDefault = 0
	}
	t.Retention = s.Duration("retention", byDefault)
	switch {
	case t.Retention == 0:
	case t.Retention.Seconds() < minRetention:
		s.Add("retention", t.Retention.String(), "must be at least 1m, or 0 for ever")
	case t.OnDelivered == outbox.Delete:
		s.Add("retention", t.Retention.String(), "has no effect with on_delivered: delete, which keeps no delivered row")
	case t.OnDelivered == outbox.Keep:
		s.Add("retention", t.Retention.String(), "cannot be used with on_delivered: keep, because nothing in a row that is left as it is tells "+
			"whether and when it was delivered: set on_delivered to mark, with a column delivered_at")
	case t.Columns.DeliveredAt == "":
		s.Add("retention", t.Retention.String(), "needs a column delivered_at, by which rows are judged: add one to the table, and name it under columns")
	}
	if t.Columns.Receipt != "" && t.OnDelivered == outbox.Delete {
		s.AddAt([]string{"columns", "receipt"}, "has no effect with on_delivered: delete, because the row is gone when the receipt comes")
	}
	if t.Tenants = s.Strings("tenants"); s.Has("tenants") && len(t.Tenants) == 0 {
		s.Add("tenants", "", "is empty: list those whose rows are this pipeline's, or leave it out for all")
	}
	if len(t.Tenants) > 0 && t.Columns.Tenant == "" {
		s.Add("tenants", "", "needs a column that holds the tenant: name it under columns.tenant")
	}
}
