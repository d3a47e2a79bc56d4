package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay/lane"
)

// lanesMost lanes are changed by one part of a request.
const lanesMost = 1000

// requests carries out what operators ask for (R13), in order. While the first one waits for runs in flight, only requests about sinks overtake it.
// It belongs to the engine's goroutine.
type requests struct {
	e *engine

	asked  bool                 // the database may hold new ones
	queue  []checkpoint.Request // the first one is at hand
	step   requestStep
	frozen []*lane.Lane
	names  []checkpoint.Lane // lanes of the part at hand
}

type requestStep int

const (
	stepIdle   requestStep = iota
	stepFrozen             // the lanes are known; it waits until none of them has a run in flight
)

// requestNow goes on with the request at hand, or looks for new ones.
func (rq *requests) requestNow() bool {
	switch {
	case len(rq.queue) == 0 && rq.asked:
		rq.readRequests()
		return true
	case len(rq.queue) == 0:
		return false
	case rq.step == stepIdle:
		r := &rq.queue[0]
		rq.e.session.operate(func(ctx context.Context) (func(), error) {
			names, err := rq.e.session.store.Lanes(ctx, r, lanesMost)
			if err != nil {
				return nil, fmt.Errorf("select the lanes of request %d: %w", r.ID, err)
			}
			return func() { rq.freeze(names) }, nil
		})
		return true
	case !rq.lanesFree():
		return rq.outOfTurn()
	}
	r := &rq.queue[0]
	rq.carryOut(r, rq.names, func(done *checkpoint.Applied) { rq.applied(r, done) })
	return true
}

// readRequests looks for requests. The one at hand stays the first.
func (rq *requests) readRequests() {
	rq.asked = false
	rq.e.session.operate(func(ctx context.Context) (func(), error) {
		rs, err := rq.e.session.store.Requests(ctx)
		if err != nil {
			return nil, fmt.Errorf("read requests: %w", err)
		}
		return func() {
			if len(rq.queue) > 0 {
				at := rq.queue[0]
				rs = slices.DeleteFunc(rs, func(r checkpoint.Request) bool { return r.ID == at.ID })
				rs = append([]checkpoint.Request{at}, rs...)
			}
			rq.queue = rs
		}, nil
	})
}

// carryOut has the store carry out a part of a request, for these lanes.
func (rq *requests) carryOut(r *checkpoint.Request, names []checkpoint.Lane, then func(*checkpoint.Applied)) {
	rq.e.session.operate(func(ctx context.Context) (func(), error) {
		done, err := rq.e.session.store.Apply(ctx, r, names)
		if err != nil {
			return nil, fmt.Errorf("carry out request %d: %w", r.ID, err)
		}
		return func() { then(done) }, nil
	})
}

// outOfTurn carries out a request about sinks while the one at hand waits for a run in flight: a sink that hangs must not keep
// an operator from pausing it.
func (rq *requests) outOfTurn() bool {
	i := slices.IndexFunc(rq.queue, aboutSinks)
	switch {
	case i > 0:
		r := &rq.queue[i]
		rq.carryOut(r, nil, func(done *checkpoint.Applied) {
			if done.Done {
				rq.queue = slices.Concat(rq.queue[:i], rq.queue[i+1:])
				rq.steer(r, done, time.Now())
			}
		})
		return true
	case rq.asked:
		rq.readRequests()
		return true
	}
	return false
}

// aboutSinks reports whether a request concerns no lane.
func aboutSinks(r checkpoint.Request) bool {
	return (r.Verb == checkpoint.VerbPause || r.Verb == checkpoint.VerbResume) && len(r.Selection.Sinks) > 0
}

// freeze keeps lanes from starting runs while a request changes them.
func (rq *requests) freeze(names []checkpoint.Lane) {
	rq.step, rq.names = stepFrozen, names
	for _, name := range names {
		s := rq.e.byName[name.Sink]
		if s == nil || name.Group == "" {
			continue
		}
		rq.freezeLane(s.Lane(name.Group))
		if s.Sink != nil || rq.queue[0].Verb != checkpoint.VerbHold {
			continue
		}
		for _, other := range rq.e.sinks[1:] { // a group that is held without a sink is held at all of them
			if l := other.Find(name.Group); l != nil {
				rq.freezeLane(l)
			}
		}
	}
}

func (rq *requests) freezeLane(l *lane.Lane) {
	l.On(lane.EvFreeze)
	rq.frozen = append(rq.frozen, l)
}

// lanesFree reports whether no frozen lane has anything under way.
func (rq *requests) lanesFree() bool {
	for _, l := range rq.frozen {
		if l.Is(lane.InFlight | lane.Settling | lane.Changing | lane.Parking) {
			return false
		}
	}
	return true
}

// applied takes note of what a part of a request did.
func (rq *requests) applied(r *checkpoint.Request, done *checkpoint.Applied) {
	now := time.Now()
	blocked := lane.EvBlock
	if r.Verb == checkpoint.VerbHold {
		blocked = lane.EvHold
	}
	for _, name := range done.Blocked {
		rq.block(name, blocked)
	}
	for _, l := range rq.frozen {
		l.On(lane.EvThaw)
		if l.Polling() {
			rq.e.poller.release(l)
		}
		if r.Verb == checkpoint.VerbResume && done.Refused == "" {
			rq.unhold(l)
		}
		rq.e.touch(l)
	}
	rq.frozen = nil
	for _, name := range done.Open {
		rq.e.poller.reopen(name)
	}
	if done.Done {
		rq.queue = rq.queue[1:]
		rq.steer(r, done, now)
	}
	rq.step, rq.names = stepIdle, nil
	rq.e.poller.dueAsked = true
	rq.asked = true
	if r.Verb == checkpoint.VerbReplay || r.Verb == checkpoint.VerbEdit {
		if f := rq.e.cfg.Events.Replayed; f != nil && done.Changed > 0 {
			f(done.Changed)
		}
	}
}

// unhold ends a hold; a lane of the sink "" stands for the group at every sink.
func (rq *requests) unhold(l *lane.Lane) {
	l.On(lane.EvUnhold)
	if l.Sink.Sink != nil {
		return
	}
	for _, s := range rq.e.sinks[1:] {
		if other := s.Find(l.Group); other != nil {
			other.On(lane.EvUnhold)
			rq.e.touch(other)
		}
	}
}

// block makes a lane one that the database blocks, or that an operator holds: what it has in memory is parked behind.
func (rq *requests) block(name checkpoint.Lane, ev lane.Event) {
	s := rq.e.byName[name.Sink]
	if s == nil || name.Group == "" {
		return
	}
	l := s.Lane(name.Group)
	if ev == lane.EvHold && s.Sink == nil {
		for _, other := range rq.e.sinks[1:] {
			if other.Find(name.Group) != nil {
				rq.block(checkpoint.Lane{Sink: other.Name, Group: name.Group}, lane.EvHold)
			}
		}
	}
	switch {
	case l.Polling() && l.Is(lane.InFlight): // it is blocked already, and is held when that run has ended
	case l.Polling():
		rq.e.poller.release(l)
		fallthrough
	default:
		l.On(ev)
	}
	rq.e.parker.divert(l)
}

// steer logs a request that is done, and pauses or resumes the sinks that it names. If the database refused the request, it only logs that.
func (rq *requests) steer(r *checkpoint.Request, done *checkpoint.Applied, now time.Time) {
	if done.Refused != "" {
		rq.e.log.Warn("the database refuses a request: closed", "id", r.ID, "verb", string(r.Verb), "by", r.By, "error", done.Refused)
		return
	}
	rq.e.log.Info("request carried out", "id", r.ID, "verb", string(r.Verb), "by", r.By)
	for _, name := range r.Selection.Sinks {
		s := rq.e.byName[name]
		if s == nil || s.Sink == nil {
			continue
		}
		switch r.Verb {
		case checkpoint.VerbPause:
			s.Paused, s.Why = true, "paused by an operator: "+r.Reason
			if !s.IsDown() {
				s.Stall(now)
			}
		case checkpoint.VerbResume:
			s.Paused = false
			s.Breaker.Close()
			s.Throttled, s.Throttle = time.Time{}, lane.Throttle{}
			s.RecoverAll(func(*lane.Breaker) bool { return true })
			rq.e.dispatcher.opened(s, now)
		}
		rq.e.dispatcher.report(s, now)
	}
}
