package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/sink"
)

// A dispatcher sends what lanes have to sinks, and decides what their answers mean. It belongs to the engine's goroutine; each call has one of
// its own, which owns the call until it has put it into answers.
type dispatcher struct {
	e *engine

	answers  chan *call
	over     chan struct{} // closed when nobody waits for answers any more
	calls    chan func()   // to goroutines that have made a call before
	inflight int           // calls
	sent     bool          // a delivery was started
	lagging  bool          // what was read last was committed long ago
	retries  lane.Retries
	tallies  []tally
	dead     []*sink.Delivery // of the answered call, that become dead letters
}

// call is one Deliver: runs of one or more lanes, all to one destination.
type call struct {
	sink    *lane.Sink
	to      *lane.Destination
	runs    []run
	ds      []*sink.Delivery
	number  int64 // within the sink
	started time.Time
	took    time.Duration
	errs    []error
}

// run is the prefix of a lane that is in flight.
type run struct {
	lane *lane.Lane
	n    int
}

// offer puts a lane that can start a run into its destination's list.
func (dp *dispatcher) offer(l *lane.Lane, now time.Time) {
	if l.Is(lane.Ready) || !l.Sendable(now) {
		return
	}
	s := l.Sink
	if s.Parks() && !l.Polling() {
		dp.e.parker.review(l)
		return
	}
	head := l.Queue.At(0)
	if s.To != nil && head.Unsendable == nil { // an unsendable head gets no destination: its topic may be longer than the sink takes
		head.Destination = s.To(head)
	}
	q := s.DestinationOf(head.Destination)
	if b := &q.Breaker; b.Fails() && now.Sub(b.Since) >= lane.ParkAfter {
		if ok, _ := b.Allows(now); !ok || head.FailedAfter(b.RoundOf(now, s.Number)) {
			dp.e.parker.parkFailing(l, b, now)
			return
		}
	}
	q.Ready = append(q.Ready, l)
	l.On(lane.EvOffer)
	s.List(q)
}

// dispatch starts as many calls of a sink as its limits and its state allow.
func (dp *dispatcher) dispatch(s *lane.Sink, now time.Time) {
	if s.Failing > 0 {
		s.Relist()
	}
	if dp.gathering(s, now) {
		return
	}
	calls, messages := 0, 0
	var probed []*lane.Destination // destinations of which every sendable head has failed in this round: nothing is left to probe
	defer func() {
		dp.letGather(s, calls, messages, now)
		for _, q := range probed {
			s.List(q)
		}
	}()
	for s.RunQueue.Len() > 0 && s.Inflight < s.Limits.Concurrency {
		ok, probe := s.Accepts(now)
		if !ok || !dp.e.session.trusted(now) {
			return
		}
		q := s.RunQueue.Next()
		if s.Full(q) {
			continue // listed again by the next answer
		}
		ok, single := q.Breaker.Allows(now)
		if !ok {
			continue // listed again when its next round is due
		}
		if single = single || probe; single {
			if !q.ProbeFirst(now, max(s.Breaker.RoundOf(now, s.Number), q.Breaker.RoundOf(now, s.Number))) {
				probed = append(probed, q)
				continue
			}
		}
		c := dp.build(s, q, single, now)
		if c == nil {
			s.List(q)
			continue
		}
		if single {
			s.Breaker.Probed(now, s.Number)
			q.Breaker.Probed(now, s.Number)
		}
		calls, messages = calls+1, messages+len(c.ds)
		dp.send(c)
		s.List(q)
	}
}

const (
	// While the relay is far behind, it sends fewer and larger calls to a sink that takes one call at a time per destination. If its last calls had
	// fewer than gatherSize messages on average, its next calls wait gatherFor. Small calls cost the broker most, and it often shares the relay's
	// machine.
	gatherFor  = 50 * time.Millisecond
	gatherSize = 500
	farBehind  = time.Second
)

// gathering reports whether a sink waits for more to send at once. It does not while memory is short.
func (dp *dispatcher) gathering(s *lane.Sink, now time.Time) bool {
	return now.Before(s.Gathers) && dp.lagging && dp.e.intake.memory.InUse() < dp.e.cfg.Memory/2
}

// letGather makes a sink wait after small calls. It does not if destinations still queue because the sink's concurrency is used up: then the sink
// limits the speed, not the size of its calls.
func (dp *dispatcher) letGather(s *lane.Sink, calls, messages int, now time.Time) {
	if dp.lagging && calls > 0 && s.RunQueue.Len() == 0 && s.Limits.PerDestination == 1 && messages/calls < min(gatherSize, s.Limits.Batch/2) {
		s.Gathers = now.Add(gatherFor)
	}
}

// build makes a call from the lanes that are ready for a destination. It returns nil when none of them has anything to
// send after all.
func (dp *dispatcher) build(s *lane.Sink, q *lane.Destination, single bool, now time.Time) *call {
	limits := s.Limits
	if single {
		limits.Batch, limits.Run = 1, 1
	}
	c := &call{sink: s, to: q, started: now}
	room, bytes := limits.Batch, limits.Bytes
	taken := 0
	for taken < len(q.Ready) && (limits.Batch <= 0 || room > 0) {
		l := q.Ready[taken]
		if !l.Sendable(now) {
			l.On(lane.EvWithdraw)
			taken++
			continue
		}
		if !l.Polling() && dp.e.closed(l) { // it was closed since it was offered
			l.On(lane.EvWithdraw)
			taken++
			dp.e.parker.divert(l)
			continue
		}
		head := l.Queue.At(0)
		if head.Unsendable != nil {
			l.On(lane.EvWithdraw)
			taken++
			dp.failHead(l, head.Unsendable)
			continue
		}
		if dp.e.settler.gate != 0 && head.Msg != nil && head.Msg.Seq > dp.e.settler.gate {
			l.On(lane.EvWithdraw)
			taken++
			dp.e.settler.gated = append(dp.e.settler.gated, l)
			continue
		}
		if l.BisectEnd != nil && len(c.runs) > 0 {
			break // it wants a call of its own
		}
		n := l.RunLength(limits, room, bytes, len(c.runs) == 0, s.To)
		if n == 0 {
			break
		}
		if s.To != nil && head.Destination != q.Destination {
			l.On(lane.EvWithdraw)
			taken++
			dp.offer(l, now)
			continue
		}
		taken++
		dp.addRun(c, l, n, &room, &bytes)
		if l.BisectEnd != nil {
			break
		}
	}
	rest := copy(q.Ready, q.Ready[taken:])
	clear(q.Ready[rest:])
	q.Ready = q.Ready[:rest]
	if len(c.runs) == 0 {
		return nil
	}
	return c
}

func (dp *dispatcher) addRun(c *call, l *lane.Lane, n int, room, bytes *int) {
	for i := range n {
		d := l.Queue.At(i)
		d.Attempt = d.Tries + 1
		if d.Receipt != nil {
			*d.Receipt = sink.Receipt{}
		}
		d.Destination = c.to.Destination
		c.ds = append(c.ds, &d.Delivery)
		*bytes -= len(d.Value)
	}
	*room -= n
	l.On(lane.EvSend)
	c.runs = append(c.runs, run{l, n})
}

// send starts the call in a goroutine of its own.
func (dp *dispatcher) send(c *call) {
	c.sink.Number++
	c.number = c.sink.Number
	if len(c.ds) == 1 {
		c.to.Record.Attempt(c.ds[0].Message.Position)
	}
	c.sink.Inflight++
	c.to.Inflight++
	dp.inflight++
	dp.sent = true
	ctx, answered, hide := c.sink.Calls, dp.e.session.answered, dp.e.cfg.Hide
	dp.beside(func() {
		// Between the decision and this line the process, or the whole machine, may have been stopped for a minute (R12).
		if elapsed(answered, time.Now()) >= sessionTrust {
			c.errs = repeat(sink.NotAttempted(errStale), len(c.ds))
		} else {
			c.errs = c.sink.Sink.Deliver(ctx, c.ds)
			c.clean(hide)
		}
		c.took = time.Since(c.started)
		select {
		case dp.answers <- c:
		case <-dp.over: // it was given up
		}
	})
}

// beside runs a call in a goroutine. If one is free that has made a call before, that one does it: its stack has grown already.
func (dp *dispatcher) beside(run func()) {
	select {
	case dp.calls <- run:
		return
	default:
	}
	go func() {
		for {
			run()
			select {
			case run = <-dp.calls:
			case <-dp.over:
				return
			}
		}
	}()
}

// clean removes the configuration's secrets from the errors before any of them is logged or stored.
func (c *call) clean(hide func(string) string) {
	for i, err := range c.errs {
		if err != nil {
			c.errs[i] = sink.Clean(err, hide)
		}
	}
}

var errStale = errors.New("the session with the store has not answered for too long")

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
