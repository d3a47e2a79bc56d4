package document

import (
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// A Plan says for one table which column makes which part of a message. Documents have no common columns, so every one may
// be missing in any document; it is null then. Immutable.
type Plan struct {
	Table string
	names []string
	// Indexes into names; -1 = the table has no such column.
	id, typ, topic, key, payload, headers                        int
	tenant, contentType, idempotencyKey, correlationID, priority int
	availableAt, maxAttempts, createdAt                          int
	group                                                        []int
	fields                                                       []int
	// optional are those of fields that a message does not have if its document has not; the others are null then.
	optional map[int]bool
	// untyped: a document without a type is a message like any other.
	untyped bool
	// refiner adds what no field holds; nil adds nothing.
	refiner *columns.Refiner
}

// NewPlan looks which columns the table has.
func NewPlan(t *outbox.Table) *Plan {
	p := &Plan{Table: t.String(), untyped: columns.Untyped(t), refiner: columns.NewRefiner(t)}
	find := func(name string) int {
		if name == "" {
			return -1
		}
		i := slices.Index(p.names, name)
		if i < 0 {
			i = len(p.names)
			p.names = append(p.names, name)
		}
		return i
	}
	c := &t.Columns
	p.id, p.typ, p.topic, p.key = find(c.ID), find(c.Type), find(c.Topic), find(c.Key)
	p.payload, p.headers, p.tenant = find(c.Payload), find(c.Headers), find(c.Tenant)
	p.contentType, p.idempotencyKey = find(c.ContentType), find(c.IdempotencyKey)
	p.correlationID, p.priority = find(c.CorrelationID), find(c.Priority)
	p.availableAt, p.maxAttempts, p.createdAt = find(c.AvailableAt), find(c.MaxAttempts), find(c.CreatedAt)
	for _, name := range c.Group {
		p.group = append(p.group, find(name))
	}
	for _, name := range t.Fields {
		if i := find(name); i >= 0 {
			p.fields = append(p.fields, i)
			if slices.Contains(t.Optional, name) {
				if p.optional == nil {
					p.optional = map[int]bool{}
				}
				p.optional[i] = true
			}
		}
	}
	return p
}

// slot is the index of a name, -1 if no field of it is wanted. Names are few, and most differ in their length already: to
// compare them takes less than to hash one.
func (p *Plan) slot(key []byte) int {
	for i, name := range p.names {
		if name == string(key) {
			return i
		}
	}
	return -1
}
