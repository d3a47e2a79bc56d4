package relay

import (
	"errors"
	"math/bits"
	"time"

	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/relay/memory"
)

// fairness detects sinks that starve: they have nothing to send because messages for slower sinks fill the memory.
type fairness struct {
	e *engine

	watched time.Time // the last turn
	checked time.Time
	waited  bool // the source waited for memory at the last turn
}

// errHoldsUp ends the calls of a sink that are in flight for so long that others starve.
var errHoldsUp = errors.New("the call was cut off: what is in flight keeps other sinks from going on")

// watch takes note of which sinks are idle. While there is memory it costs nothing.
func (fa *fairness) watch(now time.Time) {
	took := min(now.Sub(fa.watched), fa.e.cfg.Tick) // the time is longer only if the process did not run meanwhile
	fa.watched = now
	if len(fa.e.sinks) < 3 {
		return
	}
	waits := fa.e.intake.memory.Waits()
	if !waits && !fa.waited {
		return
	}
	for _, s := range fa.e.sinks[1:] {
		if s.Idleness.Idles {
			s.Idleness.Spell += took
		}
		s.Idleness.Idles = waits && s.Queued == 0 && !s.Parks()
	}
	fa.waited = waits
}

// check parks the lanes of the sink that keeps most of the memory while another sink starves. If these lanes are parked already and another sink
// still starves, check cuts off the calls in flight.
func (fa *fairness) check(now time.Time) {
	if len(fa.e.sinks) < 3 {
		return
	}
	took := now.Sub(fa.checked)
	fa.checked = now
	starving := false
	for _, s := range fa.e.sinks[1:] {
		s.Idleness.Level, s.Idleness.Spell = s.Idleness.Next(took), 0
		starving = starving || s.Idleness.Level >= lane.ParkAfter
	}
	if !starving {
		return
	}
	s, kept := fa.fullest()
	if kept.all < fa.e.cfg.Memory/int64(2*(len(fa.e.sinks)-1)) {
		return
	}
	if fa.e.intake.memory.Starved(now) < lane.ParkAfter && kept.own > kept.all/2 {
		return // The sink makes progress, and most of what it keeps is for no other sink: slower reading is right then
	}
	switch {
	case !s.Parks():
		fa.e.log.Warn("sink is too slow for the others: parking its lanes", "sink", s.Name, "queued", s.Queued, "kept_bytes", kept.all)
		fa.e.dispatcher.parkSink(s, lane.EvStarve)
	case s.Inflight > 0:
		fa.e.log.Warn("sink is too slow for the others: cutting off its calls", "sink", s.Name, "in_flight", s.Inflight, "kept_bytes", kept.all)
		s.Cut(errHoldsUp)
		s.Begin(fa.e.callCtx)
	default:
		return // its lanes are being parked
	}
	for _, s := range fa.e.sinks[1:] {
		s.Idleness.Level = 0 // start anew: what was done above needs time to help
	}
}

// keeping is what a sink keeps in memory. all: the bytes of all batches with a message that it has not taken. own: the bytes of such messages that go
// to this sink only.
type keeping struct{ all, own int64 }

// fullest is the sink that keeps most of the memory.
func (fa *fairness) fullest() (*lane.Sink, keeping) {
	answered := fa.withOutcome() // these wait for the store, not for a sink
	kept := keptBy(&fa.e.list, len(fa.e.sinks),
		func(m *lane.Message) uint64 { return m.Left &^ answered[m] },
		func(m *lane.Message) uint64 { return m.Left | partsOf(fa.e.targets[m.Route]) })
	s, most := fa.e.sinks[1], kept[1]
	for i, k := range kept[2:] {
		if k.all > most.all {
			s, most = fa.e.sinks[i+2], k
		}
	}
	return s, most
}

// withOutcome returns the parts of messages that have an outcome which the store has not been given yet.
func (fa *fairness) withOutcome() map[*lane.Message]uint64 {
	answered := make(map[*lane.Message]uint64, len(fa.e.settler.outcomes))
	for _, o := range fa.e.settler.outcomes {
		answered[o.msg] |= o.part
	}
	return answered
}

// keptBy walks the list of messages in memory; those of a batch are neighbours. open returns the parts that keep a message, targets all its parts.
func keptBy(list *lane.Message, sinks int, open, targets func(*lane.Message) uint64) []keeping {
	kept := make([]keeping, sinks)
	var batch *memory.Batch
	var parts uint64 // that keep the batch
	charge := func() {
		for ; parts != 0; parts &= parts - 1 {
			kept[bits.TrailingZeros64(parts)].all += batch.Bytes
		}
	}
	for m := list.Next; m != list; m = m.Next {
		if m.Batch != batch {
			charge()
			batch = m.Batch
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
