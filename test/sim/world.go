package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A Subject is a relay under test: it runs until ctx ends (a soft stop, nil) or an operator has to act.
type Subject func(ctx context.Context, e *Env) error

// Env is what one start of a relay is given.
type Env struct {
	Source source.Source
	Open   func(context.Context) (checkpoint.Store, error)
	Sinks  map[string]sink.Sink
	Plan   *Plan
	// Reloads ask the relay to take its configuration anew while it runs. The relay may be late, and need not answer.
	Reloads <-chan struct{}
	// Rand is for the relay's jitter.
	Rand *rand.Rand
	// Logger writes into the trace.
	Logger *slog.Logger
	// Bug is told of states that the relay must never be in. Each breaks the schedule.
	Bug func(error)
}

// Options of a schedule.
type Options struct {
	Seed uint64
	// Trace gets a line an event, if set.
	Trace func(line string)
	// CountDuplicates makes the oracle count duplicates without a reason (I7), and whatever else follows when the log is
	// read again from before the checkpoint, instead of failing.
	CountDuplicates bool
}

// A Result is what came of a schedule.
type Result struct {
	// Violation is the first invariant that broke, or nil.
	Violation error
	Stats
}

// Stats count what happened in a schedule.
type Stats struct {
	Steps, Messages, Deliveries int
	// Duplicates are deliveries to a sink that had the message already; Unexplained those that I7 does not allow.
	Duplicates, Unexplained int
	// Parked, Dead, Verbs, Kills, Gaps, Reloads tell that the schedule went where it should.
	Parked, Dead, Verbs, Kills, Gaps, Reloads int
}

// Add sums up.
func (s *Stats) Add(t Stats) {
	s.Steps += t.Steps
	s.Messages += t.Messages
	s.Deliveries += t.Deliveries
	s.Duplicates += t.Duplicates
	s.Unexplained += t.Unexplained
	s.Parked += t.Parked
	s.Dead += t.Dead
	s.Verbs += t.Verbs
	s.Kills += t.Kills
	s.Gaps += t.Gaps
	s.Reloads += t.Reloads
}

// A World is one schedule in the making.
type World struct {
	opts  Options
	rng   *rand.Rand
	plan  *Plan
	begin time.Time

	// mu guards what calls touch before the scheduler sees them.
	mu       sync.Mutex
	arrived  []*call
	confirms []func()
	bugs     []error
	traceMu  sync.Mutex

	// The rest belongs to the scheduler; relays see it only while it waits.
	pending   []*call
	instances []*instance
	server    server
	sinks     [sinks]sinkState
	messages  []*message
	edited    map[string]*message                 // by table and the id that an edit gave
	composed  []string                            // all ids
	narrowed  map[checkpoint.Lane]int             // length of a run that failed as a whole
	marks     map[checkpoint.Lane]outbox.Position // the highest position of a first delivery
	bare      []time.Time                         // when bare progress was saved by the run bareBy of a session
	bareBy    [2]int
	step      int
	quiet     bool
	violation error
	stats     Stats
	witness   map[placeOf]*witnesses
	calls     int     // of sinks
	script    *script // nil: everything is drawn
}

// An instance is one process of the relay.
type instance struct {
	w      *World
	id     int
	dead   bool // killed: no call of it has an effect any more; guarded by World.mu
	cancel context.CancelFunc
	reload chan struct{}
	done   chan struct{}
	err    error
	seen   bool // its end was looked at
	// run counts the times it read its state and forgot everything else; began is the step of the last.
	run     int
	began   int
	session *session
	tail    *tail
	stopped bool // was asked to stop
}

// Schedule runs one schedule. It must be called inside a synctest bubble, which it leaves without goroutines.
func Schedule(subject Subject, opts Options) Result {
	w := newWorld(opts)
	w.plan = drawPlan(w.rng)
	w.plan.drawReloads(rand.New(rand.NewPCG(opts.Seed, reloadSeed)))
	w.server.init(w)
	w.writeBefore()
	w.start(subject)
	for w.step < w.plan.steps && w.violation == nil {
		w.turn(subject)
	}
	if w.violation == nil {
		w.settleDown(subject)
	}
	w.tearDown()
	w.stats.Steps = w.step
	w.stats.Messages = len(w.messages)
	return Result{Violation: w.violation, Stats: w.stats}
}

// turn is one step of the scheduler.
func (w *World) turn(subject Subject) {
	w.step++
	synctest.Wait()
	w.intake()
	w.reap()
	if w.violation != nil {
		return
	}
	ready := w.ready()
	r := w.rng.IntN(100)
	switch {
	case len(ready) > 0 && r < w.plan.awaitShare:
		c := ready[w.rng.IntN(len(ready))]
		if c.kind == w.plan.slow && w.rng.IntN(4) > 0 {
			return
		}
		w.advance(c)
	case w.rng.IntN(100) < w.plan.actShare:
		w.act(subject)
	default:
		w.pass()
	}
}

func (w *World) ready() []*call {
	var ready []*call
	for _, c := range w.pending {
		if c.effected || c.ready == nil || c.ready() {
			ready = append(ready, c)
		}
	}
	return ready
}

// pass lets time go by, and the relay's timers fire in it.
func (w *World) pass() {
	steps := [...]time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
		time.Second, time.Second, 3 * time.Second}
	d := steps[w.rng.IntN(len(steps))]
	if w.rng.IntN(30) == 0 {
		d = time.Duration(4+w.rng.IntN(10)) * time.Second
	}
	w.logf("time passes: %v", d)
	time.Sleep(d)
}

// start begins a new process of the relay.
func (w *World) start(subject Subject) {
	ctx, cancel := context.WithCancel(context.Background())
	inst := &instance{w: w, id: len(w.instances), cancel: cancel, done: make(chan struct{}), reload: make(chan struct{}, 1)}
	inst.tail = newTail(inst)
	w.instances = append(w.instances, inst)
	env := &Env{Source: inst.tail, Open: inst.open, Sinks: map[string]sink.Sink{}, Plan: w.plan, Bug: w.bug, Reloads: inst.reload,
		Rand: rand.New(rand.NewPCG(w.opts.Seed, uint64(inst.id))), Logger: w.logger()}
	for i, name := range sinkNames() {
		env.Sinks[name] = newSink(inst, i)
	}
	w.logf("relay %d starts", inst.id)
	go func() {
		defer close(inst.done)
		inst.err = subject(ctx, env)
	}()
}

// bug takes a relay's word that it is in a state that it must not be in.
func (w *World) bug(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bugs = append(w.bugs, err)
}

// running returns the processes that were neither killed nor have ended.
func (w *World) running() []*instance {
	return slices.DeleteFunc(slices.Clone(w.instances), func(i *instance) bool { return i.dead || i.seen })
}

// reap looks at the processes that ended by themselves.
func (w *World) reap() {
	for _, inst := range w.instances {
		select {
		case <-inst.done:
		default:
			continue
		}
		if inst.seen {
			continue
		}
		inst.seen = true
		if inst.dead {
			continue
		}
		w.logf("relay %d ends: %v", inst.id, errText(inst.err))
		inst.tail.ended()
		switch {
		case inst.stopped && inst.err != nil && !errors.Is(inst.err, source.ErrUnjudged):
			w.fail("stop", "a soft stop returned: %v", inst.err)
		case inst.err == nil && !inst.stopped:
			w.fail("I6", "the relay ended by itself, without an error")
		case inst.err != nil && !inst.stopped && !errors.Is(inst.err, source.ErrUnjudged):
			w.fail("I6", "the relay gave up: %v", inst.err)
		case errors.Is(inst.err, source.ErrUnjudged):
			w.server.acceptGap = true
			w.logf("operator accepts the gap")
		}
		if s := inst.session; s != nil && !s.dead && !s.closed {
			w.server.kill(s, "its process ended")
		}
	}
}

// kill is kill -9: nothing the process has begun goes on.
func (w *World) kill(inst *instance) {
	w.logf("relay %d is killed", inst.id)
	w.stats.Kills++
	w.mu.Lock()
	inst.dead = true
	w.mu.Unlock()
	w.abort(inst)
	inst.tail.ended()
	if s := inst.session; s != nil && w.rng.IntN(3) > 0 {
		w.server.kill(s, "its process was killed") // else the server finds out by its own timeouts
	}
	inst.cancel()
}

// tearDown ends all goroutines of the schedule.
func (w *World) tearDown() {
	for _, inst := range w.instances {
		if !inst.seen && !inst.dead {
			w.kill(inst)
		}
	}
	for range 100 {
		synctest.Wait()
		w.mu.Lock()
		w.arrived = nil
		w.mu.Unlock()
		if !slices.ContainsFunc(w.instances, func(i *instance) bool { return !isClosed(i.done) }) {
			return
		}
		time.Sleep(10 * time.Second)
	}
	w.fail("stop", "a killed relay did not end within 1000 s of losing its context and every connection")
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// fail notes the first broken invariant.
func (w *World) fail(invariant, format string, args ...any) {
	if w.violation != nil {
		return
	}
	w.violation = fmt.Errorf("%s broken at step %d: %s", invariant, w.step, fmt.Sprintf(format, args...))
	w.logf("*** %v", w.violation)
}

func (w *World) logf(format string, args ...any) {
	if w.opts.Trace == nil {
		return
	}
	w.trace(fmt.Sprintf(format, args...))
}

func (w *World) trace(line string) {
	w.traceMu.Lock()
	defer w.traceMu.Unlock()
	w.opts.Trace(fmt.Sprintf("%4d %8.3fs  ", w.step, time.Since(w.begin).Seconds()) + line)
}

// logger makes what the relay logs a part of the trace.
func (w *World) logger() *slog.Logger {
	if w.opts.Trace == nil {
		return slog.New(slog.DiscardHandler)
	}
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(traceWriter{w}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}))
}

// traceWriter takes lines of a log.
type traceWriter struct{ w *World }

func (t traceWriter) Write(line []byte) (int, error) {
	t.w.trace("  " + strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
