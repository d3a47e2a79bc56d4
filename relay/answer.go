package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

const (
	// inlineDelay and inlineRetries bound what is waited for in memory before a lane is parked (R3).
	inlineDelay   = 2 * time.Second
	inlineRetries = 3
	freeRetry     = 100 * time.Millisecond
)

// onAnswer takes what a sink answered to a call.
func (e *engine) onAnswer(c *call) {
	now := time.Now()
	e.progressed(now)
	s := c.sink
	e.inflight--
	s.Inflight--
	c.to.Inflight--
	if f := e.cfg.Events.Called; f != nil {
		f(s.Name, len(c.ds), c.took)
	}
	if c.errs != nil && len(c.errs) != len(c.ds) {
		c.errs = repeat(sink.Permanent(errors.New("the sink broke its contract: wrong number of answers")), len(c.ds))
	}
	e.judge(c, now)
	e.handledCall(c)
	at := 0
	for _, r := range c.runs {
		var errs []error
		if c.errs != nil {
			errs = c.errs[at : at+r.n]
		}
		at += r.n
		r.lane.On(lane.EvAnswer)
		e.onRun(c, r, errs, now)
		if r.lane.Polling() && e.heldEverywhere(r.lane) { // the operator's request came while the run was in flight
			e.letGo(r.lane)
		}
		e.review(r.lane)
		e.offer(r.lane, now)
		s.Forget(r.lane)
	}
	s.List(c.to)
	e.logOutage(s, now)
	e.report(s, now)
	e.announce(s, now)
}

// tally is what a call's answers come to for one route: observers are told once a call, not once a lane.
type tally struct {
	route  *router.Route
	n      int
	oldest time.Time // commit
}

func (e *engine) count(route *router.Route, n int, commit time.Time) {
	for i := range e.tallies {
		if t := &e.tallies[i]; t.route == route {
			t.n += n
			if commit.Before(t.oldest) {
				t.oldest = commit
			}
			return
		}
	}
	e.tallies = append(e.tallies, tally{route, n, commit})
}

// announce tells observers what a call delivered.
func (e *engine) announce(s *lane.Sink, now time.Time) {
	total := 0
	for _, t := range e.tallies {
		total += t.n
		if f := e.cfg.Events.Delivered; f != nil {
			f(s.Name, t.route.Name, t.n, now.Sub(t.oldest))
		}
	}
	e.tallies = e.tallies[:0]
	if f := e.cfg.Events.Answered; f != nil && total > 0 {
		f(s.Name, "", total)
	}
}

// judge draws conclusions about the sink as a whole and its destination from a call's answers.
func (e *engine) judge(c *call, now time.Time) {
	s := c.sink
	delivered, permanent := c.errs == nil, false
	var class sink.Class // of the failure, if there is one
	var failure error
	for _, err := range c.errs {
		is, after, _ := sink.Classify(err)
		switch {
		case err == nil:
			delivered = true
		case is == sink.ClassThrottled:
			e.throttle(s, c.started, after, err, now)
		case is == sink.ClassPermanent:
			permanent = true
			e.logPermanent(s, err)
		case is != sink.ClassNotAttempted && failure == nil:
			class, failure = is, err
		}
	}
	switch {
	case delivered || permanent:
		over := s.EndsOutage(c.to, delivered, now)
		if delivered {
			c.to.Record.Deliver(c.number)
			s.Throttle.Succeeded()
			s.Outage.Permanent = 0
			s.On(lane.EvDeliver)
		} else {
			c.to.Record.Answer()
		}
		if over || delivered && s.IsDown() {
			e.opened(s, now)
		}
	case failure != nil:
		e.failedCall(c, class, failure, now)
	}
	if failure != nil {
		c.noteAttempts()
	}
}

// noteAttempts notes which messages have answers of their own, of a call with several.
func (c *call) noteAttempts() {
	for i, err := range c.errs {
		switch class, _, whole := sink.Classify(err); {
		case err == nil, whole, class == sink.ClassThrottled, class == sink.ClassPermanent, class == sink.ClassNotAttempted:
		default:
			c.to.Record.Attempt(c.ds[i].Message.Position)
		}
	}
}

// othersActive tells whether another lane of the sink has something in memory to send.
func (e *engine) othersActive(s *lane.Sink, l *lane.Lane) bool {
	return s.Queued > l.Queue.Len()+l.Arrivals.Len()
}

// onRun takes the answers to one lane's run: nils, then errors (R2).
func (e *engine) onRun(c *call, r run, errs []error, now time.Time) {
	l, good := r.lane, r.n
	for i, err := range errs {
		if err != nil {
			good = i
			break
		}
	}
	if good > 0 {
		e.delivered(l, good)
	}
	if good == r.n {
		return
	}
	if e.cfg.Events.Answered != nil {
		class, _, _ := sink.Classify(errs[good])
		e.cfg.Events.Answered(l.Sink.Name, class.String(), 1)
	}
	if guilty := refusedBehind(errs[good:]); guilty > 0 {
		l.Isolate(guilty)
	}
	e.onFailure(c, l, errs[good], r.n-good, now)
}

// refusedBehind is the index of the first delivery that was refused though those before it were not tried, as by a broker
// that names the message for which it takes nothing of a batch; 0 = there is none.
func refusedBehind(errs []error) int {
	for i, err := range errs {
		class, _, whole := sink.Classify(err)
		switch {
		case err == nil:
			return 0
		case class == sink.ClassNotAttempted:
			continue
		case whole || class == sink.ClassThrottled:
			return 0
		}
		return i
	}
	return 0
}

// delivered takes the first n deliveries out of the lane's queue: they are outcomes now.
func (e *engine) delivered(l *lane.Lane, n int) {
	first := l.Queue.At(0)
	e.count(first.Route, n, first.Message.CommitTime)
	for _, d := range l.Queue.Slice()[:n] {
		l.Passed(d)
		l.Sink.Queued--
		if d.Back != nil {
			e.backDelivered(l, d)
			continue
		}
		if d.Receipt != nil {
			d.Msg.Receipts.Add(l.Sink.Name, d.Receipt)
		}
		e.outcomes = append(e.outcomes, outcome{d.Msg, l.Sink.Bit})
	}
	l.Queue.Pop(n)
}

// onFailure decides what a failed head means. left is the number of deliveries of the run that were not delivered.
func (e *engine) onFailure(c *call, l *lane.Lane, err error, left int, now time.Time) {
	head := l.Queue.At(0)
	class, _, whole := sink.Classify(err)
	if class != sink.ClassNotAttempted {
		head.Skipped = 0
	}
	switch {
	case class == sink.ClassNotAttempted:
		if head.Skipped++; head.Skipped > 2 {
			e.wait(l, freeRetry, now)
		}
	case class == sink.ClassThrottled:
		e.putOff(l, l.Sink.Throttled.Sub(now))
	case whole && len(c.ds) > 1:
		e.logFailure(l.Sink, head, len(c.ds), class, err, now)
		if c.sink.BreakerOf(c.to).Fails() && l.Suspect == nil { // it says nothing about these messages
			e.putOff(l, c.sink.UntilProbe(c.to, now))
			return
		}
		l.Narrow(left)
	default:
		e.judgeFailure(c, l, class, err, now)
	}
}

// judgeFailure judges the failure of a delivery that its call carried alone, or whose own answer it is: the next try comes later, or it is
// given up.
func (e *engine) judgeFailure(c *call, l *lane.Lane, class sink.Class, err error, now time.Time) {
	s, head := l.Sink, l.Queue.At(0)
	j := lane.Judgement{Counts: true, Ends: true}
	if class != sink.ClassPermanent {
		j = c.to.Record.Judge(head, c.number, class, s.Epoch)
	}
	head.Tries++
	most := lane.Limit(head.Route.Retry, head.Message.MaxAttempts)
	if j.Counts && (head.Spent < most || e.policy(head) == router.KeepOn) {
		head.Spent++
	}
	f := &lane.Failure{Class: class.String(), Err: err.Error()}
	head.Last, head.Failed = f, checkpoint.Failure{Epoch: s.Epoch, Call: s.Number}
	e.logFailure(s, head, 1, class, err, now)
	spent := head.Spent >= most && e.policy(head) != router.KeepOn
	if class == sink.ClassPermanent || j.Ends && spent {
		e.failHead(l, f)
		return
	}
	if s.BreakerOf(c.to).Fails() && !j.Counts {
		e.awaitProbe(l, c.to, f, now)
		return
	}
	e.retryLater(l, f, lane.Delay(head.Route.Retry, head.Tries, e.cfg.Rand), now)
}

// awaitProbe lets a head wait for the next round of probes: the failure says nothing about the message, so there is no other delay.
func (e *engine) awaitProbe(l *lane.Lane, q *lane.Destination, f *lane.Failure, now time.Time) {
	if !l.Polling() {
		return // it stays in memory, until the sink or the destination is parked
	}
	g := *f
	g.State, g.Blocks, g.Wait = checkpoint.StateRetrying, l.Group != "", l.Sink.UntilProbe(q, now)
	e.parkHead(l, &g)
}

// retryLater waits for the next attempt: in memory if that is soon, else parked (R3).
func (e *engine) retryLater(l *lane.Lane, f *lane.Failure, wait time.Duration, now time.Time) {
	head := l.Queue.At(0)
	if wait <= inlineDelay && head.Inline < inlineRetries && !l.Sink.Parks() && head.Back == nil {
		head.Inline++
		e.wait(l, wait, now)
		return
	}
	g := *f
	g.State, g.Blocks, g.Wait = checkpoint.StateRetrying, l.Group != "", wait
	e.parkHead(l, &g)
}

// failHead gives the lane's head up for good, as its policy says.
func (e *engine) failHead(l *lane.Lane, f *lane.Failure) {
	head := l.Queue.At(0)
	if f.Class == sink.ClassCrash.String() {
		head.Spent++
	}
	l.Passed(head)
	g := *f
	policy := e.policy(head)
	if head.Doomed != nil && (policy == router.KeepOn || policy == router.Latest) {
		policy = router.Hold // it would fail for ever without being sent
		if l.Group == "" {
			policy = router.Skip
		}
	}
	switch policy {
	case router.KeepOn:
		g.State, g.Blocks, g.Wait = checkpoint.StateRetrying, l.Group != "", head.Route.Retry.Max
	case router.Latest:
		g.State, g.Blocks, g.Latest, g.Wait = checkpoint.StateRetrying, true, true, head.Route.Retry.Max
	case router.Skip:
		g.State, g.Only = checkpoint.StateDead, true
	default:
		g.State, g.Blocks = checkpoint.StateDead, true
	}
	e.parkHead(l, &g)
}

// policy is what happens to a delivery that is exhausted: without a group there is nobody to hold or to supersede.
func (e *engine) policy(d *lane.Delivery) router.OnExhausted {
	p := d.Route.OnExhausted
	if d.Lane.Group == "" && p != router.KeepOn {
		return router.Skip
	}
	if p == "" {
		return router.Hold
	}
	return p
}

// wait lets the lane's head wait in memory.
func (e *engine) wait(l *lane.Lane, d time.Duration, now time.Time) {
	l.RetryAt = now.Add(d)
	e.retries.Add(l.RetryAt, l)
}
