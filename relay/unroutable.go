package relay

import (
	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
)

// What could not be routed was parked as soon as it was read, while earlier messages of its group may still have been on their way to
// the sinks. Once it can be routed it must not get there before them.

// gateOpen reports whether everything before a message that could not be routed has been read, and is delivered or parked. Then the message can be
// given to its sinks, behind what is parked there.
func (pl *poller) gateOpen(p *checkpoint.Parked) bool {
	if p.Message.Group == "" {
		return true
	}
	if !pl.readUpTo(p.Message.Position) {
		return false
	}
	for _, s := range pl.e.sinks[1:] {
		l := s.Lanes[p.Message.Group] // one that sleeps has nothing in memory
		if l != nil && (precedes(&l.Queue, p.Message.Position) || precedes(&l.Backlog, p.Message.Position)) {
			return false
		}
	}
	return true
}

// readUpTo reports whether every message before a parked one was read in this term, or settled before it. If the checkpoint is before the parked
// message, the log repeats it, unless it never was in the log.
func (pl *poller) readUpTo(p outbox.Position) bool {
	switch {
	case pl.e.phase != phaseTailing:
		return false
	case p.Log != pl.e.settler.saved.Log || p.N >= foundRank:
		return true
	}
	return p.Commit <= pl.e.settler.saved.LastCommit || pl.e.settler.lastSeen.Compare(p) >= 0
}

// precedes reports whether a queue begins with a message that is not parked and comes before p. Rows of a sweep count as older than every message of
// an earlier Log.
func precedes(q *lane.Fifo, p outbox.Position) bool {
	if q.Len() == 0 || q.At(0).Back != nil {
		return false
	}
	first := q.At(0).Message.Position
	return first.Compare(p) < 0 || first.Log > p.Log && first.Commit == 0
}

// reroute tries again to route a message that is parked under the sink "". If that works now, its deliveries are parked at its sinks instead.
func (pl *poller) reroute(l *lane.Lane, p *checkpoint.Parked) {
	pl.inHand[p.Key()] = true
	pl.take(l.Sink, p.Message.Size())
	r := &routed{msg: lane.Message{Message: p.Message}}
	r.delivery.Message = p.Message
	r.msg.Route, r.err = pl.e.cfg.Router.Route(p.Message, &r.delivery.Delivery)
	targets := pl.e.targetsOf(r)
	c := change{lane: l, size: p.Message.Size()}
	c.Key, c.Group = p.Key(), p.Message.Group
	if targets[0].Sink == nil {
		f := faultOf(&r.msg, r.err)
		c.State, c.Blocks, c.Attempts, c.Tries, c.Failed = f.State, f.Blocks, p.Attempts, p.Tries, p.Failed
		c.LastError, c.ErrorClass = f.Err, f.Class
	} else {
		c.Delivered = true
		c.park = make([]checkpoint.Parked, 0, len(targets))
		for _, s := range targets {
			grouped := p.Message.Group != ""
			c.park = append(c.park, checkpoint.Parked{Sink: s.Name, Message: p.Message, State: checkpoint.StateWaiting,
				Blocks: grouped, Due: true, Replays: p.Replays, Original: p.Original})
			if grouped {
				s.Lane(p.Message.Group).On(lane.EvBlock)
			}
		}
	}
	pl.addChange(c)
}
