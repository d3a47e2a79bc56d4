package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// sinkState is the world behind a sink.
type sinkState struct {
	mode  sinkMode
	topic string // that is misconfigured
}

type sinkMode int

const (
	sinkUp sinkMode = iota
	sinkDown
	sinkMisconfigured
	sinkThrottled
	sinkLeaderless // half of it cannot be reached
	sinkRejecting
	sinkUnavailable // what it was given may have arrived
	sinkModes
)

// fakeSink is one process's way to a sink.
type fakeSink struct {
	inst  *instance
	index int
	knows atomic.Bool // the partitions; only wide has any
	calls int         // in flight, the scheduler's
}

// newSink makes the sink with the interfaces of its kind.
func newSink(inst *instance, index int) sink.Sink {
	k := &fakeSink{inst: inst, index: index}
	if sinkNames()[index] == "wide" {
		return &wideSink{k}
	}
	return k
}

// wideSink has destinations: a topic, and one of two partitions by key.
type wideSink struct{ *fakeSink }

// Destination names topic and partition; the partition is not known before the first call.
func (k *wideSink) Destination(d *sink.Delivery) sink.Destination {
	if !k.knows.Load() {
		return sink.Destination{Name: d.Topic, Partition: -1}
	}
	return sink.Destination{Name: d.Topic, Partition: Partition(string(d.Key))}
}

// Partition is where the sink wide puts a key.
func Partition(key string) int32 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int32(h.Sum32() % 2)
}

// Limits differ by sink.
func (k *fakeSink) Limits() sink.Limits {
	switch sinkNames()[k.index] {
	case "wide":
		return sink.Limits{Batch: 10, Concurrency: 3, PerDestination: 1, Run: 8}
	case "array":
		return sink.Limits{Batch: 6, Concurrency: 2, Run: 4}
	case "single":
		if k.inst.w.script != nil {
			return sink.Limits{Batch: 1, Concurrency: 16, Run: 1}
		}
	}
	return sink.Limits{Batch: 3, Concurrency: 3, Run: 1}
}

// Close frees nothing.
func (k *fakeSink) Close(context.Context) error { return nil }

// An attempt is one call of Deliver.
type attempt struct {
	sink    *fakeSink
	items   []item
	answers []error
	run     int      // the relay's run that made it
	number  int      // by the beginning of calls
	session *session // whose lock the relay believed to hold
}

// An item is one delivery of an attempt, copied from what the sink was given.
type item struct {
	m       *message
	table   string
	id      string
	group   string // of its lane, as the oracle sees it
	wire    string // of the message
	at      outbox.Position
	attempt int
	key     string
	dest    sink.Destination
	landed  bool
	alone   bool // a lane of its own, though its message may have a group
}

func (a *attempt) lane(i int) checkpoint.Lane {
	return checkpoint.Lane{Sink: a.sink.name(), Group: a.items[i].group}
}

func (k *fakeSink) name() string { return sinkNames()[k.index] }

// Deliver brings messages to the world's sink.
func (k *fakeSink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	w := k.inst.w
	a := &attempt{sink: k, items: make([]item, len(ds))}
	label := fmt.Sprintf("relay %d deliver %s", k.inst.id, k.name())
	for i, d := range ds {
		m := d.Message
		a.items[i] = item{table: m.Table, id: m.ID, group: m.Group, wire: m.Group, at: m.Position, attempt: d.Attempt,
			key: string(d.Key), dest: d.Destination}
		label += " " + m.Table + ":" + m.ID
	}
	c := &call{inst: k.inst, kind: sinkCall, label: label, attempt: a}
	c.admit = func() {
		k.calls++
		w.checkAttempt(a, c.at)
		w.begins(a)
		if w.script != nil {
			w.script.prepare(w, a, c)
		}
	}
	c.effect = func() { k.happen(a) }
	c.answered = func() {
		k.calls--
		w.heard(a)
	}
	c.lost = func() {
		k.calls--
		if c.effected && !k.inst.dead {
			w.heard(a) // it takes the answers along
			return
		}
		if !k.inst.dead { // it was cut off, which the relay takes for a rejection
			a.answers = make([]error, len(a.items))
			a.all(sink.Rejected(errors.New("cut off")))
			w.testify(a)
		}
		w.unheard(a)
		if !c.effected && w.rng.IntN(4) == 0 && !w.quiet {
			k.land(a, len(a.items)) // it was on the wire
			w.unheard(a)
		}
	}
	err := w.do(ctx, c)
	if err == nil || c.effected && !errors.Is(err, errKilled) {
		k.knows.Store(true)
		return a.answers
	}
	gone := make([]error, len(ds))
	for i := range gone {
		gone[i] = sink.Rejected(err) // it may have been written
	}
	return gone
}

// happen decides what the world makes of an attempt.
func (k *fakeSink) happen(a *attempt) {
	w := k.inst.w
	if w.script == nil {
		a.answers = make([]error, len(a.items))
	}
	if k.name() == "wide" && slices.ContainsFunc(a.items, func(it item) bool { return it.dest.Partition < 0 }) {
		a.all(errUnknown)
		return
	}
	if w.script != nil {
		w.script.happen(k, a)
		return
	}
	state := &w.sinks[k.index]
	switch state.mode {
	case sinkDown:
		a.all(sink.Unreachable(errors.New("connection refused")))
		return
	case sinkLeaderless:
		if a.items[0].dest.Partition == 1 {
			a.all(sink.Unreachable(errors.New("no leader")))
			return
		}
	case sinkThrottled:
		a.all(sink.Throttled(errors.New("too many requests"), time.Duration(w.rng.IntN(2000))*time.Millisecond))
		return
	case sinkRejecting:
		k.outage(a, sink.Rejected(errors.New("internal error")))
		return
	case sinkUnavailable:
		if w.rng.IntN(8) == 0 {
			k.land(a, w.rng.IntN(len(a.items)+1))
		}
		k.outage(a, sink.Unavailable(errors.New("gateway timeout")))
		return
	case sinkMisconfigured:
		if k.name() != "wide" || a.items[0].dest.Name == state.topic {
			a.all(sink.Misconfigured(errors.New("not authorised")))
			return
		}
	}
	if k.name() == "array" {
		k.asWhole(a)
		return
	}
	if k.name() == "wide" && k.names(a) {
		return
	}
	if w.faulty(w.plan.sinkFault) {
		k.fault(a)
		return
	}
	k.each(a, nil)
}

// outage answers everything with an error.
func (k *fakeSink) outage(a *attempt, err error) {
	if k.name() == "array" {
		err = sink.Whole(err)
	}
	a.all(err)
}

// names takes nothing of a call for one message that it names, as a broker does for a batch with a record that it cannot
// take. It tells whether it did; half of the messages that it does not take are refused like that.
func (k *fakeSink) names(a *attempt) bool {
	guilty := slices.IndexFunc(a.items, func(it item) bool {
		return it.m != nil && it.m.poison[k.index] == poisonPermanent && it.m.lsn%2 == 0 && !k.inst.w.quiet
	})
	if guilty < 0 {
		return false
	}
	a.all(sink.ErrNotAttempted)
	a.answers[guilty] = sink.Permanent(errors.New("bad record"))
	return true
}

// each lets every lane's deliveries land up to the first poisoned one, or up to where cut says.
func (k *fakeSink) each(a *attempt, cut func(lane checkpoint.Lane) bool) {
	broken := map[checkpoint.Lane]bool{}
	for i := range a.items {
		// Lanes as the sink sees them: by the message's group alone.
		it, lane := &a.items[i], checkpoint.Lane{Sink: k.name(), Group: a.items[i].wire}
		switch {
		case lane.Group != "" && broken[lane]:
			a.answers[i] = sink.ErrNotAttempted
		case it.m != nil && it.m.poison[k.index] != healthy && !k.inst.w.quiet:
			a.answers[i], broken[lane] = poisonError(it.m.poison[k.index]), true
		case cut != nil && cut(lane):
			a.answers[i], broken[lane] = sink.Rejected(errors.New("try again")), true
		default:
			k.landed(a, i)
		}
	}
}

// fault is one of the ways to fail for a while.
func (k *fakeSink) fault(a *attempt) {
	w := k.inst.w
	switch w.rng.IntN(8) {
	case 0, 1: // the answer is lost; all or some of it arrived
		n := w.rng.IntN(len(a.items) + 1)
		k.land(a, n)
		a.all(sink.Rejected(errors.New("no answer")))
	case 2, 3, 4:
		k.each(a, func(checkpoint.Lane) bool { return w.rng.IntN(2) == 0 })
	case 5:
		a.all(sink.Unreachable(errors.New("connection refused")))
	case 6:
		a.all(sink.Throttled(errors.New("slow down"), time.Duration(w.rng.IntN(1000))*time.Millisecond))
	case 7:
		a.all(sink.NotAttempted(errors.New("not now")))
	}
}

// asWhole answers a call as a whole: all of it landed, or which of it is guilty is not known.
func (k *fakeSink) asWhole(a *attempt) {
	w := k.inst.w
	kind := healthy
	for _, it := range a.items {
		if it.m != nil && !w.quiet {
			kind = max(kind, it.m.poison[k.index])
		}
	}
	switch {
	case kind != healthy:
		a.all(sink.Whole(poisonError(kind)))
	case w.faulty(w.plan.sinkFault):
		if w.rng.IntN(3) == 0 {
			k.land(a, len(a.items))
		}
		a.all(sink.Whole(sink.Rejected(errors.New("no answer"))))
	default:
		k.land(a, len(a.items))
	}
}

// land lets the first n arrive, whatever is answered.
func (k *fakeSink) land(a *attempt, n int) {
	for i := range a.items[:n] {
		k.landed(a, i)
	}
}

func (a *attempt) all(err error) {
	for i := range a.answers {
		a.answers[i] = err
	}
}

// landed is one message reaching the sink.
func (k *fakeSink) landed(a *attempt, i int) {
	it := &a.items[i]
	if it.m == nil || it.landed {
		return
	}
	it.landed = true
	f := it.m.fate(k.name())
	if f.delivered == 0 {
		f.reached = time.Now()
		k.inst.w.first(a, i)
	}
	f.delivered++
	f.fresh++
	k.inst.w.stats.Deliveries++
	if f.delivered > 1 {
		k.inst.w.stats.Duplicates++
	}
	k.inst.w.logf("%s got %s, delivery %d", k.name(), it.m, f.delivered)
}

// heard is the relay learning what became of an attempt.
func (w *World) heard(a *attempt) {
	w.testify(a)
	w.narrow(a)
	for i := range a.items {
		it := &a.items[i]
		if it.m == nil {
			continue
		}
		f := it.m.fate(a.sink.name())
		if a.answers[i] != nil {
			f.unheard = f.unheard || it.landed
			continue
		}
		f.acked, f.ackInst, f.ackRun, f.unheard = true, a.sink.inst, a.run, false
		key := checkpoint.Key{Sink: a.sink.name(), Table: it.table, ID: it.m.id}
		if p := w.server.find(key); p != nil {
			p.ackInst, p.ackRun = a.sink.inst, a.run
		}
	}
}

// unheard is the relay not learning it.
func (w *World) unheard(a *attempt) {
	for i := range a.items {
		if it := &a.items[i]; it.m != nil && it.landed {
			it.m.fate(a.sink.name()).unheard = true
		}
	}
}
