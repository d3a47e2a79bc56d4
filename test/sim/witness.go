package sim

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// witnesses is what the oracle knows of a destination, for R14: an outage is no message's fault.
type witnesses struct {
	delivered int // number of the latest call, by its beginning, that delivered something
	// tried are the messages that were attempted since the last delivery, or since the relay's run began.
	tried []*message
	inst  *instance
	run   int
	// doubtful are failures that were heard at this moment and do not count: the relay may hear of a delivery first.
	doubtful []doubt
	// barren are the calls in a row that delivered nothing. speaks: the answer to the last of them speaks of the destination.
	barren int
	speaks bool
}

// doubt is a failure that counts if a call that began after another one delivers at the same moment.
type doubt struct {
	of    *fate
	after int
	at    time.Time
}

type placeOf struct {
	sink string
	dest sink.Destination
}

func (w *World) witnessesOf(a *attempt, i int) *witnesses {
	at := placeOf{a.sink.name(), a.items[i].dest}
	x := w.witness[at]
	if x == nil {
		x = &witnesses{}
		w.witness[at] = x
	}
	if x.inst != a.sink.inst || x.run != a.run {
		x.inst, x.run, x.tried, x.barren = a.sink.inst, a.run, nil, 0
	}
	return x
}

// begins notes that a call begins.
func (w *World) begins(a *attempt) {
	w.calls++
	a.number = w.calls
	if len(a.items) == 1 {
		w.witnessesOf(a, 0).try(a.items[0].m)
	}
}

// try notes an attempt of a message.
func (x *witnesses) try(m *message) {
	if !slices.Contains(x.tried, m) {
		x.tried = append(x.tried, m)
	}
}

// testify judges the answers that the relay hears, by the rule of the witness: which failures may count against a message. If the relay
// may see things in another order, it is the more generous of the two.
func (w *World) testify(a *attempt) {
	delivered := slices.Contains(a.answers, nil)
	for i := range a.items {
		x := w.witnessesOf(a, i)
		if a.answers[i] == nil {
			x.deliver(a.number)
		} else if class, _, _ := sink.Classify(a.answers[i]); class == sink.ClassPermanent {
			x.tried = nil // it works
		}
	}
	tried, speaks := false, false
	for i := range a.items {
		it, x := &a.items[i], w.witnessesOf(a, i)
		class, _, whole := sink.Classify(a.answers[i])
		if a.answers[i] == nil || class == sink.ClassThrottled || class == sink.ClassNotAttempted || class == sink.ClassPermanent || it.m == nil {
			continue
		}
		tried, speaks = true, speaks || class == sink.ClassUnavailable || class == sink.ClassUnreachable
		if whole && len(a.items) > 1 {
			continue // free
		}
		if len(a.items) > 1 {
			x.try(it.m)
		}
		f := it.m.fate(a.sink.name())
		limits := a.sink.Limits()
		after := max(f.failed, a.number-limits.Concurrency) // of the first failure: calls that begin together have no order
		if f.failures > 0 {
			after = f.failed
		}
		alone := class == sink.ClassRejected && (len(x.tried) == 1 && x.tried[0] == it.m || len(x.tried) == 0)
		if f.failures == 0 || x.delivered > after || alone {
			f.counted++
		} else {
			x.doubtful = append(x.doubtful, doubt{f, after, time.Now()})
		}
		f.failures++
		f.failed = w.calls
	}
	if x := w.witnessesOf(a, 0); delivered {
		x.barren = 0
	} else if tried {
		x.barren++
		x.speaks = speaks
	}
}

// deliver notes that a call delivered something.
func (x *witnesses) deliver(number int) {
	x.delivered, x.tried = max(x.delivered, number), nil
	for _, d := range x.doubtful {
		if d.after < number && d.at.Equal(time.Now()) {
			d.of.counted++
		}
	}
	x.doubtful = nil
}

// fails reports whether the relay may take a destination for failing as a whole: then a call that fails as a whole begins no narrowing. Five
// calls are enough, and three that took long if their answers speak of the destination.
func (x *witnesses) fails() bool { return x.barren >= 5 || x.speaks && x.barren >= 3 }

// checkDeath is R14: a message that its sink fails dies only if as many failures counted as it has attempts.
func (w *World) checkDeath(p *parked) {
	switch p.ErrorClass {
	case sink.ClassRejected.String(), sink.ClassUnavailable.String(), sink.ClassUnreachable.String(), sink.ClassMisconfigured.String():
	default:
		return
	}
	limit, counted := w.plan.route(p.m.typ).Retry.Attempts, p.m.fate(p.Sink).counted
	if counted < limit {
		w.fail("R14", "%s is dead at %q by a failure of class %s, and %d of %d failures count against it", p.m, p.Sink, p.ErrorClass, counted, limit)
	}
}

// forgive forgets what counts against a delivery that is replayed.
func (f *fate) forgive() { f.failures, f.counted, f.failed = 0, 0, 0 }
