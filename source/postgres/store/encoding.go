package store

import (
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// fitSettlement returns a settlement whose foreign texts fit the encoding. It does not change in, because the caller may settle it again.
func fitSettlement(e session.Encoding, in *checkpoint.Settlement) *checkpoint.Settlement {
	if !e.Narrow() {
		return in
	}
	out := *in
	out.Park, out.Changes, out.Rows = slices.Clone(in.Park), slices.Clone(in.Changes), slices.Clone(in.Rows)
	for i := range out.Park {
		p := &out.Park[i]
		p.LastError, p.Message = e.Fit(p.LastError), fitFault(e, p.Message)
	}
	for i := range out.Changes {
		c := &out.Changes[i]
		c.LastError, c.Receipt = e.Fit(c.LastError), e.Fit(c.Receipt)
	}
	for i := range out.Rows {
		out.Rows[i].Receipt = e.Fit(out.Rows[i].Receipt)
	}
	return &out
}

// fitFault is a message whose fault's reason fits.
func fitFault(e session.Encoding, m *outbox.Message) *outbox.Message {
	if m.Fault == nil {
		return m
	}
	fitting := *m
	fitting.Fault = &outbox.Fault{Class: m.Fault.Class, Reason: e.Fit(m.Fault.Reason)}
	return &fitting
}
