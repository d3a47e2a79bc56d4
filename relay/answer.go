package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

const (
	// inlineDelay and inlineRetries bound what is waited for in memory before a lane is parked (R3).
	inlineDelay   = 2 * time.Second
	inlineRetries = 3
	// unreachedLimit answers of "unreachable" to one message, while others of its destination are answered, make it rejected.
	unreachedLimit = 3
	freeRetry      = 100 * time.Millisecond
)

// onAnswer takes what a sink answered to a call.
func (e *engine) onAnswer(c *call) {
	now := time.Now()
	e.progressed(now)
	s := c.sink
	e.inflight--
	s.inflight--
	c.to.inflight--
	if c.probe {
		s.probing = false
	}
	if f := e.cfg.Events.Called; f != nil {
		f(s.name, len(c.ds), c.took)
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
		r.lane.busy = 0
		e.onRun(r.lane, r.n, errs, len(c.ds), now)
		e.review(r.lane)
		e.offer(r.lane, now)
		s.forget(r.lane)
	}
	s.list(c.to)
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
func (e *engine) announce(s *sinkState, now time.Time) {
	total := 0
	for _, t := range e.tallies {
		total += t.n
		if f := e.cfg.Events.Delivered; f != nil {
			f(s.name, t.route.Name, t.n, now.Sub(t.oldest))
		}
	}
	e.tallies = e.tallies[:0]
	if f := e.cfg.Events.Answered; f != nil && total > 0 {
		f(s.name, "", total)
	}
}

// judge draws conclusions about the sink as a whole and its destination from a call's answers.
func (e *engine) judge(c *call, now time.Time) {
	s := c.sink
	reached, attempted, good := c.errs == nil, c.errs == nil, c.errs == nil
	misconfigured := false
	if good {
		s.throttle.succeeded()
	}
	at := 0
	for _, r := range c.runs {
		for i := range r.n {
			if c.errs == nil {
				break
			}
			err := c.errs[at+i]
			class, after, _ := sink.Classify(err)
			switch {
			case err == nil:
				reached, attempted, good = true, true, true
				s.throttle.succeeded()
			case class == sink.ClassThrottled:
				reached, attempted = true, true
				e.throttle(s, c.started, after, err, now)
			case class == sink.ClassUnreachable:
				attempted = true
			case class == sink.ClassMisconfigured:
				reached, attempted, misconfigured = true, true, true
				e.pauseDestination(s, c.to, err, now)
			case class != sink.ClassNotAttempted:
				reached, attempted = true, true
			}
		}
		at += r.n
	}
	switch {
	case reached:
		s.answered(c.to)
		s.unproven = s.unproven && !good
		broken := s.breaker.answered()
		if broken { // what was not reached meanwhile was so because of that
			clear(s.troubles)
		}
		if broken || good && !s.down.IsZero() {
			e.opened(s, now)
		}
	case attempted:
		s.unanswered(c.to.Destination, now)
		e.unreachable(s, c, now)
	}
	if p := s.pauses[c.to.Name]; p != nil && !misconfigured {
		p.probing = false
		if reached {
			s.lift(c.to.Name)
			e.log.Info("destination takes deliveries again", "sink", s.name, "destination", c.to.Name)
			e.opened(s, now)
		}
	}
}

// unreachable counts a call that did not reach the sink, once, and opens its breaker after several.
func (e *engine) unreachable(s *sinkState, c *call, now time.Time) {
	l := c.runs[0].lane
	err := firstError(c.errs)
	if s.breaker.failed(now, l, e.othersActive(s, l)) {
		s.why = err.Error()
		s.down = now
		e.log.Warn("sink cannot be reached: breaker open", "sink", s.name, "error", err)
		e.report(s, now)
	} else if s.breaker.open {
		s.why = err.Error()
	}
}

// othersActive tells whether another lane of the sink has something in memory to send.
func (e *engine) othersActive(s *sinkState, l *lane) bool {
	return s.queued > l.queue.len()+l.arrivals.len()
}

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// onRun takes the answers to one lane's run: nils, then errors (R2).
func (e *engine) onRun(l *lane, n int, errs []error, inCall int, now time.Time) {
	good := n
	for i, err := range errs {
		if err != nil {
			good = i
			break
		}
	}
	if good > 0 {
		e.delivered(l, good)
	}
	if good == n {
		return
	}
	if e.cfg.Events.Answered != nil {
		class, _, _ := sink.Classify(errs[good])
		e.cfg.Events.Answered(l.sink.name, class.String(), 1)
	}
	if guilty := refusedBehind(errs[good:]); guilty > 0 {
		l.isolate(guilty)
	}
	e.onFailure(l, errs[good], n-good, inCall, now)
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
		case whole || class != sink.ClassPermanent && class != sink.ClassRejected && class != sink.ClassUnavailable:
			return 0
		}
		return i
	}
	return 0
}

// delivered takes the first n deliveries out of the lane's queue: they are outcomes now.
func (e *engine) delivered(l *lane, n int) {
	first := l.queue.at(0)
	e.count(first.route, n, first.Message.CommitTime)
	for _, d := range l.queue.slice()[:n] {
		l.passed(d)
		l.sink.queued--
		if d.back != nil {
			e.backDelivered(l, d)
			continue
		}
		if d.Receipt != nil {
			d.msg.receipts.add(l.sink.name, d.Receipt)
		}
		e.outcomes = append(e.outcomes, outcome{d.msg, l.sink.bit})
	}
	l.queue.pop(n)
}

// onFailure decides what a failed head means (ARCHITECTURE 6). left is the number of deliveries of the run that were not
// delivered, inCall the number of all deliveries in the call.
func (e *engine) onFailure(l *lane, err error, left, inCall int, now time.Time) {
	head := l.queue.at(0)
	class, _, whole := sink.Classify(err)
	if class == sink.ClassUnreachable {
		if !l.poisonous(head) {
			e.unreached(l, head, err, now)
			return
		}
		class = sink.ClassRejected
	} else if class != sink.ClassNotAttempted {
		head.unreached = 0
	}
	if class != sink.ClassNotAttempted {
		head.skipped = 0
	}
	if whole && inCall > 1 && (class == sink.ClassPermanent || class == sink.ClassRejected || class == sink.ClassUnavailable) {
		l.narrow(left)
		return
	}
	switch class {
	case sink.ClassNotAttempted:
		if head.skipped++; head.skipped > 2 {
			e.wait(l, freeRetry, now)
		}
	case sink.ClassThrottled, sink.ClassMisconfigured:
		e.offBack(l, now)
	case sink.ClassPermanent:
		head.spent++
		e.failHead(l, &failure{class: class.String(), err: err.Error()}, now)
	default:
		head.spent++
		e.rejected(l, head, err, now)
	}
}

// rejected waits for the next attempt: in memory if that is soon, else parked (R3); or gives up.
func (e *engine) rejected(l *lane, head *delivery, err error, now time.Time) {
	f := &failure{class: sink.ClassRejected.String(), err: err.Error()}
	policy := e.policy(head)
	if head.spent >= limit(head.route.Retry, head.Message.MaxAttempts) && policy != router.KeepOn {
		e.failHead(l, f, now)
		return
	}
	wait := delay(head.route.Retry, head.spent, e.cfg.Rand)
	if wait <= inlineDelay && head.inline < inlineRetries && !l.sink.park && head.back == nil {
		head.inline++
		e.wait(l, wait, now)
		return
	}
	f.state, f.blocks, f.wait = checkpoint.StateRetrying, l.group != "", wait
	e.parkHead(l, f, now)
}

// failHead gives the lane's head up for good, as its policy says.
func (e *engine) failHead(l *lane, f *failure, now time.Time) {
	head := l.queue.at(0)
	if f.class == sink.ClassCrash.String() {
		head.spent++
	}
	l.passed(head)
	g := *f
	policy := e.policy(head)
	if head.doomed != nil && (policy == router.KeepOn || policy == router.Latest) {
		policy = router.Hold // it would fail for ever without being sent
		if l.group == "" {
			policy = router.Skip
		}
	}
	switch policy {
	case router.KeepOn:
		g.state, g.blocks, g.wait = checkpoint.StateRetrying, l.group != "", head.route.Retry.Max
	case router.Latest:
		g.state, g.blocks, g.latest, g.wait = checkpoint.StateRetrying, true, true, head.route.Retry.Max
	case router.Skip:
		g.state, g.only = checkpoint.StateDead, true
	default:
		g.state, g.blocks = checkpoint.StateDead, true
	}
	e.parkHead(l, &g, now)
}

// policy is what happens to a delivery that is exhausted: without a group there is nobody to hold or to supersede.
func (e *engine) policy(d *delivery) router.OnExhausted {
	p := d.route.OnExhausted
	if d.lane.group == "" && p != router.KeepOn {
		return router.Skip
	}
	if p == "" {
		return router.Hold
	}
	return p
}

// wait lets the lane's head wait in memory.
func (e *engine) wait(l *lane, d time.Duration, now time.Time) {
	l.retryAt = now.Add(d)
	e.retries.add(l.retryAt, l)
}
