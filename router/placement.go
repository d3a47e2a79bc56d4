package router

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// A placementSpec is one entry of table.fields.additional.placement: column:placement[:alias].
type placementSpec struct {
	column string
	kind   placementKind
	// alias is the name of the header, or of the field of the envelope.
	alias string
}

type placementKind uint8

const (
	placeHeader placementKind = iota
	placeEnvelope
	placePartition
)

func parsePlacement(s string) (placementSpec, error) {
	parts := strings.Split(s, ":")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return placementSpec{}, fmt.Errorf("entry %q must be column:placement or column:placement:alias", s)
	}
	p := placementSpec{column: parts[0], alias: parts[0]}
	if len(parts) == 3 {
		p.alias = parts[2]
	}
	switch strings.ToLower(parts[1]) {
	case "header":
	case "envelope":
		p.kind = placeEnvelope
	case "partition":
		p.kind = placePartition
	default:
		return p, fmt.Errorf("placement of entry %q must be header, envelope or partition", s)
	}
	return p, nil
}

// sameAs tells whether both make one header, one field of the envelope, or the partition. Sinks find headers whatever their case.
func (p placementSpec) sameAs(other placementSpec) bool {
	switch {
	case p.kind != other.kind:
		return false
	case p.kind == placeHeader:
		return strings.EqualFold(p.alias, other.alias)
	}
	return p.kind == placePartition || p.alias == other.alias
}

// A placement puts a column of the row into a delivery.
type placement struct {
	placementSpec
	// value reads the column from the message proper; nil where it is no part of that.
	value func(*outbox.Message) []byte
	// ignoreMissing: a row without the column gets no placement instead of an error.
	ignoreMissing bool
	// json: the header is written as JSON.
	json   bool
	schema connectSchema
}

// apply places a header or the partition.
func (p *placement) apply(m *outbox.Message, d *sink.Delivery) error {
	c, found := p.read(m)
	if !found {
		return p.missing()
	}
	if p.kind == placeHeader {
		if p.json {
			c.text = p.schema.append(nil, c)
		}
		d.Headers = append(d.Headers, outbox.Header{Name: p.alias, Value: c.text})
		return nil
	}
	if c.text == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(c.text), 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("place column %s as the partition: %q is not a partition number", p.column, c.text)
	}
	partition := int32(n)
	d.Partition = &partition
	return nil
}

// missing is what becomes of a row without the column.
func (p *placement) missing() error {
	if p.ignoreMissing {
		return nil
	}
	return fmt.Errorf("place column %s: the row has no such column: correct table.fields.additional.placement, or set table.field.additional.missing to ignore", p.column)
}

func (p *placement) read(m *outbox.Message) (c cell, found bool) {
	return readColumn(m, p.column, p.value)
}

// A cell is the value of a column.
type cell struct {
	// text is nil for NULL.
	text []byte
	// bare: it is a number or a boolean, and so has no quotes in JSON.
	bare bool
}

func (c cell) appendJSON(b []byte) []byte {
	switch {
	case c.text == nil:
		return append(b, "null"...)
	case c.bare:
		return append(b, c.text...)
	}
	return appendString(b, c.text)
}

// readColumn reads a column from the message's Fields, which know its type, else by value, which is nil for those that are no
// part of the message proper.
func readColumn(m *outbox.Message, name string, value func(*outbox.Message) []byte) (c cell, found bool) {
	for i := range m.Fields {
		f := &m.Fields[i]
		if f.Name != name {
			continue
		}
		switch {
		case f.Null:
			return cell{}, true
		case f.Value == nil:
			return cell{text: []byte{}}, true
		}
		return cell{f.Value, f.Bare}, true
	}
	if value == nil {
		return cell{}, false
	}
	return cell{text: value(m)}, true
}

// columnOf returns how to read a column that is part of the message proper, or nil for others, which have to be among
// the message's Fields. An empty optional text stands for NULL.
func columnOf(c *outbox.Columns, name string) func(*outbox.Message) []byte {
	switch name {
	case "":
		return nil
	case c.ID:
		return func(m *outbox.Message) []byte { return []byte(m.ID) }
	case c.Type:
		return func(m *outbox.Message) []byte { return optional(m.Type) }
	case c.Topic:
		return func(m *outbox.Message) []byte { return optional(m.Topic) }
	case c.Key:
		return func(m *outbox.Message) []byte { return m.Key }
	case c.Payload:
		return func(m *outbox.Message) []byte { return m.Payload }
	case c.Tenant:
		return func(m *outbox.Message) []byte { return optional(m.Tenant) }
	case c.ContentType:
		return func(m *outbox.Message) []byte { return optional(m.ContentType) }
	case c.IdempotencyKey:
		return func(m *outbox.Message) []byte { return optional(m.IdempotencyKey) }
	case c.CorrelationID:
		return func(m *outbox.Message) []byte { return optional(m.CorrelationID) }
	}
	if len(c.Group) == 1 && c.Group[0] == name {
		return func(m *outbox.Message) []byte { return optional(m.Group) }
	}
	return nil
}

func optional(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
