package relay

import (
	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
)

// What could not be routed was parked as soon as it was read, while earlier messages of its group may still have been on their way to
// the sinks. Once it can be routed it must not get there before them.

// inTurn tells whether everything before a message that could not be routed has been read, and is delivered or parked: then it can be
// given to its sinks, behind what is parked there.
func (e *engine) inTurn(p *checkpoint.Parked) bool {
	if p.Message.Group == "" {
		return true
	}
	if !e.readUpTo(p.Message.Position) {
		return false
	}
	for _, s := range e.sinks[1:] {
		l := s.Lanes[p.Message.Group] // one that sleeps has nothing in memory
		if l != nil && (precedes(&l.Queue, p.Message.Position) || precedes(&l.Arrivals, p.Message.Position)) {
			return false
		}
	}
	return true
}

// readUpTo tells whether the messages before a parked one have come from the log, or were settled before this term. The log repeats
// the parked one itself where the checkpoint is before it, but for one that was not in the log.
func (e *engine) readUpTo(p outbox.Position) bool {
	switch {
	case e.phase != phaseTailing:
		return false
	case p.Log != e.saved.Log || p.N >= foundRank:
		return true
	}
	return p.Commit <= e.saved.LastCommit || e.lastSeen.Compare(p) >= 0
}

// precedes tells whether a queue begins with something that is not parked and comes before a position. What a sweep found was committed
// before everything of the logs that came before.
func precedes(q *lane.Fifo, p outbox.Position) bool {
	if q.Len() == 0 || q.At(0).Back != nil {
		return false
	}
	first := q.At(0).Message.Position
	return first.Compare(p) < 0 || first.Log > p.Log && first.Commit == 0
}
