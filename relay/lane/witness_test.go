package lane

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
)

// TestJudge is the rule of the witness, case by case: D is the delivery that fails in call 10, in the term 7.
func TestJudge(t *testing.T) {
	t.Parallel()
	const call, epoch = 10, 7
	at := outbox.Position{Log: 1, Commit: 5}
	other := outbox.Position{Log: 1, Commit: 6}
	failedAt := func(epoch, call int64) *Delivery {
		return &Delivery{Tries: 1, Failed: checkpoint.Failure{Epoch: epoch, Call: call}}
	}
	for name, c := range map[string]struct {
		d      *Delivery
		record record
		class  sink.Class
		during string
		shared bool // names share the destination
		want   Judgement
	}{
		"first":                                    {d: &Delivery{}, record: record{several: true}, want: Judgement{Counts: true}},
		"first, of another class":                  {d: &Delivery{}, record: record{several: true}, class: sink.ClassMisconfigured, want: Judgement{Counts: true}},
		"first, delivered before":                  {d: &Delivery{}, record: record{delivered: 9, several: true}, want: Judgement{Counts: true}},
		"first, delivered by the same call":        {d: &Delivery{}, record: record{delivered: 10, several: true}, want: Judgement{Counts: true}},
		"first, delivered by a later call":         {d: &Delivery{}, record: record{delivered: 11, several: true}, want: Judgement{Counts: true, Ends: true}},
		"first, alone":                             {d: &Delivery{}, record: record{only: at}, want: Judgement{Counts: true}},
		"no delivery since":                        {d: failedAt(epoch, 8), record: record{delivered: 8, several: true}},
		"delivered since":                          {d: failedAt(epoch, 8), record: record{delivered: 9, several: true}, want: Judgement{Counts: true, Ends: true}},
		"delivered since, unavailable":             {d: failedAt(epoch, 8), record: record{delivered: 9, several: true}, class: sink.ClassUnavailable, want: Judgement{Counts: true, Ends: true}},
		"delivered since, unreachable":             {d: failedAt(epoch, 8), record: record{delivered: 9, several: true}, class: sink.ClassUnreachable, want: Judgement{Counts: true, Ends: true}},
		"failed in another term":                   {d: failedAt(6, 8), record: record{delivered: 1, several: true}, want: Judgement{Counts: true, Ends: true}},
		"nothing delivered in this term yet":       {d: failedAt(6, 0), record: record{several: true}},
		"alone":                                    {d: failedAt(epoch, 8), record: record{only: at}, want: Judgement{Counts: true, Ends: true}},
		"alone, unavailable":                       {d: failedAt(epoch, 8), record: record{only: at}, class: sink.ClassUnavailable},
		"alone, unreachable":                       {d: failedAt(epoch, 8), record: record{only: at}, class: sink.ClassUnreachable},
		"alone, misconfigured":                     {d: failedAt(epoch, 8), record: record{only: at}, class: sink.ClassMisconfigured},
		"another one is alone":                     {d: failedAt(epoch, 8), record: record{only: other}},
		"counted strictly":                         {d: failedAt(epoch, 8), record: record{several: true}, during: router.Count, want: Judgement{Counts: true, Ends: true}},
		"first, counted strictly":                  {d: &Delivery{}, record: record{several: true}, during: router.Count, want: Judgement{Counts: true, Ends: true}},
		"unavailable, counted strictly":            {d: failedAt(epoch, 8), record: record{several: true}, class: sink.ClassUnavailable, during: router.Count, want: Judgement{Counts: true, Ends: true}},
		"shared, delivered since, misconfigured":   {d: failedAt(epoch, 8), record: record{delivered: 9, several: true}, class: sink.ClassMisconfigured, shared: true},
		"shared, delivered since, unavailable":     {d: failedAt(epoch, 8), record: record{delivered: 9, several: true}, class: sink.ClassUnavailable, shared: true},
		"shared, delivered since, rejected":        {d: failedAt(epoch, 8), record: record{delivered: 9, several: true}, class: sink.ClassRejected, shared: true, want: Judgement{Counts: true, Ends: true}},
		"shared, first, delivered by a later call": {d: &Delivery{}, record: record{delivered: 11, several: true}, class: sink.ClassMisconfigured, shared: true, want: Judgement{Counts: true}},
		"unreachable, counted strictly":            {d: failedAt(epoch, 8), record: record{several: true}, class: sink.ClassUnreachable, during: router.Count},
	} {
		c.d.Message = &outbox.Message{Position: at}
		c.d.Route = &router.Route{Retry: router.Retry{DuringOutage: c.during}}
		to := &Destination{Destination: sink.Destination{Shared: c.shared}, history: history{Record: c.record}}
		if got := to.Judge(c.d, call, c.class, epoch); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// A record knows whether one message alone was attempted since the last delivery.
func TestRecordAlone(t *testing.T) {
	t.Parallel()
	at := func(n uint64) outbox.Position { return outbox.Position{Log: 1, Commit: n} }
	var r record
	if !r.alone(at(1)) {
		t.Error("1 is not alone though nothing was attempted")
	}
	r.Attempt(at(1))
	r.Attempt(at(1))
	if !r.alone(at(1)) || r.alone(at(2)) {
		t.Errorf("after two attempts of 1: %+v", r)
	}
	r.Attempt(at(2))
	r.Attempt(at(1))
	if r.alone(at(1)) {
		t.Error("1 is alone though 2 was attempted in between")
	}
	r.Deliver(4)
	r.Attempt(at(1))
	if !r.alone(at(1)) || r.delivered != 4 {
		t.Errorf("after a delivery and an attempt of 1: %+v", r)
	}
	r.Attempt(at(2))
	r.Answer()
	r.Attempt(at(1))
	if !r.alone(at(1)) || r.delivered != 4 {
		t.Errorf("1 is not alone though 2 was refused for good: %+v", r)
	}
	if r.Deliver(3); r.delivered != 4 {
		t.Errorf("the answer to an earlier call makes the latest one %d", r.delivered)
	}
}

// What is known of a destination outlives it, for as many destinations as are remembered. Of others nothing is a witness.
func TestRecordsOutliveDestinations(t *testing.T) {
	t.Parallel()
	s := NewSink("out", 1, &discard.Sink{}, 1<<20)
	to := func(i int) sink.Destination { return sink.Destination{Name: fmt.Sprint("topic ", i)} }
	s.DestinationOf(to(-1)).Record.Deliver(7)
	for i := range 5 * mostDestinations {
		s.DestinationOf(to(i)).Record.Deliver(int64(i + 1))
	}
	if s.dests[to(-1)] != nil {
		t.Fatal("the first destination is still in memory")
	}
	if r := s.DestinationOf(to(-1)).Record; r.delivered != 7 {
		t.Errorf("of the first destination is remembered %+v, want a delivery by call 7", r)
	}
	for i := range 2 * mostRecent {
		s.DestinationOf(to(i)).Record.Deliver(int64(i + 1))
	}
	if r := s.DestinationOf(to(-1)).Record; r != (record{several: true}) {
		t.Errorf("of a destination that was forgotten is remembered %+v", r)
	}
	if n := len(s.histories.young) + len(s.histories.old); n > mostRecent {
		t.Errorf("%d histories are kept, want at most %d", n, mostRecent)
	}
}

// The head that never failed is probed first, then the one that failed longest ago.
func TestProbeFirst(t *testing.T) {
	t.Parallel()
	s := NewSink("out", 1, &discard.Sink{}, 1<<20)
	s.Epoch = 7
	var q Destination
	add := func(tries int, epoch, call int64) *Lane {
		l := NewLane(s, "")
		l.Queue.Push(&Delivery{Lane: l, Tries: tries, Failed: checkpoint.Failure{Epoch: epoch, Call: call}})
		q.Ready = append(q.Ready, l)
		return l
	}
	late, early, before, never := add(1, 7, 9), add(3, 7, 4), add(1, 6, 100), add(0, 0, 0)
	for i, want := range []*Lane{never, before, early, late} {
		if !q.ProbeFirst(now0, 9) || q.Ready[0] != want {
			t.Fatalf("probe %d is of the wrong lane", i+1)
		}
		q.Ready = q.Ready[1:]
	}
	add(1, 7, 10)
	if q.ProbeFirst(now0, 9) {
		t.Error("a head is probed again in a round in which it has failed")
	}
	if add(1, 6, 10); !q.ProbeFirst(now0, 9) {
		t.Error("a head is not probed that failed in another term")
	}
}
