package outbox

import (
	"fmt"
	"slices"
	"strings"
)

// TopicNames are what a Table's Topic may name as ${NAME}; header is followed by a dot and the header's name.
func TopicNames() []string { return []string{"type", "table", "group", "key", "tenant", "header.NAME"} }

// A TopicTemplate makes topics of messages. Immutable.
type TopicTemplate struct{ parts []topicPart }

// A topicPart is literal text, or the text that read finds in the message.
type topicPart struct {
	literal string
	read    func(*Message) string
}

// ParseTopic reads a template: literal text, and ${NAME} for parts of the message. The error names what is wrong.
func ParseTopic(text string) (*TopicTemplate, error) {
	t := &TopicTemplate{}
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "${")
		if literal != "" {
			t.parts = append(t.parts, topicPart{literal: literal})
		}
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("has ${ without }")
		}
		read := topicText(name)
		if read == nil {
			return nil, fmt.Errorf("names ${%s}: a topic can be made of %s", name, strings.Join(TopicNames(), ", "))
		}
		t.parts, rest = append(t.parts, topicPart{read: read}), tail
	}
	return t, nil
}

// Of is the topic of a message. What the message lacks is left out, so the topic may be empty.
func (t *TopicTemplate) Of(m *Message) string {
	if len(t.parts) == 1 {
		return t.parts[0].text(m)
	}
	var b strings.Builder
	for i := range t.parts {
		b.WriteString(t.parts[i].text(m))
	}
	return b.String()
}

func (p *topicPart) text(m *Message) string {
	if p.read == nil {
		return p.literal
	}
	return p.read(m)
}

// topicText returns how to read a part of a message; nil for unknown names.
func topicText(name string) func(*Message) string {
	switch name {
	case "type":
		return func(m *Message) string { return m.Type }
	case "table":
		return func(m *Message) string { return m.Table[strings.LastIndexByte(m.Table, '.')+1:] }
	case "group":
		return func(m *Message) string { return m.GroupText() }
	case "key":
		return func(m *Message) string { return string(m.Key) }
	case "tenant":
		return func(m *Message) string { return m.Tenant }
	}
	header, ok := strings.CutPrefix(name, "header.")
	if !ok || header == "" {
		return nil
	}
	return func(m *Message) string {
		i := slices.IndexFunc(m.Headers, func(h Header) bool { return h.Name == header })
		if i < 0 {
			return ""
		}
		return string(m.Headers[i].Value)
	}
}
