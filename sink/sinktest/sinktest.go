// Package sinktest is the kit that every kind of sink passes against its real server. It holds a sink to the contract
// of package sink: what was answered with nil has arrived, byte for byte and in order; within a lane the answers are
// nils, then errors; nothing of a delivery is kept after Deliver returned; and an ended context ends a call.
//
// A kind's test makes a Harness and calls Run.
package sinktest

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// A Place is somewhere to deliver to: a sink, connected to a topic, a folder, a path of its own.
type Place struct {
	// Sink is closed by the kit.
	Sink sink.Sink
	// Topic is what deliveries name.
	Topic string
	// Arrived returns what has arrived so far, in order of arrival (over all of the place or per destination). It is asked
	// again until enough has arrived.
	Arrived func(t testing.TB) []Arrival
	// Stop makes the server unreachable, Start brings it back with everything it had. Nil where there is no server.
	Stop, Start func(t testing.TB)
	// Hang makes the server take what is sent without an answer, until the returned function is called. Nil where that
	// cannot be arranged.
	Hang func(t testing.TB) (resume func())
}

// An Arrival is one message as the place's reader sees it.
type Arrival struct {
	ID         string
	Key, Value []byte
	Headers    []outbox.Header
}

// A Harness says how to test one kind of sink.
type Harness struct {
	// New makes a place that nothing has been delivered to. It is called once a test, from its goroutine.
	New func(t *testing.T) Place
	// Faulty, if not nil, takes New's place for the tests that stop the server or make it hang, which then run one after
	// the other: they may share a server that belongs to nobody else.
	Faulty func(t *testing.T) Place

	// Want changes what is expected of a delivery to what the kind's idiom can carry: no key, no difference between nil and
	// empty, headers in any order. By default it is all of it, with the headers of sink.AppendHeaders. It is applied to
	// what should arrive.
	Want func(d *sink.Delivery, a Arrival) Arrival
	// Blind is set for a kind whose deliveries cannot be read back.
	Blind bool
	// Big is the size of the largest value that is tried. Default 1 MiB.
	Big int
}

// Run runs the kit.
func Run(t *testing.T, h Harness) {
	if h.Big == 0 {
		h.Big = 1 << 20
	}
	for _, test := range []struct {
		name  string
		run   func(*testing.T, Harness)
		fault bool
	}{
		{name: "Limits", run: testLimits},
		{name: "Content", run: testContent},
		{name: "Big", run: testBig},
		{name: "Order", run: testOrder},
		{name: "Concurrent", run: testConcurrent},
		{name: "NothingKept", run: testNothingKept},
		{name: "EndedContext", run: testEndedContext},
		{name: "Hang", run: testHang, fault: true},
		{name: "Restart", run: testRestart, fault: true},
		{name: "StopInTheMiddle", run: testStopInTheMiddle, fault: true},
		{name: "Close", run: testClose},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := h
			if test.fault && h.Faulty != nil {
				h.New = h.Faulty
			} else {
				t.Parallel()
			}
			test.run(t, h)
		})
	}
}

// want is what should arrive of d.
func (h Harness) want(d *sink.Delivery) Arrival {
	a := Arrival{ID: d.Message.ID, Key: d.Key, Value: d.Value, Headers: sink.AppendHeaders(nil, d, true)}
	if h.Want != nil {
		a = h.Want(d, a)
	}
	return a
}

// delivery makes the n-th delivery of a group.
func delivery(p Place, group string, n int) *sink.Delivery {
	m := &outbox.Message{
		ID: fmt.Sprintf("%s-%06d", group, n), Type: "Counted", Topic: p.Topic, Group: group,
		Position: outbox.Position{Log: 1, Commit: uint64(n) + 1},
	}
	return &sink.Delivery{
		Message: m, Topic: p.Topic, Key: []byte(group), Value: fmt.Appendf(nil, `{"group":%q,"n":%d}`, group, n),
		Source: "kit", Attempt: 1,
	}
}

// lane makes n deliveries of a group.
func lane(p Place, group string, n int) []*sink.Delivery {
	ds := make([]*sink.Delivery, n)
	for i := range ds {
		ds[i] = delivery(p, group, i)
	}
	return ds
}
