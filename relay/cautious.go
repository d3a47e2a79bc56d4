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

// cautionState is what a cautious start has in hand (R9).
type cautionState struct {
	caution  *caution           // the source asks for the next row
	cautious int                // messages that were taken in hand
	warming  bool               // the sinks are asked to connect
	warmed   chan struct{}      // closed when they have answered; nil: the start is not a cautious one
	suspect  checkpoint.Suspect // what is on record
	since    time.Time          // since when it is in hand
	survived bool               // it is to be struck from the record
}

// startCounting takes back that this start counts as unclean, once it is known that there was nothing to read, and
// nothing was brought back: ends before the first message do not count (R9).
func (e *engine) startCounting() bool {
	if !e.uncounted() || !(e.idleLog && e.looked || e.stops()) {
		return false
	}
	cp := e.saved
	e.operate(func(ctx context.Context) (func(), error) {
		if err := e.store.Save(ctx, &cp); err != nil {
			return nil, fmt.Errorf("save the checkpoint: %w", err)
		}
		return func() { e.counted = true }, nil
	})
	return true
}

// uncounted tells whether this start still counts as unclean though no message was read.
func (e *engine) uncounted() bool { return !e.counted && !e.readAny && e.phase == phaseTailing }

// ask waits for the permission to decode the next row, in a cautious start (R9).
func (e *engine) ask(ctx context.Context, p outbox.Position) error {
	select {
	case <-e.warmed:
	case <-ctx.Done():
		return ctx.Err()
	}
	c := caution{at: p, reply: make(chan error, 1)}
	select {
	case e.cautions <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// warmUpMost is how long a cautious start waits for its sinks.
const warmUpMost = 10 * time.Second

// warmUp has the sinks connect before a message is in hand: who kills relays during that time is not to incriminate the message.
func (e *engine) warmUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmUpMost)
	defer cancel()
	var checks sync.WaitGroup
	for _, s := range e.sinks[1:] {
		checker, ok := s.Sink.(sink.Checker)
		if !ok {
			continue
		}
		checks.Go(func() {
			for _, err := range checker.Check(ctx) {
				e.log.Warn("sink is not ready", "sink", s.Name, "error", err)
			}
		})
	}
	checks.Wait()
}

// beCareful makes the start a cautious one.
func (e *engine) beCareful() {
	e.start.Cautious, e.warmed = e.ask, make(chan struct{})
	e.log.Warn("starting cautiously: message by message", "unclean_starts", e.load.UncleanStarts)
}

// careful tells whether the start is a cautious one.
func (e *engine) careful() bool { return e.warmed != nil }

// carefully takes the next message in hand, in a cautious start. What is parked comes first: it is before what the log holds, and
// what is settled of the log would make the next start forget how many have ended.
func (e *engine) carefully(now time.Time) bool {
	switch {
	case !e.careful():
		return false
	case !e.warming:
		e.warming = true
		go func() {
			defer close(e.warmed)
			e.warmUp(e.callCtx)
		}()
	case e.cautious > cautiousMessages && e.counted && e.nothingInHand(): // with a log that has nothing to read
		e.log.Info("cautious start is over")
		e.failed = errRestart
		return true
	}
	return e.stage == running && e.dueNow(now) || e.cautionNow()
}

// nothingInHand tells that no message is in hand that may end the relay: none was read, brought back, or is being decoded. And that
// sinks are connected, so that none has to be.
func (e *engine) nothingInHand() bool {
	select {
	case <-e.warmed:
	default:
		return false
	}
	return e.list.Next == &e.list && len(e.inHand) == 0 && e.suspect.Times == 0 && e.storeIdle()
}

// bringCarefully takes what is parked in hand once it is on record. The poller looks again when that is settled, or a while later where it
// cannot be brought yet: the log is to be read on meanwhile.
func (e *engine) bringCarefully(p *checkpoint.Parked, now time.Time) {
	if s := e.byName[p.Sink]; s == nil || s.Sink == nil && !e.inTurn(p) {
		e.dueSoon(e.cfg.Tick, now)
		return
	}
	e.accuse(again(e.load.Started, p.Message.Position), func() {
		now, before := time.Now(), len(e.inHand)
		e.bring(p, now)
		if len(e.inHand) > before {
			e.cautious++
			e.dueAsked = true
			return
		}
		e.survived = true // its lane cannot take it now
		e.dueSoon(e.cfg.Tick, now)
	})
}

// cautionNow lets the source decode one more row, when everything before it is settled and its position is written down.
func (e *engine) cautionNow() bool {
	if e.caution == nil || e.stops() || e.list.Next != &e.list || len(e.inHand) > 0 || !e.storeIdle() {
		return false
	}
	c := e.caution
	e.caution = nil
	// Only where something was settled, or the next start would be as cautious, and read the same messages: those that a
	// checkpoint names as settled, say, which are behind nothing that moves it.
	if e.cautious++; e.cautious > cautiousMessages && e.counted {
		e.log.Info("cautious start is over")
		c.reply <- errRestart
		return false
	}
	e.accuse(again(e.load.Started, c.at), func() { c.reply <- nil })
	return true
}

// again is the record of a message that is taken in hand, after the record that the start found.
func again(started checkpoint.Suspect, at outbox.Position) checkpoint.Suspect {
	suspect := checkpoint.Suspect{Position: at, Times: 1}
	if at == started.Position {
		suspect.Times += started.Times
	}
	return suspect
}

// proven is why a message must not be sent whose handling has ended so many relays, nil for all others.
func (e *engine) proven(at outbox.Position) *lane.Failure {
	if e.load.Started.Times < crashes || at != e.load.Started.Position {
		return nil
	}
	return &lane.Failure{Class: sink.ClassCrash.String(), Err: fmt.Sprintf(
		"the relay ended %d times in a row while it handled this message", e.load.Started.Times)}
}

// accuse puts a message on record, or with the zero Suspect takes it off.
func (e *engine) accuse(suspect checkpoint.Suspect, then func()) {
	e.operate(func(ctx context.Context) (func(), error) {
		if err := e.store.Starting(ctx, suspect); err != nil {
			return nil, fmt.Errorf("note the next message: %w", err)
		}
		return func() {
			e.accused(suspect)
			then()
		}, nil
	})
}

// accused takes note of what is on record.
func (e *engine) accused(suspect checkpoint.Suspect) {
	e.suspect, e.since, e.survived = suspect, time.Now(), false
}

// survivedAfter is how long a message must have been in hand to be no suspect, though no sink has answered.
const survivedAfter = 5 * time.Second

// handledCall takes note that a sink has answered for the suspect: what ends the relay later is not that message.
func (e *engine) handledCall(c *call) {
	if e.suspect.Times == 0 {
		return
	}
	for _, r := range c.runs {
		for i := range r.n {
			d := r.lane.Queue.At(i)
			if (d.Back != nil || d.Msg.Seq != 0) && d.Message.Position == e.suspect.Position {
				e.survived = true
			}
		}
	}
}

// acquitNow takes a message off the record that the relay has survived: a sink that hangs, or takes nothing for long, keeps it
// in hand, and whoever kills the relay then would incriminate it.
func (e *engine) acquitNow(now time.Time) bool {
	if e.suspect.Times == 0 || !e.survived && now.Sub(e.since) < survivedAfter {
		return false
	}
	e.accuse(checkpoint.Suspect{}, func() {})
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

// inMemory tells which of the rows that are listed are messages in memory.
func (e *engine) inMemory() map[rowKey]bool {
	listed := map[rowKey]bool{}
	for _, r := range e.listing.Rows {
		listed[rowKey{r.Table, r.ID}] = false
	}
	for m := e.list.Next; m != &e.list; m = m.Next {
		k := rowKey{m.Table, m.ID}
		if _, ok := listed[k]; ok {
			listed[k] = true
		}
	}
	return listed
}
