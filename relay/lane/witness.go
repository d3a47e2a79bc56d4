package lane

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// A record is what the rule of the witness needs to know of a destination: a failure counts against a message only if the
// destination could have taken it. Calls are compared by their numbers within the sink, never by time. It is pure.
type record struct {
	delivered int64 // number of the latest call that delivered something; 0 = none
	// only is the position of the one message that was attempted since the last delivery, or since the start. several: there was
	// another.
	only    outbox.Position
	several bool
}

// Attempt notes that the message at this position was tried alone, or was answered with an error of its own. If a call fails as a whole, that is no
// attempt of any of its messages: they are tried again in smaller calls.
func (r *record) Attempt(at outbox.Position) {
	r.several = r.several || r.only != (outbox.Position{}) && r.only != at
	r.only = at
}

// Deliver notes that a call has delivered something.
func (r *record) Deliver(call int64) {
	*r = record{delivered: max(r.delivered, call)}
}

// Answer notes that the destination refused a message for good. That shows that it works. The message then says nothing about failures of others.
func (r *record) Answer() { *r = record{delivered: r.delivered} }

// alone reports whether no other message was attempted since the last delivery.
func (r *record) alone(at outbox.Position) bool {
	return !r.several && (r.only == at || r.only == outbox.Position{})
}

// A Judgement says what a failure costs the message.
type Judgement struct {
	Counts bool // it spends an attempt
	Ends   bool // the message may be given up
}

// judge applies the rule of the witness. The first failure counts, but ends nothing unless it is
// witnessed: another message was delivered by a call that began after d's own. A later failure counts if a message was delivered by a call that began
// after d's previous failure. If no other message was attempted meanwhile, rejected counts without a witness; unavailable or unreachable does not
// (but see DuringOutage).
func (r *record) judge(d *Delivery, call int64, class sink.Class, epoch int64) Judgement {
	first := d.Tries == 0
	after := call
	if !first {
		after = d.Failed.Call
		if d.Failed.Epoch != epoch {
			after = 0 // another term's: earlier than every call of this one
		}
	}
	witnessed := r.delivered > after
	strict := d.Route.Retry.DuringOutage == router.Count && (class == sink.ClassRejected || class == sink.ClassUnavailable)
	believed := witnessed || strict || class == sink.ClassRejected && r.alone(d.Message.Position)
	return Judgement{Counts: first || believed, Ends: witnessed || strict || believed && !first}
}
