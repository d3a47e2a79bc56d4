package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/sink"
)

// safeMode finds the message that ends relays (R9). After several unclean ends in a row a start takes messages in hand one by one, each once it
// is on record. It belongs to the engine's goroutine.
type safeMode struct {
	e *engine

	counted bool // the database does not count this start as unclean
	readAny bool // a message was read, or brought back
	idleLog bool // the log had nothing to read at first

	caution   *caution                  // the source asks for the next row
	taken     int                       // messages that were taken in hand
	warming   bool                      // the sinks are asked to connect
	candidate checkpoint.CrashCandidate // what is on record
	since     time.Time                 // since when it is in hand
	survived  bool                      // it is to be struck from the record
}

// uncountStart takes back that this start counts as unclean, once it is known that there was nothing to read, and
// nothing was brought back: ends before the first message do not count (R9).
func (sm *safeMode) uncountStart() bool {
	if !sm.uncounted() || !(sm.idleLog && sm.e.poller.looked || sm.e.stops()) {
		return false
	}
	cp := sm.e.settler.saved
	sm.e.session.operate(func(ctx context.Context) (func(), error) {
		if err := sm.e.session.store.Save(ctx, &cp); err != nil {
			return nil, fmt.Errorf("save the checkpoint: %w", err)
		}
		return func() { sm.counted = true }, nil
	})
	return true
}

// uncounted reports whether the database counts this start as unclean, though no message was read.
func (sm *safeMode) uncounted() bool { return !sm.counted && !sm.readAny && sm.e.phase == phaseTailing }

// warmUpMost is how long a start in safe mode waits for its sinks.
const warmUpMost = 10 * time.Second

// warmUp lets the sinks connect before a message is in hand. A kill while sinks connect must not count against a message.
func (sm *safeMode) warmUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmUpMost)
	defer cancel()
	var checks sync.WaitGroup
	for _, s := range sm.e.sinks[1:] {
		checker, ok := s.Sink.(sink.Checker)
		if !ok {
			continue
		}
		checks.Go(func() {
			for _, err := range checker.Check(ctx) {
				sm.e.log.Warn("sink is not ready", "sink", s.Name, "error", err)
			}
		})
	}
	checks.Wait()
}

// enable makes the start one in safe mode.
func (sm *safeMode) enable() {
	sm.e.intake.warmed = make(chan struct{})
	sm.e.start.SafeMode = sm.e.intake.ask
	sm.e.log.Warn("starting cautiously: message by message", "unclean_starts", sm.e.load.UncleanStarts)
}

// active reports whether the start is one in safe mode.
func (sm *safeMode) active() bool { return sm.e.intake.warmed != nil }

// step takes the next message in hand, in safe mode. Parked messages come first: they are older than the log, and a settlement would reset the count
// of unclean starts before they were tried.
func (sm *safeMode) step(now time.Time) bool {
	switch {
	case !sm.active():
		return false
	case !sm.warming:
		sm.warming = true
		go func() {
			defer close(sm.e.intake.warmed)
			sm.warmUp(sm.e.callCtx)
		}()
	case sm.taken > safeModeMessages && sm.counted && sm.nothingInHand(): // needed if the log has nothing to read, because nextRow does not run then
		sm.e.log.Info("cautious start is over")
		sm.e.failed = errRestart
		return true
	}
	return sm.e.stage == running && sm.e.poller.dueNow(now) || sm.nextRow()
}

// nothingInHand reports whether no message that could end the relay is in hand (none was read, loaded, or is being decoded), and the sinks have
// connected.
func (sm *safeMode) nothingInHand() bool {
	select {
	case <-sm.e.intake.warmed:
	default:
		return false
	}
	return sm.e.list.Next == &sm.e.list && len(sm.e.poller.inHand) == 0 && sm.candidate.Times == 0 && sm.e.storeIdle()
}

// loadAlone records a parked delivery, then loads it. If it cannot be loaded yet, the poller tries again after a tick, and the log is read on
// meanwhile.
func (sm *safeMode) loadAlone(p *checkpoint.Parked, now time.Time) {
	if s := sm.e.byName[p.Sink]; s == nil || s.Sink == nil && !sm.e.poller.gateOpen(p) {
		sm.e.poller.dueSoon(sm.e.cfg.Tick, now)
		return
	}
	sm.record(nextCandidate(sm.e.load.Started, p.Message.Position), func() {
		now, before := time.Now(), len(sm.e.poller.inHand)
		sm.e.poller.load(p, now)
		if len(sm.e.poller.inHand) > before {
			sm.taken++
			sm.e.poller.dueAsked = true
			return
		}
		sm.survived = true // its lane cannot take it now
		sm.e.poller.dueSoon(sm.e.cfg.Tick, now)
	})
}

// nextRow lets the source decode one more row, when everything before it is settled and its position is written down.
func (sm *safeMode) nextRow() bool {
	if sm.caution == nil || sm.e.stops() || sm.e.list.Next != &sm.e.list || len(sm.e.poller.inHand) > 0 || !sm.e.storeIdle() {
		return false
	}
	c := sm.caution
	sm.caution = nil
	// Safe mode ends only if something was settled. Otherwise the next start would be in safe mode, too, and read the same messages, for example
	// those that settled_above names: they do not move the checkpoint.
	if sm.taken++; sm.taken > safeModeMessages && sm.counted {
		sm.e.log.Info("cautious start is over")
		c.reply <- errRestart
		return false
	}
	sm.record(nextCandidate(sm.e.load.Started, c.at), func() { c.reply <- nil })
	return true
}

// nextCandidate returns the record of a message that is about to be handled. If the start found a record of the same message, it counts on from that.
func nextCandidate(started checkpoint.CrashCandidate, at outbox.Position) checkpoint.CrashCandidate {
	candidate := checkpoint.CrashCandidate{Position: at, Times: 1}
	if at == started.Position {
		candidate.Times += started.Times
	}
	return candidate
}

// quarantined returns why a message must not be sent: the relay has ended at least crashes times in a row while it handled the message. It returns
// nil for all other messages.
func (sm *safeMode) quarantined(at outbox.Position) *lane.Failure {
	if sm.e.load.Started.Times < crashes || at != sm.e.load.Started.Position {
		return nil
	}
	return &lane.Failure{Class: sink.ClassCrash.String(), Err: fmt.Sprintf(
		"the relay ended %d times in a row while it handled this message", sm.e.load.Started.Times)}
}

// record puts a message on record, or with the zero CrashCandidate takes it off.
func (sm *safeMode) record(candidate checkpoint.CrashCandidate, then func()) {
	sm.e.session.operate(func(ctx context.Context) (func(), error) {
		if err := sm.e.session.store.Starting(ctx, candidate); err != nil {
			return nil, fmt.Errorf("note the next message: %w", err)
		}
		return func() {
			sm.recorded(candidate)
			then()
		}, nil
	})
}

// recorded notes which message is on record.
func (sm *safeMode) recorded(candidate checkpoint.CrashCandidate) {
	sm.candidate, sm.since, sm.survived = candidate, time.Now(), false
}

// survivedAfter is how long a message must have been in hand to be no candidate any more, though no sink has answered.
const survivedAfter = 5 * time.Second

// handledCall notes that a sink has answered for the candidate: what ends the relay later is not that message.
func (sm *safeMode) handledCall(c *call) {
	if sm.candidate.Times == 0 {
		return
	}
	for _, r := range c.runs {
		for i := range r.n {
			d := r.lane.Queue.At(i)
			if (d.Back != nil || d.Msg.Seq != 0) && d.Message.Position == sm.candidate.Position {
				sm.survived = true
			}
		}
	}
}

// clearNow takes a message off the record when the relay has survived it. A sink that hangs keeps its message in hand: a kill during that time
// must not count against the message.
func (sm *safeMode) clearNow(now time.Time) bool {
	if sm.candidate.Times == 0 || !sm.survived && now.Sub(sm.since) < survivedAfter {
		return false
	}
	sm.record(checkpoint.CrashCandidate{}, func() {})
	return true
}

// remember puts a message into the list of those in memory, forgetting takes it out.
func (e *engine) remember(m *lane.Message) {
	m.Prev, m.Next = e.list.Prev, &e.list
	m.Prev.Next, e.list.Prev = m, m
}

func (e *engine) forgetting(m *lane.Message) {
	m.Prev.Next, m.Next.Prev = m.Next, m.Prev
	m.Prev, m.Next = nil, nil
}
