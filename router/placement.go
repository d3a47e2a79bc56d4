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
	column    string
	partition bool
	// alias is the header's name.
	alias string
}

func parsePlacement(s string) (placementSpec, error) {
	parts := strings.Split(s, ":")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return placementSpec{}, fmt.Errorf("entry %q must be column:placement or column:placement:alias", s)
	}
	p := placementSpec{column: parts[0], alias: parts[0]}
	switch parts[1] {
	case "header":
		if len(parts) == 3 {
			p.alias = parts[2]
		}
	case "partition":
		p.partition = true
	case "envelope":
		return p, fmt.Errorf("placement envelope of entry %q is not built into this version: use header or partition", s)
	default:
		return p, fmt.Errorf("placement of entry %q must be header or partition", s)
	}
	return p, nil
}

// A placement puts a column of the row into a delivery.
type placement struct {
	placementSpec
	// value reads the column from the message proper; nil where it is one of the message's Fields.
	value func(*outbox.Message) []byte
	// ignoreMissing: a row without the column gets no placement instead of an error.
	ignoreMissing bool
}

func (p *placement) apply(m *outbox.Message, d *sink.Delivery) error {
	value, found := p.read(m)
	if !found {
		if p.ignoreMissing {
			return nil
		}
		return fmt.Errorf("place column %s: the row has no such column: correct table.fields.additional.placement, or set table.field.additional.missing to ignore", p.column)
	}
	if !p.partition {
		d.Headers = append(d.Headers, outbox.Header{Name: p.alias, Value: value})
		return nil
	}
	if value == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(value), 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("place column %s as the partition: %q is not a partition number", p.column, value)
	}
	partition := int32(n)
	d.Partition = &partition
	return nil
}

// read returns the column's text; nil is NULL.
func (p *placement) read(m *outbox.Message) (value []byte, found bool) {
	if p.value != nil {
		return p.value(m), true
	}
	for i := range m.Fields {
		if m.Fields[i].Name != p.column {
			continue
		}
		if m.Fields[i].Null {
			return nil, true
		}
		return m.Fields[i].Value, true
	}
	return nil, false
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
		return func(m *outbox.Message) []byte { return []byte(m.Type) }
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
