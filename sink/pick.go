package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
)

// A Pick says where a part of what goes out comes from: a header, a member of the payload, a column of the message, or
// a text that is always the same. The zero value picks nothing.
type Pick struct {
	from pickFrom
	path string
}

type pickFrom uint8

const (
	fromNowhere pickFrom = iota
	fromHeader
	fromPayload
	fromMessage
	fromText
)

// PickForms says which forms ParsePick reads, for errors.
const PickForms = "header:NAME, payload:PATH (names joined by dots), payload: (all of it), " +
	"message:id, type, topic, group, key, tenant or correlation_id, or a text"

// ParsePick reads a pick: header:NAME, payload:PATH, message:FIELD, or else a text.
func ParsePick(text string) (Pick, error) {
	kind, path, ok := strings.Cut(text, ":")
	if !ok {
		kind = ""
	}
	switch kind {
	case "header":
		if path == "" {
			return Pick{}, errors.New("header: wants a header's name behind it")
		}
		return Pick{fromHeader, path}, nil
	case "payload":
		for _, step := range strings.Split(path, ".") {
			if step == "" && path != "" {
				return Pick{}, errors.New("payload: wants names joined by single dots")
			}
		}
		return Pick{fromPayload, path}, nil
	case "message":
		if _, ok := messageText(&Delivery{Message: new(outbox.Message)}, path); !ok {
			return Pick{}, errors.New("message: wants one of id, type, topic, group, key, tenant, correlation_id")
		}
		return Pick{fromMessage, path}, nil
	}
	if text == "" {
		return Pick{}, nil
	}
	return Pick{fromText, text}, nil
}

// IsZero reports whether p picks nothing.
func (p Pick) IsZero() bool { return p.from == fromNowhere }

// IsText reports whether p is a text that is always the same, and which.
func (p Pick) IsText() (string, bool) { return p.path, p.from == fromText }

// OfPayload reports whether p looks into the payload, which takes long for a large one.
func (p Pick) OfPayload() bool { return p.from == fromPayload }

func (p Pick) String() string {
	switch p.from {
	case fromHeader:
		return "header:" + p.path
	case fromPayload:
		return "payload:" + p.path
	case fromMessage:
		return "message:" + p.path
	}
	return p.path
}

// A View is one delivery as picks look at it: its payload is parsed once, for all of them.
type View struct {
	Delivery *Delivery

	parsed bool
	top    map[string]json.RawMessage
	err    error
}

// members are those of the payload, which must be a JSON object.
func (v *View) members() (map[string]json.RawMessage, error) {
	if v.parsed {
		return v.top, v.err
	}
	v.parsed = true
	if !IsJSON(v.Delivery.Value) {
		v.err = errors.New("the payload is not JSON")
	} else if json.Unmarshal(v.Delivery.Value, &v.top) != nil || v.top == nil {
		v.err = errors.New("the payload is no JSON object")
	}
	return v.top, v.err
}

// JSON returns what p finds as JSON: a member of the payload as it stands there, everything else as a string. It is nil
// where there is nothing, which a null is too. An error says that the payload cannot be looked into.
func (p Pick) JSON(v *View) (json.RawMessage, error) {
	if p.from == fromPayload && p.path != "" {
		return p.member(v)
	}
	text, ok, err := p.Text(v)
	if err != nil || !ok {
		return nil, err
	}
	return AppendString(nil, text), nil
}

// Text returns what p finds as text. ok is false if there is nothing. It is an error if it is no text.
func (p Pick) Text(v *View) (text string, ok bool, err error) {
	switch p.from {
	case fromHeader:
		text, ok = headerText(v.Delivery, p.path)
	case fromMessage:
		text, _ = messageText(v.Delivery, p.path)
		ok = text != ""
	case fromText:
		text, ok = p.path, true
	case fromPayload:
		if p.path == "" {
			text, ok = string(v.Delivery.Value), v.Delivery.Value != nil
			break
		}
		raw, err := p.member(v)
		if err != nil || raw == nil {
			return "", false, err
		}
		if raw[0] != '"' {
			return "", false, fmt.Errorf("%s is no JSON string", p)
		}
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", false, fmt.Errorf("read %s: %w", p, err)
		}
		ok = true
	}
	if !utf8.ValidString(text) {
		return "", false, fmt.Errorf("%s is not UTF-8", p)
	}
	return text, ok, nil
}

// member walks into a payload.
func (p Pick) member(v *View) (json.RawMessage, error) {
	members, err := v.members()
	if err != nil {
		return nil, err
	}
	name, path, deeper := strings.Cut(p.path, ".")
	for {
		raw := members[name]
		if raw == nil || string(raw) == "null" {
			return nil, nil
		}
		if !deeper {
			return raw, nil
		}
		members = nil
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, fmt.Errorf("%s: %q is no JSON object", p, name)
		}
		name, path, deeper = strings.Cut(path, ".")
	}
}

// headerText finds a header by its name, whatever its case: the router's placements first.
func headerText(d *Delivery, name string) (string, bool) {
	for i := range d.Headers {
		if strings.EqualFold(d.Headers[i].Name, name) && d.Headers[i].Value != nil {
			return string(d.Headers[i].Value), true
		}
	}
	for i := range d.Message.Headers {
		if h := &d.Message.Headers[i]; strings.EqualFold(h.Name, name) && h.Value != nil {
			return string(h.Value), true
		}
	}
	return "", false
}

// messageText is a column of the message by its name; ok is false for no column's.
func messageText(d *Delivery, name string) (text string, ok bool) {
	m := d.Message
	switch name {
	case "id":
		return m.ID, true
	case "type":
		return m.Type, true
	case "group":
		return m.GroupText(), true
	case "tenant":
		return m.Tenant, true
	case "correlation_id":
		return m.CorrelationID, true
	case "topic":
		return d.Topic, true
	case "key":
		return string(d.Key), true
	}
	return "", false
}
