package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// A Scenario is a calm world in which sinks alone fail, as a script says: nothing is late or lost, and all invariants are checked as in a
// Schedule. Times are since its beginning.
type Scenario struct {
	Seed uint64
	// Load is what the application writes.
	Load []Load
	// Sinks get every message. Answer says how one of them answers a delivery, and after how long; a call of the sink array is answered
	// as a whole, by the first error.
	Sinks  []string
	Answer func(Try) (time.Duration, error)
	Retry  router.Retry
	// OnExhausted is the policy of the route.
	OnExhausted router.OnExhausted
	// Kills are when the relay is killed, and a new one started.
	Kills []time.Duration
	// End is when the result is looked at.
	End   time.Duration
	Trace func(line string)
}

// Load is messages that are written at a steady rate, in turn to some groups.
type Load struct {
	From, To time.Duration
	Rate     int // a second
	Groups   int
	// Prefix of the groups' names.
	Prefix string
}

// A Try is a delivery that a sink is to answer.
type Try struct {
	At    time.Duration
	Sink  string
	N     int // of the message, from 0, in the order of their commits
	Group string
}

// An Outcome is what became of a message at a sink.
type Outcome struct {
	N        int
	Sink     string
	Group    string
	Written  time.Duration
	Reached  time.Duration // when the sink took it first; meaningless unless Delivered
	State    checkpoint.State
	Attempts int
	// Delivered: it reached the sink.
	Delivered bool
}

// script is a scenario in progress.
type script struct {
	Scenario
	written []int // of each Load
	killed  int
}

// Play runs a scenario. It must be called inside a synctest bubble, which it leaves without goroutines.
func Play(subject Subject, sc Scenario) ([]Outcome, error) {
	w := newWorld(Options{Seed: sc.Seed, Trace: sc.Trace})
	w.plan = &Plan{Memory: 64 << 20, Tick: time.Second, ShutdownTimeout: 5 * time.Second, atOnce: 100, initialised: true, slow: callKinds,
		tables: []*table{{"public.mrk", outbox.Mark}},
		Routes: []Route{{Type: "s", To: sc.Sinks, Retry: sc.Retry, OnExhausted: sc.OnExhausted}}}
	w.script = &script{Scenario: sc, written: make([]int, len(sc.Load))}
	w.quiet = true // nothing fails by chance
	w.server.init(w)
	w.start(subject)
	for time.Since(w.begin) < sc.End && w.violation == nil {
		w.follow(subject)
	}
	outcomes := w.outcomes()
	w.tearDown()
	return outcomes, w.violation
}

func newWorld(opts Options) *World {
	return &World{opts: opts, rng: rand.New(rand.NewPCG(opts.Seed, 0x7a11b0c5)), begin: time.Now(), edited: map[string]*message{},
		marks: map[checkpoint.Lane]outbox.Position{}, narrowed: map[checkpoint.Lane]int{}, witness: map[placeOf]*witnesses{}}
}

// follow is one step: everything that can go on does, and then a moment passes.
func (w *World) follow(subject Subject) {
	w.step++
	synctest.Wait()
	w.intake()
	w.reap()
	now := time.Since(w.begin)
	if k := w.script.killed; k < len(w.script.Kills) && now >= w.script.Kills[k] {
		w.script.killed++
		w.kill(w.running()[0])
		w.start(subject)
	}
	busy := w.load(now)
	ready := w.ready()
	for _, c := range ready {
		w.advance(c)
	}
	switch {
	case len(ready) > 0:
	case busy || len(w.pending) > 0:
		time.Sleep(time.Millisecond)
	default:
		time.Sleep(250 * time.Millisecond)
	}
}

// load writes what is due, and tells whether there is more to come soon.
func (w *World) load(now time.Duration) (busy bool) {
	for i, l := range w.script.Load {
		if now < l.From || now >= l.To {
			continue
		}
		busy = true
		for due := int((now-l.From)*time.Duration(l.Rate)/time.Second) + 1; w.script.written[i] < due; w.script.written[i]++ {
			m := &message{id: fmt.Sprintf("%06d", len(w.messages)), typ: "s", table: w.plan.tables[0],
				group: fmt.Sprint(l.Prefix, w.script.written[i]%l.Groups)}
			m.key = m.group
			for _, name := range w.script.Sinks {
				m.to = append(m.to, sinkIndex(name))
			}
			w.server.commit([]*message{m}, true)
		}
	}
	return busy
}

// prepare decides what a call will be answered, when it is made.
func (s *script) prepare(w *World, a *attempt, c *call) {
	at := time.Since(w.begin)
	var wait time.Duration
	a.answers = make([]error, len(a.items))
	var whole error
	for i := range a.items {
		it := &a.items[i]
		n, _ := strconv.Atoi(it.id)
		after, err := s.Answer(Try{at, a.sink.name(), n, it.wire})
		wait = max(wait, after)
		a.answers[i] = err
		if whole == nil && err != nil {
			whole = sink.Whole(err)
		}
	}
	if whole != nil && a.sink.name() == "array" {
		a.all(whole)
	}
	ready := time.Now().Add(wait)
	c.ready = func() bool { return !time.Now().Before(ready) }
}

// happen lets arrive what is answered with nil, up to the first error of its group.
func (s *script) happen(k *fakeSink, a *attempt) {
	broken := map[string]bool{}
	for i := range a.items {
		switch group := a.items[i].wire; {
		case group != "" && broken[group]:
			a.answers[i] = sink.ErrNotAttempted
		case a.answers[i] != nil:
			_, _, whole := sink.Classify(a.answers[i])
			broken[group] = !whole
		default:
			k.landed(a, i)
		}
	}
}

// outcomes is what became of each message.
func (w *World) outcomes() []Outcome {
	var all []Outcome
	for n, m := range w.messages {
		for _, name := range m.names() {
			f := m.fate(name)
			o := Outcome{N: n, Sink: name, Group: m.group, Written: m.committed.Sub(w.begin), Delivered: f.delivered > 0}
			if o.Delivered {
				o.Reached = f.reached.Sub(w.begin)
			} else if p := w.parkedAt(m, name); p != nil {
				o.State, o.Attempts = p.State, p.Attempts
			}
			all = append(all, o)
		}
	}
	return all
}

// errUnknown is the partition of a topic that nobody has asked for yet.
var errUnknown = sink.NotAttempted(errors.New("partitions were not known"))
