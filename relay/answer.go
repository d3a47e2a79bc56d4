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
func (dp *dispatcher) onAnswer(c *call) {
	now := time.Now()
	dp.e.progressed(now)
	s := c.sink
	dp.inflight--
	s.Inflight--
	c.to.Inflight--
	if f := dp.e.cfg.Events.Called; f != nil {
		f(s.Name, len(c.ds), c.took)
	}
	if c.errs != nil && len(c.errs) != len(c.ds) {
		c.errs = repeat(sink.Permanent(errors.New("the sink broke its contract: wrong number of answers")), len(c.ds))
	}
	dp.judge(c, now)
	dp.e.safeMode.handledCall(c)
	at := 0
	for _, r := range c.runs {
		var errs []error
		if c.errs != nil {
			errs = c.errs[at : at+r.n]
		}
		at += r.n
		r.lane.On(lane.EvAnswer)
		dp.onRun(c, r, errs, now)
		if r.lane.Polling() && dp.e.heldEverywhere(r.lane) { // the operator's request came while the run was in flight
			dp.e.poller.release(r.lane)
		}
		dp.e.touch(r.lane)
	}
	s.List(c.to)
	dp.logOutage(s, now)
	dp.report(s, now)
	dp.announce(s, now)
	if f := dp.e.cfg.Events.Deliveries; f != nil {
		f(Answers{Sink: s.Name, Deliveries: c.ds, Errs: c.errs, Dead: dp.dead, Started: c.started, Took: c.took})
	}
	clear(dp.dead)
	dp.dead = dp.dead[:0]
}

// tally sums up a call's deliveries for one route, so that observers are called once per call, not once per lane.
type tally struct {
	route  *router.Route
	n      int
	oldest time.Time // the earliest commit time of these deliveries
}

func (dp *dispatcher) count(route *router.Route, n int, commit time.Time) {
	for i := range dp.tallies {
		if t := &dp.tallies[i]; t.route == route {
			t.n += n
			if commit.Before(t.oldest) {
				t.oldest = commit
			}
			return
		}
	}
	dp.tallies = append(dp.tallies, tally{route, n, commit})
}

// announce tells observers what a call delivered.
func (dp *dispatcher) announce(s *lane.Sink, now time.Time) {
	total := 0
	for _, t := range dp.tallies {
		total += t.n
		if f := dp.e.cfg.Events.Delivered; f != nil {
			f(s.Name, t.route.Name, t.n, now.Sub(t.oldest))
		}
	}
	dp.tallies = dp.tallies[:0]
	if f := dp.e.cfg.Events.Answered; f != nil && total > 0 {
		f(s.Name, "", total)
	}
}

// judge draws conclusions about the sink as a whole and its destination from a call's answers.
func (dp *dispatcher) judge(c *call, now time.Time) {
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
			dp.throttle(s, c.started, after, err, now)
		case is == sink.ClassPermanent:
			permanent = true
			dp.logPermanent(s, err)
		case is != sink.ClassNotAttempted && failure == nil:
			class, failure = is, err
		}
	}
	switch {
	case delivered || permanent:
		s.Answered(c.to)
		over := s.EndOutage(c.to, delivered, now)
		if delivered {
			c.to.Record.Deliver(c.number)
			s.Throttle.Succeeded()
			s.Outage.Permanent = 0
			s.On(lane.EvDeliver)
		} else {
			c.to.Record.Answer()
		}
		if over || delivered && s.IsDown() {
			dp.opened(s, now)
		}
	case failure != nil:
		c.to.Failed()
		dp.failedCall(c, class, failure, now)
	}
	if failure != nil {
		c.noteAttempts()
	}
}

// noteAttempts records an attempt for each message of the call that failed with an error of its own, not with the call's.
func (c *call) noteAttempts() {
	for i, err := range c.errs {
		switch class, _, whole := sink.Classify(err); {
		case err == nil, whole, class == sink.ClassThrottled, class == sink.ClassPermanent, class == sink.ClassNotAttempted:
		default:
			c.to.Record.Attempt(c.ds[i].Message.Position)
		}
	}
}

// othersActive reports whether another lane of the sink has something in memory to send.
func (dp *dispatcher) othersActive(s *lane.Sink, l *lane.Lane) bool {
	return s.Queued > l.Queue.Len()+l.Backlog.Len()
}

// onRun takes the answers to one lane's run: nils, then errors (R2).
func (dp *dispatcher) onRun(c *call, r run, errs []error, now time.Time) {
	l, good := r.lane, r.n
	for i, err := range errs {
		if err != nil {
			good = i
			break
		}
	}
	if good > 0 {
		dp.delivered(l, good)
	}
	if good == r.n {
		return
	}
	if dp.e.cfg.Events.Answered != nil {
		class, _, _ := sink.Classify(errs[good])
		dp.e.cfg.Events.Answered(l.Sink.Name, class.String(), 1)
	}
	if rejected := refusedBehind(errs[good:]); rejected > 0 {
		l.Isolate(rejected)
	}
	dp.onFailure(c, l, errs[good], r.n-good, now)
}

// refusedBehind returns the index of a rejected delivery if the sink attempted none of those before it; 0 = there is none. Some brokers reject a
// whole batch and name the one message that caused it.
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
func (dp *dispatcher) delivered(l *lane.Lane, n int) {
	first := l.Queue.At(0)
	dp.count(first.Route, n, first.Message.CommitTime)
	for _, d := range l.Queue.Slice()[:n] {
		l.Passed(d)
		l.Sink.Queued--
		if d.Back != nil {
			dp.e.poller.backDelivered(l, d)
			continue
		}
		if d.Receipt != nil {
			d.Msg.Receipts.Add(l.Sink.Name, d.Receipt)
		}
		dp.e.settler.outcomes = append(dp.e.settler.outcomes, outcome{d.Msg, l.Sink.Bit})
	}
	l.Queue.Pop(n)
}

// onFailure decides what a failed head means. left is the number of deliveries of the run that were not delivered.
func (dp *dispatcher) onFailure(c *call, l *lane.Lane, err error, left int, now time.Time) {
	head := l.Queue.At(0)
	class, _, whole := sink.Classify(err)
	if class != sink.ClassNotAttempted {
		head.Skipped = 0
	}
	switch {
	case class == sink.ClassNotAttempted:
		if head.Skipped++; head.Skipped > 2 {
			dp.wait(l, freeRetry, now)
		}
	case class == sink.ClassThrottled:
		dp.e.poller.requeueSoon(l, l.Sink.Throttled.Sub(now))
	case whole && len(c.ds) > 1:
		dp.logFailure(l.Sink, head, len(c.ds), class, err, now)
		if c.sink.BreakerOf(c.to).Fails() && l.BisectEnd == nil { // the destination fails: no message is to blame
			dp.e.poller.requeueSoon(l, c.sink.UntilProbe(c.to, now))
			return
		}
		l.Narrow(left)
	default:
		dp.judgeFailure(c, l, class, err, now)
	}
}

// judgeFailure decides what follows when the head failed by itself: its call carried nothing else, or the sink answered for this delivery. The
// delivery is retried later or given up.
func (dp *dispatcher) judgeFailure(c *call, l *lane.Lane, class sink.Class, err error, now time.Time) {
	s, head := l.Sink, l.Queue.At(0)
	j := lane.Judgement{Counts: true, Ends: true}
	if class != sink.ClassPermanent {
		j = c.to.Judge(head, c.number, class, s.Epoch)
	}
	head.Tries++
	most := lane.Limit(head.Route.Retry, head.Message.MaxAttempts)
	if j.Counts && (head.Spent < most || dp.policy(head) == router.KeepOn) {
		head.Spent++
	}
	f := &lane.Failure{Class: class.String(), Err: err.Error()}
	head.Last, head.Failed = f, checkpoint.Failure{Epoch: s.Epoch, Call: s.Number}
	dp.logFailure(s, head, 1, class, err, now)
	spent := head.Spent >= most && dp.policy(head) != router.KeepOn
	if class == sink.ClassPermanent || j.Ends && spent {
		if dp.failHead(l, f) == checkpoint.StateDead {
			dp.dead = append(dp.dead, &head.Delivery)
		}
		return
	}
	if s.BreakerOf(c.to).Fails() && !j.Counts {
		dp.awaitProbe(l, c.to, f, now)
		return
	}
	if c.to.Unmade(class) {
		head.Inline = inlineRetries // such names may be thousands, and what follows them in the log must not wait for memory
	}
	dp.retryLater(l, f, c.to.Delay(head, class, dp.e.cfg.Rand), now)
}

// awaitProbe lets a head wait for the next round of probes: the failure says nothing about the message, so there is no other delay.
func (dp *dispatcher) awaitProbe(l *lane.Lane, q *lane.Destination, f *lane.Failure, now time.Time) {
	if !l.Polling() {
		return // it stays in memory, until the sink or the destination is parked
	}
	g := *f
	g.State, g.Blocks, g.Wait = checkpoint.StateRetrying, l.Group != "", l.Sink.UntilProbe(q, now)
	dp.e.parker.parkHead(l, &g)
}

// retryLater waits for the next attempt: in memory if that is soon, else parked (R3).
func (dp *dispatcher) retryLater(l *lane.Lane, f *lane.Failure, wait time.Duration, now time.Time) {
	head := l.Queue.At(0)
	if wait <= inlineDelay && head.Inline < inlineRetries && !l.Sink.Parks() && head.Back == nil {
		head.Inline++
		dp.wait(l, wait, now)
		return
	}
	g := *f
	g.State, g.Blocks, g.Wait = checkpoint.StateRetrying, l.Group != "", wait
	dp.e.parker.parkHead(l, &g)
}

// failHead gives the lane's head up for good, as its policy says, and returns the state that it gets.
func (dp *dispatcher) failHead(l *lane.Lane, f *lane.Failure) checkpoint.State {
	head := l.Queue.At(0)
	if f.Class == sink.ClassCrash.String() {
		head.Spent++
	}
	l.Passed(head)
	g := *f
	policy := dp.policy(head)
	if head.Unsendable != nil && (policy == router.KeepOn || policy == router.Latest) {
		policy = router.Hold // no retry would ever send it
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
	dp.e.parker.parkHead(l, &g)
	return g.State
}

// policy returns what happens to an exhausted delivery. Without a group, no delivery waits behind it or can supersede it, so hold and latest become
// skip.
func (dp *dispatcher) policy(d *lane.Delivery) router.OnExhausted {
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
func (dp *dispatcher) wait(l *lane.Lane, d time.Duration, now time.Time) {
	l.RetryAt = now.Add(d)
	dp.retries.Add(l.RetryAt, l)
}
