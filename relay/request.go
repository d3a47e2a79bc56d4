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

// requestState is what operators asked for (R13). Requests are carried out one by one, in order; but those about sinks do not
// wait for one that waits for runs in flight.
type requestState struct {
	requestsAsked bool
	requests      []checkpoint.Request // the first one is at hand
	step          requestStep
	frozen        []*lane.Lane
	names         []checkpoint.Lane
}

type requestStep int

const (
	stepIdle  requestStep = iota
	stepFreed             // the lanes are known; it waits until none of them has a run in flight
)

// requestNow goes on with the request at hand, or looks for new ones.
func (e *engine) requestNow() bool {
	switch {
	case len(e.requests) == 0 && e.requestsAsked:
		e.readRequests()
		return true
	case len(e.requests) == 0:
		return false
	case e.step == stepIdle:
		r := &e.requests[0]
		e.operate(func(ctx context.Context) (func(), error) {
			names, err := e.store.Lanes(ctx, r, lanesMost)
			if err != nil {
				return nil, fmt.Errorf("select the lanes of request %d: %w", r.ID, err)
			}
			return func() { e.freeze(names) }, nil
		})
		return true
	case !e.lanesFree():
		return e.outOfTurn()
	}
	r := &e.requests[0]
	e.carryOut(r, e.names2(), func(done *checkpoint.Applied) { e.applied(r, done) })
	return true
}

// readRequests looks for requests. The one at hand stays the first.
func (e *engine) readRequests() {
	e.requestsAsked = false
	e.operate(func(ctx context.Context) (func(), error) {
		rs, err := e.store.Requests(ctx)
		if err != nil {
			return nil, fmt.Errorf("read requests: %w", err)
		}
		return func() {
			if len(e.requests) > 0 {
				at := e.requests[0]
				rs = slices.DeleteFunc(rs, func(r checkpoint.Request) bool { return r.ID == at.ID })
				rs = append([]checkpoint.Request{at}, rs...)
			}
			e.requests = rs
		}, nil
	})
}

// carryOut has the store carry out a part of a request, for these lanes.
func (e *engine) carryOut(r *checkpoint.Request, names []checkpoint.Lane, then func(*checkpoint.Applied)) {
	e.operate(func(ctx context.Context) (func(), error) {
		done, err := e.store.Apply(ctx, r, names)
		if err != nil {
			return nil, fmt.Errorf("carry out request %d: %w", r.ID, err)
		}
		return func() { then(done) }, nil
	})
}

// outOfTurn carries out a request about sinks while the one at hand waits for a run in flight: a sink that hangs must not keep
// an operator from pausing it.
func (e *engine) outOfTurn() bool {
	i := slices.IndexFunc(e.requests, aboutSinks)
	switch {
	case i > 0:
		r := &e.requests[i]
		e.carryOut(r, nil, func(done *checkpoint.Applied) {
			if done.Done {
				e.requests = slices.Concat(e.requests[:i], e.requests[i+1:])
				e.steer(r, done, time.Now())
			}
		})
		return true
	case e.requestsAsked:
		e.readRequests()
		return true
	}
	return false
}

// aboutSinks tells whether a request concerns no lane.
func aboutSinks(r checkpoint.Request) bool {
	return (r.Verb == checkpoint.VerbPause || r.Verb == checkpoint.VerbResume) && len(r.Selection.Sinks) > 0
}

func (e *engine) names2() []checkpoint.Lane { return e.requestState.names }

// freeze keeps lanes from starting runs while a request changes them.
func (e *engine) freeze(names []checkpoint.Lane) {
	e.step, e.requestState.names = stepFreed, names
	for _, name := range names {
		s := e.byName[name.Sink]
		if s == nil || name.Group == "" {
			continue
		}
		e.freezeLane(s.Lane(name.Group))
		if s.Sink != nil || e.requests[0].Verb != checkpoint.VerbHold {
			continue
		}
		for _, other := range e.sinks[1:] { // a group that is held without a sink is held at all of them
			if l := other.Find(name.Group); l != nil {
				e.freezeLane(l)
			}
		}
	}
}

func (e *engine) freezeLane(l *lane.Lane) {
	l.On(lane.EvFreeze)
	e.frozen = append(e.frozen, l)
}

// lanesFree tells whether no frozen lane has anything under way.
func (e *engine) lanesFree() bool {
	for _, l := range e.frozen {
		if l.Is(lane.InFlight | lane.Settling | lane.Changing | lane.Parking) {
			return false
		}
	}
	return true
}

// applied takes note of what a part of a request did.
func (e *engine) applied(r *checkpoint.Request, done *checkpoint.Applied) {
	now := time.Now()
	blocked := lane.EvBlock
	if r.Verb == checkpoint.VerbHold {
		blocked = lane.EvHold
	}
	for _, name := range done.Blocked {
		e.block(name, blocked)
	}
	for _, l := range e.frozen {
		l.On(lane.EvThaw)
		if l.Polling() {
			e.letGo(l)
		}
		if r.Verb == checkpoint.VerbResume && done.Refused == "" {
			e.unhold(l)
		}
	}
	frozen := e.frozen
	e.frozen = nil
	for _, name := range done.Open {
		e.reopen(name)
	}
	if done.Done {
		e.requests = e.requests[1:]
		e.steer(r, done, now)
	}
	for _, l := range frozen {
		e.review(l)
		e.offer(l, now)
		l.Sink.Forget(l)
	}
	e.step, e.requestState.names = stepIdle, nil
	e.dueAsked = true
	e.requestsAsked = true
	if r.Verb == checkpoint.VerbReplay || r.Verb == checkpoint.VerbEdit {
		if f := e.cfg.Events.Replayed; f != nil && done.Changed > 0 {
			f(done.Changed)
		}
	}
}

// unhold ends a hold; a lane of the sink "" stands for the group at every sink.
func (e *engine) unhold(l *lane.Lane) {
	l.On(lane.EvRelease)
	if l.Sink.Sink != nil {
		return
	}
	for _, s := range e.sinks[1:] {
		if other := s.Find(l.Group); other != nil {
			other.On(lane.EvRelease)
			e.review(other)
		}
	}
}

// block makes a lane one that the database blocks, or that an operator holds: what it has in memory is parked behind.
func (e *engine) block(name checkpoint.Lane, ev lane.Event) {
	s := e.byName[name.Sink]
	if s == nil || name.Group == "" {
		return
	}
	l := s.Lane(name.Group)
	if ev == lane.EvHold && s.Sink == nil {
		for _, other := range e.sinks[1:] {
			if other.Find(name.Group) != nil {
				e.block(checkpoint.Lane{Sink: other.Name, Group: name.Group}, lane.EvHold)
			}
		}
	}
	switch {
	case l.Polling() && l.Is(lane.InFlight): // it is blocked already, and is held when that run has ended
	case l.Polling():
		e.letGo(l)
		fallthrough
	default:
		l.On(ev)
	}
	e.divert(l)
}

// steer ends a request that was carried out, and lets sinks know what it says about them. The database did nothing of one that it
// refused, so nothing is done here.
func (e *engine) steer(r *checkpoint.Request, done *checkpoint.Applied, now time.Time) {
	if done.Refused != "" {
		e.log.Warn("the database refuses a request: closed", "id", r.ID, "verb", string(r.Verb), "by", r.By, "error", done.Refused)
		return
	}
	e.log.Info("request carried out", "id", r.ID, "verb", string(r.Verb), "by", r.By)
	for _, name := range r.Selection.Sinks {
		s := e.byName[name]
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
			e.opened(s, now)
		}
		e.report(s, now)
	}
}
