package columns

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/internal/glob"
	"github.com/tailbox/tailbox/outbox"
)

// A Refiner makes of a row's message what the table's configuration says beyond columns: parts that stand in a header or in the payload, groups that
// mean none, and headers that stay behind. Nil changes nothing. Immutable.
type Refiner struct {
	table       string
	references  []outbox.Reference
	ungrouped   []string
	allow, deny []glob.Pattern
	untyped     bool
}

// NewRefiner returns the refiner of a table.
func NewRefiner(t *outbox.Table) *Refiner {
	if len(t.References)+len(t.Ungrouped)+len(t.Headers.Allow)+len(t.Headers.Deny) == 0 {
		return nil
	}
	r := &Refiner{table: t.String(), references: t.References, ungrouped: t.Ungrouped, untyped: Untyped(t)}
	for _, text := range t.Headers.Allow {
		r.allow = append(r.allow, glob.Glob(text))
	}
	for _, text := range t.Headers.Deny {
		r.deny = append(r.deny, glob.Glob(text))
	}
	return r
}

// Refine changes a message that holds what the row's columns say. A value that cannot be read is a fault of the message.
func (r *Refiner) Refine(m *outbox.Message) {
	if r == nil {
		return
	}
	for i := range r.references {
		r.follow(&r.references[i], m)
	}
	if m.Group != "" && slices.Contains(r.ungrouped, m.GroupText()) {
		m.Group, m.LongGroup = "", ""
	}
	if len(r.allow)+len(r.deny) > 0 {
		m.Headers = slices.DeleteFunc(m.Headers, func(h outbox.Header) bool {
			return len(r.allow) > 0 && !glob.Any(r.allow, h.Name) || glob.Any(r.deny, h.Name)
		})
	}
}

// Name says where a part stands that no column holds, for errors.
func (r *Refiner) Name(part string) string {
	for i := range r.references {
		if ref := &r.references[i]; ref.Part == part {
			return ref.String()
		}
	}
	return part
}

// follow fills in one part.
func (r *Refiner) follow(ref *outbox.Reference, m *outbox.Message) {
	value, err := find(ref, m)
	if err != nil {
		if ref.Part == "group" {
			Undecodable(m, fmt.Sprintf("the group (%s) of a row of %s cannot be read, so the message stands outside of the order of its group: %v: "+
				"correct the row's writer, then edit or drop the message", ref, r.table, err))
		} else {
			r.fault(ref, m, err)
		}
		return
	}
	switch ref.Part {
	case "type":
		if value == nil && !r.untyped && m.Fault == nil {
			r.fault(ref, m, errors.New("it is missing or null (if such rows are right, write type: null under columns, and replay them)"))
		}
		m.Type = string(value)
	case "topic":
		m.Topic = string(value)
	case "tenant":
		m.Tenant = string(value)
	case "key":
		m.Key = value
	case "group":
		if m.SetGroup(string(value)) {
			Undecodable(m, fmt.Sprintf("the group (%s) of a row of %s has more than %d bytes: correct the row's writer, then drop the message and "+
				"write it anew with a shorter group", ref, r.table, outbox.MaxGroup))
		}
	}
}

// fault notes a part that cannot be read. Without it a message may go to other sinks, so that no sink is chosen.
func (r *Refiner) fault(ref *outbox.Reference, m *outbox.Message, err error) {
	Undecodable(m, fmt.Sprintf("the %s (%s) of a row of %s cannot be understood: %v: correct the row's writer, then edit or drop the message",
		ref.Part, ref, r.table, err))
}

// find returns the value that a reference leads to; nil if there is none.
func find(ref *outbox.Reference, m *outbox.Message) ([]byte, error) {
	if ref.Header != "" {
		i := slices.IndexFunc(m.Headers, func(h outbox.Header) bool { return h.Name == ref.Header })
		if i < 0 {
			return nil, nil
		}
		return m.Headers[i].Value, nil
	}
	if m.Payload == nil {
		if m.Fault != nil {
			return nil, errors.New("the payload is not here")
		}
		return nil, nil
	}
	text, quoted := m.Payload, false
	for _, name := range ref.Path {
		if quoted {
			return nil, errors.New("there is a text where an object should be")
		}
		var err error
		if text, quoted, err = member(text, name); err != nil || text == nil {
			return nil, err
		}
	}
	if !quoted && (text[0] == '{' || text[0] == '[') {
		return nil, errors.New("it is an object or a list")
	}
	return slices.Clone(text), nil // or the payload would stay in memory as long as its parts
}

// errFound ends a search.
var errFound = errors.New("found")

// member returns the value of an object's first member of that name; nil if there is none, or if it is null.
func member(object []byte, name string) (value []byte, quoted bool, err error) {
	err = eachMember(object, func(n, v []byte, q bool) error {
		if string(n) != name {
			return nil
		}
		value, quoted = v, q
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return value, quoted, nil
	case errors.Is(err, ErrHeaders):
		err = errors.New("the payload is not a JSON object there")
	}
	return nil, false, err
}
