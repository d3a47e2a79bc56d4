package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// ErrDropped returns what is said of a column that was not read because its row is too large.
func ErrDropped() error {
	return fmt.Errorf("it is larger than %d bytes in a row larger than max_message", MaxSmall)
}

// TooLarge is the fault of a row that is larger than max_message.
func (p *Plan) TooLarge(maxMessage int) *outbox.Fault {
	return &outbox.Fault{Class: outbox.FaultTooLarge, Reason: fmt.Sprintf(
		"row of %s is larger than max_message (%d bytes): raise max_message and replay it, or drop it", p.Table, maxMessage)}
}

// Fault notes the first thing that could not be understood: column i, and why.
func (p *Plan) Fault(m *outbox.Message, i int, err error) {
	if m.Fault == nil || p.routes(i) {
		Undecodable(m, fmt.Sprintf("column %s of %s cannot be understood: %v: correct the row's writer, then edit or drop the message",
			p.Names[i], p.Table, err))
	}
}

// Bound notes the first part of the message that is beyond its bound, and cuts all those that are.
func (p *Plan) Bound(m *outbox.Message) {
	over := m.Bound()
	if over == nil {
		return
	}
	i := map[string]int{"type": p.Type, "tenant": p.Tenant, "topic": p.Topic, "key": p.Key, "content_type": p.ContentType, "idempotency_key": p.IdempotencyKey,
		"correlation_id": p.CorrelationID}[over.Name]
	if i < 0 {
		Undecodable(m, fmt.Sprintf("%s of %s is beyond its bound: %s: shorten it at the row's writer, then edit or drop the message",
			p.Refiner.Name(over.Name), p.Table, over.Why))
		return
	}
	if m.Fault == nil || p.routes(i) {
		Undecodable(m, fmt.Sprintf("column %s of %s is beyond its bound: %s: shorten it at the row's writer, then edit or drop the message",
			p.Names[i], p.Table, over.Why))
	}
}

// routes reports whether a message without column i may go to other sinks, or may not be this pipeline's.
func (p *Plan) routes(i int) bool {
	return i == p.Type || i == p.Topic || i == p.Tenant || i == p.Headers
}

// Undecodable gives a message a fault by which no sink is chosen for it. One that is too large as well says both.
func Undecodable(m *outbox.Message, reason string) {
	if f := m.Fault; f != nil {
		if f.Class == outbox.FaultUndecodable {
			return
		}
		reason = f.Reason + "; " + reason
	}
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: reason}
}

// Nameless notes that the row's id cannot be read. The relay cannot find such a row in its table again.
func (p *Plan) Nameless(m *outbox.Message, maxMessage int, why string) {
	const fix = "give the message an id (tailbox dead edit --new-id) or drop it; its row stays in the table until you give it an id or delete it"
	if m.Fault != nil { // too large
		m.Fault.Reason = fmt.Sprintf("row of %s is larger than max_message (%d bytes), so its payload is not here, and its id (column %s) cannot be "+
			"read: %s: %s", p.Table, maxMessage, p.Names[p.ID], why, fix)
		return
	}
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("the id (column %s) of a row of %s cannot be read: %s: %s",
		p.Names[p.ID], p.Table, why, fix)}
}

// NoGroup notes that the group, of which column i is a part, cannot be read. The message has none, so that it waits for nobody, and nobody
// for it: nothing tells of which group it is.
func (p *Plan) NoGroup(m *outbox.Message, i int, err error) {
	Undecodable(m, fmt.Sprintf("the group (column %s) of a row of %s cannot be read, so the message stands outside of the order of its group: %v: "+
		"correct the row's writer, then edit or drop the message", p.Names[i], p.Table, err))
}

// LongGroup notes that the group is beyond its bound. A stand-in has its place.
func (p *Plan) LongGroup(m *outbox.Message) {
	names := make([]string, len(p.Group))
	for n, i := range p.Group {
		names[n] = p.Names[i]
	}
	Undecodable(m, fmt.Sprintf("the group (column %s) of a row of %s has more than %d bytes: correct the row's writer, then drop the message and "+
		"write it anew with a shorter group", strings.Join(names, ", "), p.Table, outbox.MaxGroup))
}

// Grouped reports whether column i is a part of the group.
func (p *Plan) Grouped(i int) bool { return slices.Contains(p.Group, i) }
