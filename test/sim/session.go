package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// errSession is what a lost session answers; what it was doing may or may not have been committed.
var errSession = errors.New("the session is gone")

// A session is a checkpoint.Store: one connection that holds the pipeline's lock.
type session struct {
	inst   *instance
	id     int
	dead   bool
	closed bool
	loaded bool
	last   time.Time // last statement that the server saw
	heard  time.Time // last answer that the relay got
	inUse  bool
	// applying are the lanes of a request that is being carried out; onAnswer runs when its answer is heard.
	applying []checkpoint.Lane
	onAnswer func()
	// knows is what this run of the relay was told about holds and pauses, and since which step.
	paused map[string]int
	held   map[checkpoint.Lane]int
}

// open takes the lock.
func (i *instance) open(ctx context.Context) (checkpoint.Store, error) {
	w := i.w
	var x *session
	c := &call{inst: i, label: fmt.Sprintf("relay %d open", i.id)}
	c.effect = func() {
		w.server.idle()
		if w.faulty(1) {
			c.err = errCut
			return
		}
		if w.server.holder != nil {
			c.err = checkpoint.ErrLocked
			return
		}
		w.server.sessions++
		x = &session{inst: i, id: w.server.sessions, last: time.Now(), paused: map[string]int{}, held: map[checkpoint.Lane]int{}}
		w.server.holder = x
		i.session = x
	}
	c.answered = func() {
		if x != nil {
			x.heard = time.Now()
		}
	}
	c.lost = func() {
		if x != nil {
			x.cancelled()
		}
	}
	if err := w.do(ctx, c); err != nil {
		return nil, err
	}
	return x, nil
}

// do runs one call of the store on the session. What effect does is one transaction: it happens or it does not, and
// the relay may not hear which.
func (x *session) do(ctx context.Context, name string, effect func() error) error {
	w := x.inst.w
	c := &call{inst: x.inst, kind: storeCall, label: fmt.Sprintf("relay %d session %d %s", x.inst.id, x.id, name)}
	c.admit = func() {
		if x.inUse && !c.left {
			w.fail("store", "%s: the session is used by two goroutines at once", name)
		}
		if x.closed && !c.left {
			w.fail("store", "%s: the session was closed", name)
		}
		if !x.loaded && name != "load" && name != "ping" && name != "close" {
			w.fail("store", "%s: before load", name)
		}
		x.inUse = true
	}
	c.effect = func() {
		w.server.idle()
		if !x.dead && w.faulty(w.plan.storeFault) {
			w.server.kill(x, "connection lost before "+name)
		}
		if x.dead {
			c.err = errSession
			return
		}
		c.err = effect()
		x.last = time.Now()
		if w.faulty(w.plan.storeFault) {
			w.server.kill(x, "connection lost after "+name)
		}
	}
	c.answered = func() {
		x.inUse = false
		if x.dead {
			c.err = errSession
			return
		}
		x.heard = time.Now()
		if x.onAnswer != nil {
			x.onAnswer()
			x.onAnswer = nil
		}
	}
	c.lost = func() {
		x.inUse = false
		x.cancelled()
	}
	return w.do(ctx, c)
}

// cancelled ends the session as a driver does when a call is given up: what the server did is not known. When the whole
// process was killed, the server may not notice.
func (x *session) cancelled() {
	if !x.inst.dead {
		x.inst.w.server.kill(x, "a call was cancelled")
	}
}

// Load reads the state.
func (x *session) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	s := &x.inst.w.server
	var l *checkpoint.Loaded
	err := x.do(ctx, "load", func() error {
		x.loaded = true
		x.inst.run++
		clear(s.w.narrowed)
		x.inst.began = s.w.step
		l = &checkpoint.Loaded{
			Checkpoint: copyCheckpoint(s.checkpoint), Blocked: s.blockedLanes(), PausedSinks: slices.Clone(s.paused),
			HeldLanes: slices.Clone(s.held), UncleanStarts: s.unclean, Started: s.started, AcceptGap: s.acceptGap,
			SourceID: s.sourceID(),
		}
		for _, p := range s.parked {
			if p.State != checkpoint.StateDropped && !slices.Contains(l.ParkedSinks, p.Sink) {
				l.ParkedSinks = append(l.ParkedSinks, p.Sink)
			}
			p.ackRun = 0
		}
		s.unclean++
		for _, name := range s.paused {
			x.paused[name] = s.w.step
		}
		for _, lane := range s.held {
			x.held[lane] = s.w.step
		}
		s.w.logf("loaded %s, blocked %v", describe(l.Checkpoint), l.Blocked)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Settle makes outcomes durable.
func (x *session) Settle(ctx context.Context, set *checkpoint.Settlement) (*checkpoint.Settled, error) {
	s := &x.inst.w.server
	var done *checkpoint.Settled
	err := x.do(ctx, "settle", func() error {
		var err error
		done = s.settle(x, set)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// Save writes a checkpoint without outcomes.
func (x *session) Save(ctx context.Context, c *checkpoint.Checkpoint) error {
	return x.do(ctx, "save", func() error {
		s := &x.inst.w.server
		s.save(copyCheckpoint(c), false)
		s.unclean = 0
		return nil
	})
}

// Starting records what is about to be decoded.
func (x *session) Starting(ctx context.Context, p checkpoint.CrashCandidate) error {
	return x.do(ctx, "starting "+p.String(), func() error {
		x.inst.w.server.started = p
		return nil
	})
}

// Ping proves that the session is alive. There is one clock, which nobody has to be told of.
func (x *session) Ping(ctx context.Context) (time.Time, error) {
	return time.Time{}, x.do(ctx, "ping", func() error { return nil })
}

// Close ends the session.
func (x *session) Close(ctx context.Context) error {
	w := x.inst.w
	c := &call{inst: x.inst, label: fmt.Sprintf("relay %d session %d close", x.inst.id, x.id)}
	c.admit = func() { x.closed = true }
	c.effect = func() { w.server.kill(x, "closed") }
	c.lost = x.cancelled
	return w.do(ctx, c)
}

// settle is the transaction of Settle. Its order is the contract's: parks, changes, rows, checkpoint.
func (s *server) settle(x *session, set *checkpoint.Settlement) *checkpoint.Settled {
	done := &checkpoint.Settled{}
	for i := range set.Park {
		s.park(&set.Park[i])
	}
	var lanes []checkpoint.Lane
	for i := range set.Changes {
		lane, ordered := s.change(x, &set.Changes[i])
		if ordered && !slices.Contains(lanes, lane) {
			lanes = append(lanes, lane)
		}
	}
	for i := range set.Rows {
		r := &set.Rows[i]
		switch s.settleRow(r) {
		case rowInvisible:
			done.Invisible = append(done.Invisible, i)
		case rowGone:
			done.Gone++
		}
	}
	if set.Checkpoint != nil {
		if s.w.rng.IntN(4) == 0 { // a first try of the transaction may have seen less
			set.Checkpoint(s.unlucky(done.Invisible, len(set.Rows)))
		}
		if c := set.Checkpoint(done.Invisible); c != nil {
			s.save(copyCheckpoint(c), len(set.Park)+len(set.Changes)+len(set.Rows) > 0)
			done.Saved = true
		}
	}
	s.unclean = 0
	s.w.logf("settled: %d parked, %d changes, %d rows, invisible %v, gone %d, saved %v", len(set.Park), len(set.Changes),
		len(set.Rows), done.Invisible, done.Gone, done.Saved)
	for _, lane := range lanes {
		switch {
		case s.isHeld(lane):
		case s.head(lane) == nil:
			done.Open = append(done.Open, lane)
		case s.head(lane).due(time.Now()):
			done.Next = append(done.Next, lane)
		}
	}
	s.grow() // our own writes are log too
	return done
}

// unlucky is a set of invisible rows that holds the real one and perhaps more.
func (s *server) unlucky(real []int, n int) []int {
	var set []int
	for i := range n {
		if slices.Contains(real, i) || s.w.rng.IntN(2) == 0 {
			set = append(set, i)
		}
	}
	return set
}

// save writes the checkpoint, and the oracle looks at it.
func (s *server) save(c *checkpoint.Checkpoint, withOutcomes bool) {
	old := s.checkpoint
	s.w.logf("checkpoint %s", describe(c))
	if old != nil && c.Log > old.Log {
		s.acceptGap = false
	}
	s.w.checkSave(old, c, withOutcomes)
	s.checkpoint = c
	s.started = checkpoint.CrashCandidate{}
	s.w.checkCheckpoint()
	s.saved = time.Now()
}

func copyCheckpoint(c *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	if c == nil {
		return nil
	}
	d := *c
	d.SettledAbove = nil
	for name, ranges := range c.SettledAbove {
		if d.SettledAbove == nil {
			d.SettledAbove = map[string][]checkpoint.Range{}
		}
		d.SettledAbove[strings.Clone(name)] = slices.Clone(ranges)
	}
	return &d
}

func describe(c *checkpoint.Checkpoint) string {
	if c == nil {
		return "none"
	}
	above := ""
	names := sinkNames()
	for _, name := range append([]string{checkpoint.Whole, ""}, names[:]...) {
		for _, r := range c.SettledAbove[name] {
			above += fmt.Sprintf(" %s[%d.%d-%d.%d]", name, r.First.Commit, r.First.N, r.Last.Commit, r.Last.N)
		}
	}
	return fmt.Sprintf("%s log %d sweep %v above%s", c.Resume, c.Log, c.SweepPending, above)
}
