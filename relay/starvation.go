package relay

import (
	"errors"
	"math/bits"
	"time"
)

// starvation is the watch over sinks that have nothing to do because what others have not taken fills the memory.
type starvation struct {
	watched time.Time // the last turn
	checked time.Time
	waited  bool // the source waited for memory at the last turn
}

// hunger is for how long a sink has had nothing to do while the source waited for memory.
type hunger struct {
	idles bool          // since the last turn
	spell time.Duration // since the last check
	level time.Duration
}

// sated is how many times faster hunger passes than it grows: a sink starves that is idle for more than four fifths of the
// time. One that is only a little faster than another does not: to park what that one has in memory costs more than it brings.
const sated = 4

// next returns the level of hunger after some time: at parkAfter the sink starves. A moment with something to do does not end
// it: a sink that starves gets a batch now and then.
func (h hunger) next(took time.Duration) time.Duration {
	return min(max(0, h.level+h.spell-sated*(took-h.spell)), parkAfter)
}

// errHoldsUp ends the calls of a sink that are in flight for so long that others starve.
var errHoldsUp = errors.New("the call was cut off: what is in flight keeps other sinks from going on")

// watchStarvation takes note of which sinks are idle. While there is memory it costs nothing.
func (e *engine) watchStarvation(now time.Time) {
	took := min(now.Sub(e.watched), e.cfg.Tick) // it is more only where the process was stopped meanwhile
	e.watched = now
	if len(e.sinks) < 3 {
		return
	}
	waits := e.memory.waits()
	if !waits && !e.waited {
		return
	}
	for _, s := range e.sinks[1:] {
		if s.hunger.idles {
			s.hunger.spell += took
		}
		s.hunger.idles = waits && s.queued == 0 && !s.park
	}
	e.waited = waits
}

// checkStarvation parks the lanes of the sink that keeps most of the memory while another sink starves. What that sink has in
// flight even then is cut off.
func (e *engine) checkStarvation(now time.Time) {
	if len(e.sinks) < 3 {
		return
	}
	took := now.Sub(e.checked)
	e.checked = now
	starving := false
	for _, s := range e.sinks[1:] {
		s.hunger.level, s.hunger.spell = s.hunger.next(took), 0
		starving = starving || s.hunger.level >= parkAfter
	}
	if !starving {
		return
	}
	s, kept := e.fullest()
	if kept.all < e.cfg.Memory/int64(2*(len(e.sinks)-1)) {
		return
	}
	if e.memory.starved(now) < parkAfter && kept.own > kept.all/2 {
		return // it makes progress, and the memory is full of what is for no other sink: that just slows the reading
	}
	switch {
	case !s.park:
		e.log.Warn("sink is too slow for the others: parking its lanes", "sink", s.name, "queued", s.queued, "kept_bytes", kept.all)
		s.unproven = true
		e.parkSink(s)
	case s.inflight > 0:
		e.log.Warn("sink is too slow for the others: cutting off its calls", "sink", s.name, "in_flight", s.inflight, "kept_bytes", kept.all)
		s.cut(errHoldsUp)
		s.begin(e.callCtx)
	default:
		return // its lanes are being parked
	}
	for _, s := range e.sinks[1:] {
		s.hunger.level = 0 // until that has had time to help
	}
}

// keeping is what a sink keeps in memory: all bytes of the batches with a message that it has not taken, and those of the messages
// that it alone has not taken and no other sink gets.
type keeping struct{ all, own int64 }

// fullest is the sink that keeps most of the memory.
func (e *engine) fullest() (*sinkState, keeping) {
	answered := e.withOutcome() // it is the store that keeps these
	kept := keptBy(&e.list, len(e.sinks),
		func(m *message) uint64 { return m.left &^ answered[m] },
		func(m *message) uint64 { return m.left | partsOf(e.targets[m.route]) })
	s, most := e.sinks[1], kept[1]
	for i, k := range kept[2:] {
		if k.all > most.all {
			s, most = e.sinks[i+2], k
		}
	}
	return s, most
}

// withOutcome returns the parts of messages that have an outcome which the store has not been given yet.
func (e *engine) withOutcome() map[*message]uint64 {
	answered := make(map[*message]uint64, len(e.outcomes))
	for _, o := range e.outcomes {
		answered[o.msg] |= o.part
	}
	return answered
}

// keptBy walks the list of messages in memory, in which those of a batch are neighbours. open are the parts of a message that
// keep it, targets all that it has.
func keptBy(list *message, sinks int, open, targets func(*message) uint64) []keeping {
	kept := make([]keeping, sinks)
	var batch *batchMemory
	var parts uint64 // that keep the batch
	charge := func() {
		for ; parts != 0; parts &= parts - 1 {
			kept[bits.TrailingZeros64(parts)].all += batch.bytes
		}
	}
	for m := list.next; m != list; m = m.next {
		if m.batch != batch {
			charge()
			batch = m.batch
		}
		left := open(m)
		parts |= left
		if left != 0 && left == targets(m) && left&(left-1) == 0 {
			kept[bits.TrailingZeros64(left)].own += int64(m.Size())
		}
	}
	charge()
	return kept
}
