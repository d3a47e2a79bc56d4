package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Value is what a Draft has for one column.
type Value struct {
	Column string
	// Field is the part of the Draft that it comes from.
	Field string
	// Value is a string, []byte, int64, time.Time, map[string]string (headers), or whatever Draft.Fields has.
	Value any
}

// Values puts the parts of a draft on the columns that the table's configuration names for them, in the order of
// ColumnNames, then Fields. What has no column, or does not make a message that the relay can deliver, is a *DraftError.
// What the database itself holds against a value is not looked at.
func (t *Table) Values(d *Draft) ([]Value, error) {
	p := placing{table: t, draft: d}
	c := &t.Columns
	p.text("ID", c.ID, d.ID)
	p.text("Type", c.Type, d.Type)
	p.text("Topic", c.Topic, d.Topic)
	p.text("Key", c.Key, d.Key)
	p.group()
	if d.Payload != nil {
		p.put("Payload", c.Payload, d.Payload)
	}
	if len(d.Headers) > 0 {
		p.put("Headers", c.Headers, d.Headers)
	}
	p.text("Tenant", c.Tenant, d.Tenant)
	p.text("ContentType", c.ContentType, d.ContentType)
	p.text("IdempotencyKey", c.IdempotencyKey, d.IdempotencyKey)
	p.text("CorrelationID", c.CorrelationID, d.CorrelationID)
	if d.Priority != 0 {
		p.put("Priority", c.Priority, int64(d.Priority))
	}
	if !d.AvailableAt.IsZero() {
		p.put("AvailableAt", c.AvailableAt, d.AvailableAt)
	}
	if d.MaxAttempts != 0 {
		p.put("MaxAttempts", c.MaxAttempts, int64(d.MaxAttempts))
	}
	if !d.CreatedAt.IsZero() {
		p.put("CreatedAt", c.CreatedAt, d.CreatedAt)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Fields)) {
		p.field(name, d.Fields[name])
	}
	p.deliverable()
	return p.values, p.err
}

// A placing is a draft on its way to the columns of a table. The first thing wrong is kept.
type placing struct {
	table  *Table
	draft  *Draft
	values []Value
	err    error
}

func (p *placing) refuse(field, format string, args ...any) {
	if p.err == nil {
		p.err = refuse(p.table, field, format, args...)
	}
}

// refuse makes a DraftError.
func refuse(t *Table, field, format string, args ...any) error {
	return &DraftError{Table: strings.TrimPrefix(t.String(), "."), Field: field, Reason: fmt.Sprintf(format, args...)}
}

func (p *placing) text(field, column, value string) {
	if value != "" {
		p.put(field, column, value)
	}
}

// put gives a column its value. Two parts may share a column where they agree.
func (p *placing) put(field, column string, value any) {
	if column == "" {
		p.refuse(field, "has no column in this table: leave it empty, or name the column for it in the table's Columns")
		return
	}
	for _, v := range p.values {
		if v.Column != column {
			continue
		}
		if v.Value != value {
			p.refuse(field, "and %s are both in column %s, and differ: leave one of them empty", v.Field, column)
		}
		return
	}
	p.values = append(p.values, Value{column, field, value})
}

// group divides the group among the columns that make it.
func (p *placing) group() {
	group, columns := p.draft.Group, p.table.Columns.Group
	if group == "" {
		return
	}
	if len(columns) == 0 {
		p.put("Group", "", nil)
		return
	}
	parts := strings.SplitN(group, ":", len(columns))
	if len(parts) != len(columns) {
		p.refuse("Group", "%q is not made of %d parts joined by a colon, as this table makes it of its columns %s", group, len(columns),
			strings.Join(columns, ", "))
		return
	}
	for i, part := range parts {
		p.put("Group", columns[i], part)
	}
}

// field puts a further column.
func (p *placing) field(name string, value any) {
	for _, v := range p.values {
		if v.Column == name {
			p.refuse("Fields["+name+"]", "is the column of %s: set only one of them", v.Field)
			return
		}
	}
	p.values = append(p.values, Value{name, "Fields[" + name + "]", value})
}

// deliverable refuses what the relay would not deliver as it is meant.
func (p *placing) deliverable() {
	d, c := p.draft, &p.table.Columns
	group := p.groupText()
	switch {
	case d.Type == "" && c.Type != "":
		p.refuse("Type", "is empty: routes go by it")
	case len(d.ID) > MaxIndexed:
		p.refuse("ID", "has %d bytes, and may have %d", len(d.ID), MaxIndexed)
	case IsStandInID(d.ID):
		p.refuse("ID", "begins with %s, which is for rows without an id", standIn)
	case len(group) > MaxGroup:
		p.refuse("Group", "has %d bytes, and may have %d: shorten it, or hash it with outbox.Key", len(group), MaxGroup)
	case len(d.Type) > MaxIndexed:
		p.refuse("Type", "has %d bytes, and may have %d", len(d.Type), MaxIndexed)
	case len(d.Tenant) > MaxIndexed:
		p.refuse("Tenant", "has %d bytes, and may have %d", len(d.Tenant), MaxIndexed)
	case d.MaxAttempts < 0:
		p.refuse("MaxAttempts", "is %d: it is above 0, or 0 for the route's own", d.MaxAttempts)
	case d.Once && d.IdempotencyKey == "":
		p.refuse("Once", "needs an IdempotencyKey: make one with outbox.Key")
	}
	for name, text := range map[string]string{"Topic": d.Topic, "Key": d.Key, "ContentType": d.ContentType, "IdempotencyKey": d.IdempotencyKey, "CorrelationID": d.CorrelationID} {
		if len(text) > MaxGroup {
			p.refuse(name, "has %d bytes, and may have %d", len(text), MaxGroup)
			return
		}
	}
	var bounds HeaderBounds
	for name, value := range d.Headers {
		if err := bounds.Add(&Header{Name: name, Value: []byte(value)}); err != nil {
			p.refuse("Headers", "are too many or too large: %v", err)
			return
		}
	}
}

// groupText is the group as the relay will read it.
func (p *placing) groupText() string {
	parts := make([]string, len(p.table.Columns.Group))
	for i, column := range p.table.Columns.Group {
		for _, v := range p.values {
			if text, ok := v.Value.(string); ok && v.Column == column {
				parts[i] = text
			}
		}
	}
	return strings.Join(parts, ":")
}
