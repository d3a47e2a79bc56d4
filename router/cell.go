package router

import (
	"bytes"
	"encoding/base64"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// A cell is the value of a column.
type cell struct {
	// text is nil for NULL.
	text []byte
	// bare: it is a number or a boolean, and so has no quotes in JSON.
	bare bool
	// bytes: the text is no text, and so is written in base64.
	bytes bool
}

func (c cell) appendJSON(b []byte) []byte {
	switch {
	case c.text == nil:
		return append(b, "null"...)
	case c.bare:
		return append(b, c.text...)
	case c.bytes:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), c.text), '"')
	}
	return appendString(b, c.text)
}

// plain is the value where it is not written as JSON.
func (c cell) plain() []byte {
	if c.bytes && c.text != nil {
		return base64.StdEncoding.AppendEncode([]byte{}, c.text)
	}
	return c.text
}

// A reading says how a column is read from a message: from its Fields, which know the column's type, else by value, which is nil
// for columns that are no part of the message proper.
type reading struct {
	column string
	value  func(*outbox.Message) cell
	// typed: it is what Debezium's connectors make of a column of its type, not the database's text.
	typed bool
}

func (r *reading) read(m *outbox.Message) (c cell, found bool) {
	for i := range m.Fields {
		f := &m.Fields[i]
		if f.Name != r.column {
			continue
		}
		if own, edited := r.edited(m, f); edited {
			return own, true
		}
		switch {
		case f.Null:
			return cell{}, true
		case r.typed:
			c = typedCell(f)
		case f.Type == outbox.FieldHex: // what bytes are in a table must not tell consumers which database it is in
			c = cell{text: typedCell(f).text}
		default:
			c = cell{text: f.Value, bare: f.Type == outbox.FieldBare}
		}
		if c.text == nil {
			c.text = []byte{}
		}
		return c, true
	}
	if r.value == nil {
		return cell{}, false
	}
	c = r.value(m)
	c.bytes = c.bytes && r.typed
	return c, true
}

// edited reports whether an operator gave the message another value than its row has, which Fields hold, and returns that.
func (r *reading) edited(m *outbox.Message, f *outbox.Field) (own cell, yes bool) {
	if r.value == nil {
		return cell{}, false
	}
	own = r.value(m)
	if own.bytes || bytes.Equal(own.text, f.Value) { // bytes are a payload, of which Fields have another form
		return cell{}, false
	}
	own.bare = f.Type == outbox.FieldBare && sink.IsJSON(own.text) && !bytes.ContainsAny(own.text, `{["`)
	return own, true
}

// columnOf returns how to read a column that is part of the message proper, or nil for others, which have to be among
// the message's Fields. An empty optional text stands for NULL.
func columnOf(c *outbox.Columns, name string) func(*outbox.Message) cell {
	switch name {
	case "":
		return nil
	case c.ID:
		return func(m *outbox.Message) cell { return cell{text: []byte(m.ID)} }
	case c.Type:
		return func(m *outbox.Message) cell { return cell{text: optional(m.Type)} }
	case c.Topic:
		return func(m *outbox.Message) cell { return cell{text: optional(m.Topic)} }
	case c.Key:
		return func(m *outbox.Message) cell { return cell{text: m.Key} }
	case c.Payload:
		return func(m *outbox.Message) cell { return cell{text: m.Payload, bytes: m.Binary} }
	case c.Tenant:
		return func(m *outbox.Message) cell { return cell{text: optional(m.Tenant)} }
	case c.ContentType:
		return func(m *outbox.Message) cell { return cell{text: optional(m.ContentType)} }
	case c.IdempotencyKey:
		return func(m *outbox.Message) cell { return cell{text: optional(m.IdempotencyKey)} }
	case c.CorrelationID:
		return func(m *outbox.Message) cell { return cell{text: optional(m.CorrelationID)} }
	}
	if len(c.Group) == 1 && c.Group[0] == name {
		return func(m *outbox.Message) cell { return cell{text: optional(m.GroupText())} }
	}
	return nil
}

func optional(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
