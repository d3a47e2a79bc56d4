package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/relay/memory"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/source"
)

// rowPart is the part of a message that is its row in the user's table; sink parts are the bits below it.
const (
	rowPart  = uint64(1) << 63
	maxSinks = 60
)

// engine is one term as the holder of the lock: it forgets everything when the term ends. Its fields belong to the
// goroutine that runs loop; others talk to it through its channels.
type engine struct {
	cfg   Config
	log   *slog.Logger
	load  *checkpoint.Loaded
	start source.Start
	sweep sweep

	intake  intake       // of the source's goroutine
	sinks   []*lane.Sink // [0] is the sink ""
	byName  map[string]*lane.Sink
	names   []string // of sinks, in the order of their bits
	targets map[*router.Route][]*lane.Sink

	ended   chan ended
	reading chan struct{} // the source has begun to read
	reloads <-chan *reload
	reload  *reload // what this term stops for; nil: nothing

	// callCtx ends when deliveries must stop at once.
	callCtx context.Context //nolint:containedctx // It lives as long as the engine, and longer than the context of its loop.
	failed  error
	epoch   int64 // tells this term from all others

	session    session
	settler    settler
	poller     poller
	parker     parker
	dispatcher dispatcher
	requests   requests
	reconciler reconciler
	cleaner    cleaner
	safeMode   safeMode
	fairness   fairness

	phase    phase
	stage    stage
	touched  []*lane.Lane // see touch
	list     lane.Message // head of the ring of all messages in memory
	deadline time.Time    // of the stage

	inTransaction bool // the last batch ended inside a transaction
	justSettled   bool // the last operation of the store was a settlement

	// cause is the error that stops the reading until an operator acts. Before the term ends, it settles what it has read, because the next start may
	// read with another configuration. patience is when the term stops waiting for that: ShutdownTimeout after the last answer or settlement.
	cause    error
	patience time.Time

	nextTick time.Time
	sampled  time.Time
}

// ended says that a goroutine of the source came back.
type ended struct {
	sweep bool
	err   error
}

// errRestart ends a term without a fault: a new one begins at once.
var errRestart = errors.New("start again")

const (
	// safeModeStarts unclean starts in a row make the next one start in safe mode, which lasts for so many messages (R9).
	safeModeStarts   = 3
	safeModeMessages = 1000
	// crashes is how many times in a row the relay must end while it handles a message before it quarantines the message. One is no proof: whoever
	// kills a relay hits whatever message it handles.
	crashes = 3
)

const (
	pingEvery = 2 * time.Second
	// cutGrace is how long answers of calls that were cut off may still be settled.
	cutGrace = 5 * time.Second
	// sessionTrust is how long after the session's last answer a delivery may start (R12).
	sessionTrust = 5 * time.Second
)

func newEngine(cfg Config, store checkpoint.Store, load *checkpoint.Loaded, cp *checkpoint.Checkpoint,
	sweep source.Snapshot) *engine {
	e := &engine{
		cfg: cfg, log: cfg.Logger, load: load,
		start:   source.Start{From: cp.Resume, Log: cp.Log, LastCommit: cp.LastCommit},
		byName:  map[string]*lane.Sink{},
		targets: map[*router.Route][]*lane.Sink{},
		ended:   make(chan ended, 1),
		reading: make(chan struct{}, 1),
	}
	e.intake = intake{
		cfg: &e.cfg, memory: memory.New(cfg.Memory * 3 / 4), // the rest is the poller's
		received: make(chan *received, 4), cautions: make(chan caution),
	}
	e.session = session{e: e, store: store, stored: make(chan func(), 1)}
	e.sweep.rows = sweep
	e.settler.init(e, cp)
	e.parker.e, e.requests.e, e.reconciler.e, e.cleaner.e, e.fairness.e = e, e, e, e, e
	e.dispatcher = dispatcher{e: e, answers: make(chan *call, 64), over: make(chan struct{}), calls: make(chan func())}
	e.safeMode.e = e
	e.poller = poller{e: e, inHand: map[checkpoint.Key]bool{}}
	e.epoch = int64(cfg.Rand.Uint64()>>1) | 1 // never 0: that means "has not failed"
	e.list.Next, e.list.Prev = &e.list, &e.list
	e.names = []string{""}
	for name := range cfg.Sinks {
		e.names = append(e.names, name)
	}
	slices.Sort(e.names)
	for i, name := range e.names {
		s := lane.NewSink(name, 1<<i, cfg.Sinks[name], cfg.Memory)
		s.Epoch, s.Broken = e.epoch, e.broken
		e.sinks = append(e.sinks, s)
		e.byName[name] = s
	}
	for _, l := range load.Blocked {
		if s := e.byName[l.Sink]; s != nil && l.Group != "" {
			known := s.Lane(l.Group)
			known.On(lane.EvBlock)
			s.Forget(known)
		}
	}
	for _, l := range load.HeldLanes {
		if s := e.byName[l.Sink]; s != nil { // a lane of the sink "" holds its group at every sink
			s.Lane(l.Group).On(lane.EvHold)
		}
	}
	for _, name := range load.PausedSinks {
		if s := e.byName[name]; s != nil {
			s.Paused, s.Down, s.Why = true, time.Now().Add(-lane.ParkAfter), "paused by an operator"
			s.On(lane.EvStall)
		}
	}
	e.start.Reading = func() {
		select {
		case e.reading <- struct{}{}:
		default: // told already
		}
	}
	if load.UncleanStarts >= safeModeStarts {
		e.safeMode.enable()
	}
	return e
}

// run works until ctx ends, then stops softly; or until something fails.
func (e *engine) run(ctx context.Context) error {
	srcCtx, stopSource := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSource()
	callCtx, stopCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCalls()
	opCtx, stopOps := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOps()
	e.callCtx, e.session.opCtx = callCtx, opCtx
	for _, s := range e.sinks[1:] {
		s.Begin(callCtx)
	}
	running := 0
	read := func() {
		running++
		if e.phase == phaseSweeping {
			go func() { e.ended <- ended{true, e.sweep.rows.Pending(srcCtx, e.start.Log, e.intake.emit)} }()
			return
		}
		go func() { e.ended <- ended{false, e.cfg.Source.Run(srcCtx, e.start, e.intake.emit)} }()
	}
	if e.sweep.rows != nil {
		e.phase = phaseSweeping
		e.state("sweeping")
	} else {
		e.tellState("connecting", "")
	}
	read()
	err := e.loop(ctx, func() { running-- }, read, stopCalls)
	// The source stays connected until its last confirmation is on its way; then it is told to stop, and waited for.
	stopSource()
	stopCalls()
	stopOps()
	e.leave(running)
	if e.safeMode.warming {
		<-e.intake.warmed
	}
	if e.sweep.rows != nil {
		err = errors.Join(err, e.sweep.rows.Close(context.WithoutCancel(ctx)))
	}
	return err
}

// loop is the engine's goroutine. Only the functions that loop calls change the engine's state.
func (e *engine) loop(ctx context.Context, left, read func(), stopCalls context.CancelFunc) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	e.nextTick = time.Now()
	e.session.pinged = e.nextTick
	for {
		now := time.Now()
		e.pump(now) //nolint:contextcheck // Deliveries run in callCtx, which outlives ctx.
		if e.failed != nil {
			return e.failed
		}
		if e.cause != nil && e.drained() {
			return e.cause
		}
		e.losePatience(now)
		if e.stops() && e.stopped(now, stopCalls) {
			return e.cause
		}
		if e.sweepSettled() {
			if err := e.endSweep(ctx); err != nil {
				return err
			}
			read()
			continue
		}
		timer.Reset(max(e.wakeAt(now).Sub(now), 0))
		in := e.intake.received
		if e.stops() || e.settler.aheadOfStore() {
			in = nil
		}
		select {
		case b := <-in:
			e.onReceived(b, now)
		case c := <-e.dispatcher.answers:
			e.dispatcher.onAnswer(c)
		case f := <-e.session.stored:
			e.session.busy = false
			f()
		case a := <-e.settler.asks:
			a.reply <- e.settler.checkpoint(a.invisible)
		case c := <-e.intake.cautions:
			e.safeMode.caution = &c
		case <-e.reading:
			e.state("tailing")
		case x := <-e.ended:
			left()
			select {
			case <-e.reading: // reading had begun before the source ended
				e.state("tailing")
			default:
			}
			if err := e.onEnded(x); err != nil {
				return err
			}
		case <-timer.C:
		case <-done:
			if done = nil; !e.stops() {
				e.stopSoftly("stopping", now)
			}
		case e.reload = <-e.reloadable():
			e.stopSoftly("reloading: going on with the new configuration when what is in flight has ended", now)
		}
	}
}

// onEnded handles the end of the source's goroutine.
func (e *engine) onEnded(x ended) error {
	if x.sweep {
		if x.err != nil {
			return fmt.Errorf("sweep pending rows: %w", x.err)
		}
		e.sweep.done = true
		return nil
	}
	if x.err == nil {
		x.err = errors.New("the source ended")
	}
	err := fmt.Errorf("read the log: %w", x.err)
	if errors.Is(err, source.ErrStop) && !e.stops() {
		e.drain(err)
		return nil
	}
	return err
}

// sweepSettled reports whether every swept message is settled: only then may the tail begin (R8).
func (e *engine) sweepSettled() bool {
	return e.phase == phaseSweeping && e.sweep.done && !e.stops() && len(e.intake.received) == 0 && e.sweep.open == 0 && e.storeIdle()
}

// endSweep makes the end of the sweep durable; the tail follows.
func (e *engine) endSweep(ctx context.Context) error {
	cp := e.settler.saved
	cp.SweepPending = false
	if err := e.session.store.Save(ctx, &cp); err != nil {
		return fmt.Errorf("save the end of the sweep: %w", err)
	}
	e.settler.saved = cp
	if err := e.sweep.rows.Close(ctx); err != nil {
		e.log.Warn("close the sweep's snapshot", "error", err)
	}
	e.sweep.rows, e.phase = nil, phaseTailing
	return nil
}

// touch takes note that something about a lane has changed. Before the loop sleeps, work finds out what follows from all changes.
func (e *engine) touch(l *lane.Lane) {
	if !l.Is(lane.Touched) {
		l.On(lane.EvTouch)
		e.touched = append(e.touched, l)
	}
}

// work looks at each touched lane: it lists one that has something to park, offers one that can send, and forgets one with nothing to do.
func (e *engine) work(now time.Time) {
	for i := 0; i < len(e.touched); i++ { // what follows may touch lanes
		l := e.touched[i]
		l.On(lane.EvWork)
		e.parker.review(l)
		e.dispatcher.offer(l, now)
		l.Sink.Forget(l)
	}
	clear(e.touched)
	e.touched = e.touched[:0]
}

// pump starts whatever can be started now.
func (e *engine) pump(now time.Time) {
	e.work(now)
	e.fairness.watch(now)
	e.dispatcher.retries.Due(now, func(l *lane.Lane) { e.dispatcher.offer(l, now) })
	if !now.Before(e.nextTick) {
		e.nextTick = now.Add(e.cfg.Tick)
		e.tick(now)
	}
	if !e.stops() && !e.settler.aheadOfStore() {
		for _, s := range e.sinks[1:] {
			if e.failed == nil {
				e.dispatcher.dispatch(s, now)
			}
		}
	}
	e.work(now)
	e.nextOperation(now)
}

// nextOperation gives the store something to do: one operation at a time, on the one session that holds the lock.
func (e *engine) nextOperation(now time.Time) {
	if e.session.busy || e.failed != nil {
		return
	}
	settled := e.justSettled
	e.justSettled = false
	switch {
	case e.safeMode.uncountStart():
	case settled && !e.safeMode.active() && e.besideSettling(now): // a busy store always has more to settle: everything else has its turn in between
	case e.settler.settleNow(now):
		e.justSettled = true
	case e.safeMode.clearNow(now):
	case !e.stops() && e.safeMode.step(now):
	default:
		e.besideSettling(now)
	}
}

// besideSettling begins one of the operations that settle nothing, and returns false if none is due.
func (e *engine) besideSettling(now time.Time) bool {
	on := !e.stops()
	reading := e.stage == running
	switch {
	case on && e.requests.requestNow():
	case reading && e.poller.pageNow():
	case reading && e.poller.dueNow(now):
	case reading && e.reconciler.reconcileNow(now):
	case reading && e.cleaner.cleanNow(now):
	case elapsed(e.session.answered, now) >= pingEvery, on && now.Sub(e.session.pinged) >= clockEvery:
		e.session.pinged = now
		e.session.operate(func(ctx context.Context) (func(), error) {
			note, err := ping(ctx, e.session.store)
			return func() { note(&e.session.clock) }, err
		})
	default:
		return false
	}
	return true
}

// broken takes note of an event that a state does not allow. It ends the term, since memory cannot be trusted any more: the next term
// starts from the database.
func (e *engine) broken(err error) {
	if f := e.cfg.Events.Bug; f != nil {
		f(err)
	}
	if e.failed == nil {
		e.failed = err
	}
}

func (e *engine) storeIdle() bool {
	return !e.session.busy && len(e.settler.outcomes) == 0 && len(e.settler.pending) == 0 && len(e.settler.rows) == 0 && len(e.parker.lanes) == 0
}

// quiet reports whether a soft stop is complete.
func (e *engine) quiet() bool {
	if e.dispatcher.inflight > 0 || e.session.busy || e.safeMode.uncounted() {
		return false
	}
	return len(e.settler.outcomes) == 0 && len(e.settler.pending) == 0 && (len(e.settler.rows) == 0 || e.settler.lastTry) && !e.parker.parkable()
}

func (e *engine) wakeAt(now time.Time) time.Time {
	if len(e.touched) > 0 { // touched by nextOperation, after the last work
		return now
	}
	at := e.nextTick
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	earlier(e.dispatcher.retries.Next())
	if !e.session.busy {
		if e.stage == running && e.poller.loads() {
			earlier(e.poller.dueAt)
		}
		earlier(e.settler.settleAt(now))
		if e.cleaner.cleans() && e.stage == running {
			earlier(e.cleaner.at)
		}
		earlier(e.session.answered.Add(pingEvery))
	}
	for _, s := range e.sinks[1:] {
		earlier(s.Wake(now))
	}
	switch {
	case e.stops():
		earlier(e.deadline)
	case e.stage == draining:
		earlier(e.patience)
	}
	return at
}

// tick runs the checks that are due once per Config.Tick.
func (e *engine) tick(now time.Time) {
	for _, s := range e.sinks[1:] {
		e.dispatcher.checkSink(s, now)
	}
	e.fairness.check(now)
	e.parker.checkPressure(now)
	if now.Sub(e.sampled) >= time.Second {
		e.sampled = now
		e.sample(now)
	}
	e.poller.dueAsked, e.requests.asked = true, true
}
