package document

import (
	"crypto/sha256"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// group joins the group's columns with ":"; there is no group where one of them is null. What cannot be a group gets a stand-in,
// which is the same wherever the same is written, and a fault: the message waits for an operator, and nobody else for it.
func (d *Decoder) group(p *Plan, m *outbox.Message) {
	for _, i := range p.group {
		if i < 0 || d.vals[i].Null() {
			return
		}
	}
	joined := d.scratch[:0]
	var odd error
	at := 0
	for n, i := range p.group {
		if n > 0 {
			joined = append(joined, ':')
		}
		v, before := d.vals[i], len(joined)
		var err error
		if joined, err = appendText(joined, v); err == nil {
			continue
		}
		if odd == nil {
			odd, at = err, i
		}
		// The type is what an operator sees of it, and bytes of two types differ.
		joined = fmt.Appendf(joined[:before], "(%s %x)", v.Type, sha256.Sum256(v.Data))
	}
	// As long as in the other databases, so that one group is the same in all of a pipeline's tables.
	over := m.SetGroup(d.Text(joined[:min(len(joined), outbox.MaxGroup+1)]))
	switch {
	case odd != nil:
		m.Group, m.LongGroup = outbox.StandInGroup(string(joined)), ""
		d.groupFault(p, at, m, odd)
	case over:
		d.groupFault(p, p.group[0], m, fmt.Errorf("it has more than %d bytes", outbox.MaxGroup))
	}
	if cap(joined) <= 2*outbox.MaxGroup { // or a rare long group would keep its memory
		d.scratch = joined
	}
}

// groupFault notes that field i makes no group. An edit cannot mend that: it changes the message, and leaves it in its group.
func (d *Decoder) groupFault(p *Plan, i int, m *outbox.Message, why error) {
	columns.Undecodable(m, fmt.Sprintf("the group (field %s) of a document of %s cannot be one: "+
		"%v: correct its writer, then drop the message and write it anew with a group that is a string, a number, an ObjectID or a UUID",
		p.names[i], p.Table, why))
}
