package sourcetest

import (
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// A Value is what an application writes into a column. V is a string, an int64, a []byte (for the payload, where nil is
// NULL too), a time.Time, or nil for NULL. The text of headers is a JSON object.
type Value struct {
	Column string
	V      any
}

// Values is what Conn.Insert writes for a message: a value for each column that the table has, and that the message
// sets. Columns that are left out have their defaults. The value of the id column is Message.ID.
func (t Table) Values(m *outbox.Message) []Value {
	c := &t.Columns
	values := []Value{{c.ID, m.ID}, {c.Payload, m.Payload}}
	if c.Type != "" {
		values = append(values, Value{c.Type, m.Type})
	}
	text := func(column, v string) {
		if column != "" && v != "" {
			values = append(values, Value{column, v})
		}
	}
	text(c.Topic, m.Topic)
	text(c.Key, string(m.Key))
	if len(c.Group) == 1 && c.Group[0] != c.Topic && c.Group[0] != c.Key {
		text(c.Group[0], m.Group)
	}
	text(c.Tenant, m.Tenant)
	text(c.ContentType, m.ContentType)
	text(c.IdempotencyKey, m.IdempotencyKey)
	text(c.CorrelationID, m.CorrelationID)
	if c.Headers != "" && m.Headers != nil {
		values = append(values, Value{c.Headers, headersText(m.Headers)})
	}
	if c.Priority != "" && m.Priority != 0 {
		values = append(values, Value{c.Priority, int64(m.Priority)})
	}
	if c.MaxAttempts != "" && m.MaxAttempts != 0 {
		values = append(values, Value{c.MaxAttempts, int64(m.MaxAttempts)})
	}
	if c.AvailableAt != "" && !m.AvailableAt.IsZero() {
		values = append(values, Value{c.AvailableAt, m.AvailableAt})
	}
	if c.CreatedAt != "" && !m.CreatedAt.IsZero() {
		values = append(values, Value{c.CreatedAt, m.CreatedAt})
	}
	return values
}

// headersText is a JSON object, with its names in order.
func headersText(headers []outbox.Header) string {
	text := []byte{'{'}
	for i, h := range headers {
		if i > 0 {
			text = append(text, ',')
		}
		name, _ := json.Marshal(h.Name) // a string is always marshalled
		text = append(append(text, name...), ':')
		if h.Value == nil {
			text = append(text, "null"...)
			continue
		}
		value, _ := json.Marshal(string(h.Value))
		text = append(text, value...)
	}
	return string(append(text, '}'))
}

// table is a table of a known shape.
func table(shape, name string) Table {
	s, ok := outbox.ShapeNamed(shape)
	if !ok {
		panic(fmt.Sprintf("no shape %s", shape))
	}
	return Table{Table: outbox.Table{Name: name, Shape: shape, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}}
}

// with is the table with another on_delivered.
func (t Table) with(d outbox.OnDelivered) Table {
	t.OnDelivered = d
	return t
}

// Short is the number in an id.
func Short(id string) string {
	var n int
	if _, err := fmt.Sscanf(id, "00000000-0000-0000-0000-%d", &n); err != nil {
		return id
	}
	return fmt.Sprint(n)
}

// row is the n-th message of a group as an application writes it, into a table of either shape. The group of a table
// of shape debezium is "order:" and the group.
func row(n int, group string) *outbox.Message {
	return &outbox.Message{ID: EventID(n), Type: "Counted", Topic: "order", Group: group, Key: []byte(group), Payload: fmt.Appendf(nil, `{"n":%d}`, n)}
}

// rows are n messages from the first on.
func rows(first, n int, group string) []*outbox.Message {
	ms := make([]*outbox.Message, n)
	for i := range ms {
		ms[i] = row(first+i, group)
	}
	return ms
}
