package columns

import (
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
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
	if m.Fault == nil {
		m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf(
			"column %s of %s cannot be understood: %v: correct the row's writer, then edit or drop the message", p.Names[i], p.Table, err)}
	}
}

// Nameless notes that the row's id cannot be read. The relay cannot find such a row in its table again.
func (p *Plan) Nameless(m *outbox.Message, maxMessage int, why string) {
	const cure = "give the message an id (tailbox dead edit --new-id) or drop it; its row stays in the table until you give it an id or delete it"
	if m.Fault != nil { // too large
		m.Fault.Reason = fmt.Sprintf("row of %s is larger than max_message (%d bytes), so its payload is not here, and its id (column %s) cannot be "+
			"read: %s: %s", p.Table, maxMessage, p.Names[p.ID], why, cure)
		return
	}
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("the id (column %s) of a row of %s cannot be read: %s: %s",
		p.Names[p.ID], p.Table, why, cure)}
}

// StopGroup is the error for a row whose group, of which column i is a part, cannot be read, so that it could not even be parked in order.
func (p *Plan) StopGroup(i int, err error) error {
	return fmt.Errorf("read the group (column %s) of a row of %s: %w: leave the column out of columns.group; or give up what cannot be read, which a table with "+
		"delete or a status brings by its comparison: tailbox accept-gap --unreadable --why …: %w", p.Names[i], p.Table, err, source.ErrStop)
}

// StopLargeGroup is StopGroup for a column that was left out because of the row's size.
func (p *Plan) StopLargeGroup(i int) error {
	return fmt.Errorf("read the group (column %s) of a row of %s: %w: raise max_message, or leave the column out of columns.group: %w",
		p.Names[i], p.Table, ErrDropped(), source.ErrStop)
}

// LongGroup gives a message whose group is too long to be indexed a stand-in for it, and notes that.
func (p *Plan) LongGroup(m *outbox.Message, group []byte) {
	m.Group = outbox.StandInGroup(group)
	if m.Fault == nil {
		m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("the group (column %s) of a row of %s has %d bytes, and at most "+
			"%d can be indexed: correct the row's writer, then drop the message and write it anew with a shorter group", p.Names[p.Group[0]],
			p.Table, len(group), outbox.MaxIndexed)}
	}
}
