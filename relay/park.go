package relay

import (
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/sink"
)

// A parker moves what cannot be sent from memory to the database (R4), as parts of settlements. It belongs to the engine's goroutine.
type parker struct {
	e     *engine
	lanes []*lane.Lane // that have something to park
}

// park queues a delivery that must not be sent now, and has its lane parked because of f.
func (pk *parker) park(l *lane.Lane, d *lane.Delivery, f *lane.Failure) {
	if l.Is(lane.Parking|lane.Settling) || l.Blocked() {
		l.Backlog.Push(d)
	} else {
		l.Queue.Push(d)
		l.Fail(f)
	}
	pk.review(l)
}

// parkHead parks a lane because of its head: the head with its failure, everything behind it as waiting (R4).
func (pk *parker) parkHead(l *lane.Lane, f *lane.Failure) {
	if l.Queue.At(0).Back != nil {
		pk.e.poller.backFailed(l, f)
		return
	}
	l.Fail(f)
	pk.review(l)
}

// parkFailing parks a lane whose destination fails, until its next round of probes.
func (pk *parker) parkFailing(l *lane.Lane, b *lane.Breaker, now time.Time) {
	wait := max(b.Next.Sub(now), lane.ProbeMinWait)
	if l.Polling() {
		pk.e.poller.requeue(l, wait)
		return
	}
	l.Fail(&lane.Failure{Wait: wait, Class: b.Class.String(), Err: b.Why})
	pk.review(l)
}

// parkSink parks everything of a sink, and what arrives for it, until it takes deliveries again.
func (dp *dispatcher) parkSink(s *lane.Sink, why lane.FlowEvent) {
	s.On(why)
	for _, l := range dp.lanesOf(s) {
		if l.Is(lane.InFlight) {
			continue
		}
		if l.Polling() {
			dp.e.poller.release(l)
		}
		dp.e.touch(l)
	}
}

// lanesOf are the lanes of a sink with something in memory, in a stable order: those that are ready, and those that wait.
func (dp *dispatcher) lanesOf(s *lane.Sink) []*lane.Lane {
	var ls []*lane.Lane
	for _, q := range s.All {
		for _, l := range q.Ready {
			l.On(lane.EvWithdraw)
			ls = append(ls, l)
		}
		clear(q.Ready)
		q.Ready = q.Ready[:0]
	}
	for _, r := range dp.retries.Heap.Items {
		if r.Lane.Sink == s {
			ls = append(ls, r.Lane)
		}
	}
	return ls
}

// opened lets a sink's deliveries flow again: what was parked for it is due (R10). If the sink still accepts nothing, opened does nothing: the
// answered call may have begun before an operator paused the sink, or before the sink asked to wait.
func (dp *dispatcher) opened(s *lane.Sink, now time.Time) {
	if ok, _ := s.Accepts(now); !ok {
		return
	}
	s.On(lane.EvFlow)
	s.Why = ""
	s.Relist()
	dp.e.poller.dueAsked, dp.e.poller.dueAt = true, time.Time{}
	dp.report(s, now)
}

// throttle slows down a sink that asked for it. started is when the answered call began.
func (dp *dispatcher) throttle(s *lane.Sink, started time.Time, after time.Duration, err error, now time.Time) {
	wait := s.Throttle.Rest(started, now, after)
	if wait == 0 {
		return
	}
	until := now.Add(wait)
	if until.After(s.Throttled) {
		s.Throttled = until
	}
	if !s.IsDown() {
		s.Stall(now)
		s.Why = err.Error()
		dp.e.log.Info("sink asks to slow down", "sink", s.Name, "for", wait.String(), "error", outbox.Shorten(s.Why))
	}
	dp.report(s, now)
}

// checkSink notices what time alone changes about a sink.
func (dp *dispatcher) checkSink(s *lane.Sink, now time.Time) {
	switch {
	case s.Flow == lane.CatchingUp && s.Queued == 0:
		dp.opened(s, now)
	case !s.IsDown() || now.Sub(s.Down) < lane.ParkAfter:
	case s.Flow == lane.Stalled:
		dp.e.log.Warn("parking what is queued for the sink", "sink", s.Name, "state", s.Condition(now).String(), "queued", s.Queued)
		dp.parkSink(s, lane.EvSpill)
	case s.Paused || now.Before(s.Throttled):
		dp.parkSink(s, lane.EvSpill) // what was still in flight when the sink was parked, or what the poller had loaded before
	}
	if s.Failing > 0 {
		dp.parkOutages(s, now)
	}
	s.ForgetOutages(now)
	dp.logOutage(s, now)
	dp.report(s, now)
}

// parkOutages offers the lanes of failing destinations again. offer parks each of them, or finds that its head has another destination now.
func (dp *dispatcher) parkOutages(s *lane.Sink, now time.Time) {
	for _, q := range s.All {
		if !q.Breaker.Fails() || now.Sub(q.Breaker.Since) < lane.ParkAfter || q.Breaker.RoundDue(now) {
			continue
		}
		ready := q.Ready
		q.Ready = nil
		for _, l := range ready {
			l.On(lane.EvWithdraw)
			dp.offer(l, now)
		}
	}
}

// report tells observers when a sink's state has changed.
func (dp *dispatcher) report(s *lane.Sink, now time.Time) {
	state := s.Condition(now)
	if state == s.Reported {
		return
	}
	if !s.Reported.MayBecome(state) {
		s.Broken(fmt.Errorf("%w: sink %q: it was %s, and is %s", lane.ErrBug, s.Name, s.Reported, state))
	}
	s.Reported = state
	if s.Fails() {
		s.Why = s.FailingBreaker().Why
	}
	dp.e.log.Info("sink state", "sink", s.Name, "state", state.String())
	if f := dp.e.cfg.Events.SinkState; f != nil {
		f(s.Name, state.String(), s.Why)
	}
}

// review lists a lane that has something to park. If nothing blocks a lane any more, its backlog joins its queue.
func (pk *parker) review(l *lane.Lane) {
	if l.Is(lane.Listed|lane.Settling) || l.Is(lane.InFlight) && !l.Polling() {
		return
	}
	if l.Sink.Sink == nil && !l.Is(lane.Parking) && !l.Blocked() && l.Backlog.Len() > 0 {
		d := l.Backlog.At(0)
		l.Backlog.Pop(1)
		pk.park(l, d, d.Unsendable)
		return
	}
	if !l.Is(lane.Parking) && !pk.e.closed(l) && l.Backlog.Len() > 0 {
		l.Join() // nothing blocks it any more
		return
	}
	if pk.parkableLane(l) {
		l.On(lane.EvList)
		pk.lanes = append(pk.lanes, l)
	}
}

func (pk *parker) parkableLane(l *lane.Lane) bool {
	switch {
	case l.Is(lane.Settling) || l.Is(lane.InFlight) && !l.Polling():
		return false
	case l.Is(lane.Parking):
		return true
	case l.Polling(): // also while a run of the poller's is in flight: what has arrived comes after everything that the poller has loaded
		return l.Backlog.Len() > 0 && (l.Mode == lane.Polled || pk.pressed() || pk.e.cause != nil)
	case l.IsHeld() || l.Sink.Parks():
		return l.Queue.Len()+l.Backlog.Len() > 0
	}
	return l.Backlog.Len() > 0
}

// pressed reports whether memory is too scarce to hold what arrives for a lane that is about to reopen. That is well below the
// bound at which nothing more is read.
func (pk *parker) pressed() bool {
	return pk.e.intake.memory.Scarce()
}

// checkPressure parks the backlogs of lanes that are about to reopen, if the source waits for memory and memory is scarce.
func (pk *parker) checkPressure(now time.Time) {
	if pk.e.intake.memory.Starved(now) == 0 || !pk.pressed() {
		return
	}
	for _, s := range pk.e.sinks[1:] {
		for _, l := range s.Lanes {
			if l.Polling() && l.Backlog.Len() > 0 {
				pk.e.touch(l)
			}
		}
	}
}

// parkable reports whether any lane has something that can be parked now.
func (pk *parker) parkable() bool { return len(pk.lanes) > 0 }

// divert moves what a lane has in its queue to its backlog, because something blocks it now.
func (pk *parker) divert(l *lane.Lane) {
	if l.Queue.Len() > 0 && !l.Is(lane.InFlight|lane.Parking) {
		l.Demote()
	}
	pk.e.touch(l)
}

// unroutableUnparked reports whether messages of the lane's group that cannot be routed are in memory and not parked yet. What is
// behind them must not be parked before: after a crash it would be sent first.
func (pk *parker) unroutableUnparked(l *lane.Lane) bool {
	if l.Group == "" || l.Sink.Sink == nil {
		return false
	}
	u := pk.e.sinks[0].Lanes[l.Group]
	return u != nil && !u.Is(lane.Settling) && (u.Is(lane.Parking) || u.Backlog.Len() > 0)
}

// takePark moves the first n deliveries that a lane has to park into a settlement.
func (pk *parker) takePark(s *settlement, l *lane.Lane, n int) {
	p := parkRun{lane: l, f: l.Failure, queue: min(n, l.QueueToPark())}
	p.backlog = n - p.queue
	now := time.Now()
	for i := range n {
		pk.addPark(s, l, l.ParkAt(i), parkedAs(l, p.f, i, n, !pk.waitsForMore(l)), now)
	}
	switch {
	case p.queue > 0:
		l.On(lane.EvParkQueue)
	case l.Is(lane.InFlight):
		l.On(lane.EvParkBeside)
	default:
		l.On(lane.EvParkBacklog)
	}
	s.parks = append(s.parks, p)
}

// waitsForMore reports whether the lane has to wait for more than its own first delivery: for deliveries in the database, for an operator's hold, or
// for an unroutable message of its group.
func (pk *parker) waitsForMore(l *lane.Lane) bool {
	return l.Blocked() || l.IsHeld() || pk.e.unroutable(l)
}

// parkedAs returns the parked form of the i-th of n deliveries of a lane. first: nothing else blocks the lane, so its first delivery is due.
func parkedAs(l *lane.Lane, f *lane.Failure, i, n int, first bool) checkpoint.Parked {
	grouped := l.Group != ""
	p := checkpoint.Parked{State: checkpoint.StateWaiting, Blocks: grouped}
	if i > 0 || f == nil {
		p.Due = !grouped || i == 0 && first
		if f != nil && f.Latest && grouped {
			if i == n-1 {
				p.Due = true
			} else {
				p.State, p.Blocks, p.ErrorClass, p.LastError = checkpoint.StateDead, false, classSuperseded, "a newer message of the group came"
			}
		}
		return p
	}
	p.LastError, p.ErrorClass = f.Err, f.Class
	switch {
	case f.State == "": // parked without a failure
		p.Due, p.NextAttempt = first || !grouped, f.Wait
	case f.State == checkpoint.StateDead:
		p.State, p.Blocks = f.State, f.Blocks && grouped
	case f.Latest && n > 1:
		p.State, p.Blocks = checkpoint.StateDead, false
	default:
		p.State, p.Due, p.NextAttempt = f.State, true, f.Wait
	}
	return p
}

func (pk *parker) addPark(s *settlement, l *lane.Lane, d *lane.Delivery, p checkpoint.Parked, now time.Time) {
	m := d.Msg
	p.Sink, p.Message, p.Attempts, p.Tries, p.Failed = l.Sink.Name, m.Message, d.Spent, d.Tries, d.Failed
	if d.Last != nil && p.State == checkpoint.StateWaiting && p.Due { // it failed before: it is due no sooner than its next try
		p.State, p.NextAttempt = checkpoint.StateRetrying, max(p.NextAttempt, l.RetryAt.Sub(now))
		p.LastError, p.ErrorClass = d.Last.Err, d.Last.Class
	}
	p.InTable = m.Fault != nil && m.Fault.Class == outbox.FaultTooLarge
	if d.Unsendable != nil && p.State == checkpoint.StateWaiting { // keep the reason in the row, so that the poller recognizes an unsendable delivery when it loads it
		p.LastError, p.ErrorClass = d.Unsendable.Err, d.Unsendable.Class
	}
	s.Park = append(s.Park, p)
	m.Parked = true
	pk.e.settler.outcome(s, outcome{m, l.Sink.Bit})
	if p.State == checkpoint.StateDead {
		pk.died(l.Sink.Name, d, p.ErrorClass)
	}
}

func (pk *parker) died(sinkName string, d *lane.Delivery, class string) {
	if class == sink.ClassCrash.String() && d.Message.Position == pk.e.load.Started.Position {
		pk.e.load.Started = checkpoint.CrashCandidate{} // an operator may replay it
	}
	name := ""
	if d.Route != nil {
		name = d.Route.Name
	}
	pk.e.log.Warn("dead letter", "sink", sinkName, "type", outbox.Shorten(d.Message.Type), "id", outbox.Shorten(d.Message.ID), "class", class)
	if f := pk.e.cfg.Events.Dead; f != nil {
		f(sinkName, name, class, 1)
	}
}

// parked notes that what a settlement parked of a lane is durable.
func (pk *parker) parked(p parkRun, now time.Time) {
	l := p.lane
	for _, d := range l.Queue.Slice()[:p.queue] {
		l.Passed(d)
		l.Sink.Queued--
	}
	l.Queue.Pop(p.queue)
	l.Sink.Queued -= p.backlog
	l.Backlog.Pop(p.backlog)
	l.Failure = nil
	if l.Group == "" || p.f != nil && p.f.Only && !p.f.Blocks {
		l.On(lane.EvSkipped)
	} else {
		l.On(lane.EvParked)
	}
	if p.f != nil && !p.f.Only || p.f == nil && !l.Polling() {
		l.Demote() // what did not fit into the settlement is behind what did
	}
	if l.Blocked() && p.f != nil {
		pk.e.poller.dueSoon(p.f.Wait, now)
	}
	pk.e.touch(l)
}
