package relay

import (
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// park puts a delivery into a lane that is not for sending, and parks it.
func (e *engine) park(l *lane, d *delivery, f *failure) {
	if l.parking != nil || l.settling || l.blocked {
		l.arrivals.push(d)
	} else {
		l.queue.push(d)
		l.parking = f
	}
	e.review(l)
}

// parkHead parks a lane because of its head: the head with its failure, everything behind it as waiting (R4).
func (e *engine) parkHead(l *lane, f *failure) {
	if l.queue.at(0).back != nil {
		e.backFailed(l, f)
		return
	}
	l.parking = f
	e.review(l)
}

// parkFailing parks a lane whose destination fails, until its next round of probes.
func (e *engine) parkFailing(l *lane, b *breaker, now time.Time) {
	wait := max(b.next.Sub(now), probeMinWait)
	if l.polling {
		e.putBack(l, wait)
		return
	}
	if l.parking == nil {
		l.parking = &failure{wait: wait, class: b.class.String(), err: b.why}
	}
	e.review(l)
}

// parkSink parks everything of a sink, and what arrives for it, until it takes deliveries again.
func (e *engine) parkSink(s *sinkState) {
	s.park = true
	for _, l := range e.lanesOf(s) {
		if l.busy > 0 {
			continue
		}
		if l.polling {
			e.letGo(l)
		}
		e.review(l)
	}
}

// lanesOf are the lanes of a sink with something in memory, in a stable order: those that are ready, and those that wait.
func (e *engine) lanesOf(s *sinkState) []*lane {
	var ls []*lane
	for _, q := range s.all {
		for _, l := range q.ready {
			l.ready = false
			ls = append(ls, l)
		}
		clear(q.ready)
		q.ready = q.ready[:0]
	}
	for _, r := range e.retries.heap.items {
		if r.lane.sink == s {
			ls = append(ls, r.lane)
		}
	}
	return ls
}

// opened lets a sink's deliveries flow again: what was parked for it is due (R10). It stays down while something else keeps it
// from taking any: the call that was answered may have begun before an operator paused the sink, or before it asked to wait.
func (e *engine) opened(s *sinkState, now time.Time) {
	if ok, _ := s.accepts(now); !ok {
		return
	}
	s.park, s.unproven, s.why, s.down = false, false, "", time.Time{}
	s.relist()
	e.dueAsked, e.dueAt = true, time.Time{}
	e.report(s, now)
}

// throttle slows a sink as it asked for in its answer to a call that started then.
func (e *engine) throttle(s *sinkState, started time.Time, after time.Duration, err error, now time.Time) {
	wait := s.throttle.rest(started, now, after)
	if wait == 0 {
		return
	}
	until := now.Add(wait)
	if until.After(s.throttled) {
		s.throttled = until
	}
	if s.down.IsZero() {
		s.down, s.why = now, err.Error()
		e.log.Info("sink asks to slow down", "sink", s.name, "for", wait.String())
	}
	e.report(s, now)
}

// checkSink notices what time alone changes about a sink.
func (e *engine) checkSink(s *sinkState, now time.Time) {
	if s.park && s.down.IsZero() && s.queued == 0 && !s.unproven { // it was too slow for the others, and has caught up
		e.opened(s, now)
	}
	switch {
	case s.down.IsZero() || now.Sub(s.down) < parkAfter:
	case !s.park:
		e.log.Warn("parking what is queued for the sink", "sink", s.name, "state", s.state(now), "queued", s.queued)
		e.parkSink(s)
	case s.paused || now.Before(s.throttled):
		e.parkSink(s) // what was in flight then, or was brought back before
	}
	if s.failing > 0 {
		e.parkOutages(s, now)
	}
	s.forgetOutages(now)
	e.logOutage(s, now)
	e.report(s, now)
}

// parkOutages offers what waits for destinations that fail anew: by now it is parked, or has found another destination.
func (e *engine) parkOutages(s *sinkState, now time.Time) {
	for _, q := range s.all {
		if !q.breaker.fails() || now.Sub(q.breaker.since) < parkAfter || q.breaker.roundDue(now) {
			continue
		}
		ready := q.ready
		q.ready = nil
		for _, l := range ready {
			l.ready = false
			e.offer(l, now)
		}
	}
}

// report tells observers when a sink's state has changed.
func (e *engine) report(s *sinkState, now time.Time) {
	state := s.state(now)
	if state == s.reported {
		return
	}
	s.reported = state
	if s.fails() {
		s.why = s.failingBreaker().why
	}
	e.log.Info("sink state", "sink", s.name, "state", state)
	if f := e.cfg.Events.SinkState; f != nil {
		f(s.name, state, s.why)
	}
}

// review lists a lane that has something to park, and lets go on one whose arrivals need not be parked any more.
func (e *engine) review(l *lane) {
	if l.listed || l.busy > 0 && !l.polling || l.settling {
		return
	}
	if l.sink.sink == nil && l.parking == nil && !l.blocked && l.arrivals.len() > 0 {
		d := l.arrivals.at(0)
		l.arrivals.pop(1)
		e.park(l, d, d.doomed)
		return
	}
	if l.parking == nil && !e.closed(l) && l.arrivals.len() > 0 && !l.polling {
		e.flow(l)
		return
	}
	if e.parkableLane(l) {
		l.listed = true
		e.parkLanes = append(e.parkLanes, l)
	}
}

func (e *engine) parkableLane(l *lane) bool {
	switch {
	case l.settling || l.busy > 0 && (!l.polling || l.parking != nil):
		return false
	case l.parking != nil:
		return true
	case l.polling: // also while a run of the poller's is in flight: what has arrived is behind all of them
		return l.arrivals.len() > 0 && (!l.last || e.pressed() || e.stuck != nil)
	case l.held || l.sink.park:
		return l.queue.len()+l.arrivals.len() > 0
	}
	return l.arrivals.len() > 0
}

// pressed tells whether memory is too scarce to hold what arrives for a lane that is about to reopen. That is well below the
// bound at which nothing more is read.
func (e *engine) pressed() bool { return e.memory.used.Load() > e.memory.limit*3/4 }

// checkPressure parks what was held for lanes that are about to reopen, where it keeps the source from reading.
func (e *engine) checkPressure(now time.Time) {
	if e.memory.starved(now) == 0 || !e.pressed() {
		return
	}
	for _, s := range e.sinks[1:] {
		for _, l := range s.lanes {
			if l.polling && l.arrivals.len() > 0 {
				e.review(l)
			}
		}
	}
}

// parkable tells whether any lane has something that can be parked now.
func (e *engine) parkable() bool { return len(e.parkLanes) > 0 }

// divert turns what a lane has in its queue into arrivals: something blocks it now.
func (e *engine) divert(l *lane) {
	if l.queue.len() > 0 && l.busy == 0 && l.parking == nil {
		l.shelve()
	}
	e.review(l)
}

// strays tells whether messages of the lane's group that cannot be routed are in memory and not parked yet. What is
// behind them must not be parked before: after a crash it would be sent first.
func (e *engine) strays(l *lane) bool {
	if l.group == "" || l.sink.sink == nil {
		return false
	}
	u := e.sinks[0].lanes[l.group]
	return u != nil && !u.settling && (u.parking != nil || u.arrivals.len() > 0)
}

// flow turns a lane's arrivals into its queue: nothing blocks it any more.
func (e *engine) flow(l *lane) {
	l.join()
	e.offer(l, time.Now())
}

// takePark moves the first n deliveries that a lane has to park into a settlement.
func (e *engine) takePark(s *settlement, l *lane, n int) {
	p := parkRun{lane: l, f: l.parking, queue: min(n, l.queueToPark())}
	p.arrivals = n - p.queue
	now := time.Now()
	for i := range n {
		e.addPark(s, l, l.parkAt(i), parkedAs(l, p.f, i, n, !e.blockedBehind(l)), now)
	}
	l.settling = true
	s.parks = append(s.parks, p)
}

// blockedBehind tells whether something else than this lane's own first delivery decides when it is due.
func (e *engine) blockedBehind(l *lane) bool { return l.blocked || l.held || e.unroutable(l) }

// parkedAs is the parked form of the i-th of n deliveries of a lane. first tells that the lane is not blocked yet, so that
// the first of them makes the lane due.
func parkedAs(l *lane, f *failure, i, n int, first bool) checkpoint.Parked {
	grouped := l.group != ""
	p := checkpoint.Parked{State: checkpoint.StateWaiting, Blocks: grouped}
	if i > 0 || f == nil {
		p.Due = !grouped || i == 0 && first
		if f != nil && f.latest && grouped {
			if i == n-1 {
				p.Due = true
			} else {
				p.State, p.Blocks, p.ErrorClass, p.LastError = checkpoint.StateDead, false, "superseded", "a newer message of the group came"
			}
		}
		return p
	}
	p.LastError, p.ErrorClass = f.err, f.class
	switch {
	case f.state == "": // parked without a failure
		p.Due, p.NextAttempt = first || !grouped, f.wait
	case f.state == checkpoint.StateDead:
		p.State, p.Blocks = f.state, f.blocks && grouped
	case f.latest && n > 1:
		p.State, p.Blocks = checkpoint.StateDead, false
	default:
		p.State, p.Due, p.NextAttempt = f.state, true, f.wait
	}
	return p
}

func (e *engine) addPark(s *settlement, l *lane, d *delivery, p checkpoint.Parked, now time.Time) {
	m := d.msg
	p.Sink, p.Message, p.Attempts, p.Tries, p.Failed = l.sink.name, m.Message, d.spent, d.tries, d.failed
	if d.last != nil && p.State == checkpoint.StateWaiting && p.Due { // it waits for its own next try, whatever else it waits for
		p.State, p.NextAttempt = checkpoint.StateRetrying, max(p.NextAttempt, l.retryAt.Sub(now))
		p.LastError, p.ErrorClass = d.last.err, d.last.class
	}
	p.InTable = m.Fault != nil && m.Fault.Class == outbox.FaultTooLarge
	if d.doomed != nil && p.State == checkpoint.StateWaiting { // whatever it waits for: it is known by that when its turn comes
		p.LastError, p.ErrorClass = d.doomed.err, d.doomed.class
	}
	s.Park = append(s.Park, p)
	m.parked = true
	e.outcome(s, outcome{m, l.sink.bit})
	if p.State == checkpoint.StateDead {
		e.died(l.sink.name, d, p.ErrorClass)
	}
}

func (e *engine) died(sinkName string, d *delivery, class string) {
	if class == sink.ClassCrash.String() && d.Message.Position == e.load.Started.Position {
		e.load.Started = checkpoint.Suspect{} // an operator may replay it
	}
	name := ""
	if d.route != nil {
		name = d.route.Name
	}
	e.log.Warn("dead letter", "sink", sinkName, "type", outbox.Shorten(d.Message.Type), "id", outbox.Shorten(d.Message.ID), "class", class)
	if f := e.cfg.Events.Dead; f != nil {
		f(sinkName, name, class, 1)
	}
}

// parked takes note that a lane's park is durable.
func (e *engine) parked(p parkRun, now time.Time) {
	l := p.lane
	l.settling = false
	for _, d := range l.queue.slice()[:p.queue] {
		l.passed(d)
		l.sink.queued--
	}
	l.queue.pop(p.queue)
	l.sink.queued -= p.arrivals
	l.arrivals.pop(p.arrivals)
	blocks := l.group != ""
	if p.f != nil {
		l.parking = nil
		if p.f.only && !p.f.blocks {
			blocks = l.blocked
		}
	}
	l.blocked = blocks
	if p.f != nil && !p.f.only || p.f == nil && !l.polling {
		l.shelve() // what did not fit into the settlement is behind what did
	}
	if l.blocked && p.f != nil {
		e.dueSoon(p.f.wait, now)
	}
	e.review(l)
	e.offer(l, now)
	l.sink.forget(l)
}
