package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// call is one Deliver: runs of one or more lanes, all to one destination.
type call struct {
	sink    *sinkState
	to      *destination
	runs    []run
	ds      []*sink.Delivery
	number  int64 // within the sink
	started time.Time
	took    time.Duration
	errs    []error
}

// run is the prefix of a lane that is in flight.
type run struct {
	lane *lane
	n    int
}

// offer puts a lane that can start a run into its destination's list.
func (e *engine) offer(l *lane, now time.Time) {
	if l.ready || !l.sendable(now) {
		return
	}
	s := l.sink
	if s.park && !l.polling {
		e.review(l)
		return
	}
	head := l.queue.at(0)
	if s.to != nil && head.doomed == nil { // what is not sent has no destination: its topic may be of any length
		head.Destination = s.to(head)
	}
	q := s.destinationOf(head.Destination)
	if b := &q.breaker; b.fails() && now.Sub(b.since) >= parkAfter {
		if ok, _ := b.allows(now); !ok || head.failedAfter(b.roundOf(now, s.number)) {
			e.parkFailing(l, b, now)
			return
		}
	}
	q.ready = append(q.ready, l)
	l.ready = true
	s.list(q)
}

// dispatch starts as many calls of a sink as its limits and its state allow.
func (e *engine) dispatch(s *sinkState, now time.Time) {
	if s.failing > 0 {
		s.relist()
	}
	if e.gathering(s, now) {
		return
	}
	calls, messages := 0, 0
	var probed []*destination // all of their heads, in this round
	defer func() {
		e.letGather(s, calls, messages, now)
		for _, q := range probed {
			s.list(q)
		}
	}()
	for len(s.turn) > 0 && s.inflight < s.limits.Concurrency {
		ok, probe := s.accepts(now)
		if !ok || !e.trusted(now) {
			return
		}
		q := s.turn[0]
		s.turn = s.turn[1:]
		q.listed = false
		if s.full(q) {
			continue // listed again by the next answer
		}
		ok, single := q.breaker.allows(now)
		if !ok {
			continue // listed again when its next round is due
		}
		if single = single || probe; single {
			if !q.probeFirst(now, max(s.breaker.roundOf(now, s.number), q.breaker.roundOf(now, s.number))) {
				probed = append(probed, q)
				continue
			}
		}
		c := e.build(s, q, single, now)
		if c == nil {
			s.list(q)
			continue
		}
		if single {
			s.breaker.probed(now, s.number)
			q.breaker.probed(now, s.number)
		}
		calls, messages = calls+1, messages+len(c.ds)
		e.send(c)
		s.list(q)
	}
}

const (
	// While the relay is far behind, a sink that takes one call at a time for a destination gets its next calls gatherFor
	// after the last ones, where those had less than gatherSize messages: many small calls would cost more than they bring, and
	// the broker most, which often has the same processors.
	gatherFor  = 50 * time.Millisecond
	gatherSize = 500
	farBehind  = time.Second
)

// gathering tells whether a sink waits for more to send at once. It does not while memory is short.
func (e *engine) gathering(s *sinkState, now time.Time) bool {
	return now.Before(s.gathers) && e.lagging && e.memory.used.Load() < e.cfg.Memory/2
}

// letGather makes a sink wait after small calls, unless there are more destinations to send to than calls may be made: then it is
// the sink that is behind.
func (e *engine) letGather(s *sinkState, calls, messages int, now time.Time) {
	if e.lagging && calls > 0 && len(s.turn) == 0 && s.limits.PerDestination == 1 && messages/calls < min(gatherSize, s.limits.Batch/2) {
		s.gathers = now.Add(gatherFor)
	}
}

// build makes a call from the lanes that are ready for a destination. It returns nil when none of them has anything to
// send after all.
func (e *engine) build(s *sinkState, q *destination, single bool, now time.Time) *call {
	limits := s.limits
	if single {
		limits.Batch, limits.Run = 1, 1
	}
	c := &call{sink: s, to: q, started: now}
	room, bytes := limits.Batch, limits.Bytes
	taken := 0
	for taken < len(q.ready) && (limits.Batch <= 0 || room > 0) {
		l := q.ready[taken]
		if !l.sendable(now) {
			l.ready = false
			taken++
			continue
		}
		if !l.polling && e.closed(l) { // it was closed since it was offered
			l.ready = false
			taken++
			e.divert(l)
			continue
		}
		head := l.queue.at(0)
		if head.doomed != nil {
			l.ready = false
			taken++
			e.failHead(l, head.doomed, now)
			continue
		}
		if e.gate != 0 && head.msg != nil && head.msg.seq > e.gate {
			l.ready = false
			taken++
			e.gated = append(e.gated, l)
			continue
		}
		if l.suspect != nil && len(c.runs) > 0 {
			break // it wants a call of its own
		}
		n := l.runLength(limits, room, bytes, len(c.runs) == 0, s.to)
		if n == 0 {
			break
		}
		if s.to != nil && head.Destination != q.Destination {
			l.ready = false
			taken++
			e.offer(l, now)
			continue
		}
		l.ready = false
		taken++
		e.addRun(c, l, n, &room, &bytes)
		if l.suspect != nil {
			break
		}
	}
	rest := copy(q.ready, q.ready[taken:])
	clear(q.ready[rest:])
	q.ready = q.ready[:rest]
	if len(c.runs) == 0 {
		return nil
	}
	return c
}

func (e *engine) addRun(c *call, l *lane, n int, room, bytes *int) {
	for i := range n {
		d := l.queue.at(i)
		d.Attempt = d.tries + 1
		if d.Receipt != nil {
			*d.Receipt = sink.Receipt{}
		}
		d.Destination = c.to.Destination
		c.ds = append(c.ds, &d.Delivery)
		*bytes -= len(d.Value)
	}
	*room -= n
	l.busy = n
	c.runs = append(c.runs, run{l, n})
}

// send starts the call in a goroutine of its own.
func (e *engine) send(c *call) {
	c.sink.number++
	c.number = c.sink.number
	if len(c.ds) == 1 {
		c.to.record.attempt(c.ds[0].Message.Position)
	}
	c.sink.inflight++
	c.to.inflight++
	e.inflight++
	e.sent = true
	ctx, answered, hide := c.sink.calls, e.answered, e.cfg.Hide
	go func() {
		// Between the decision and this line the process, or the whole machine, may have been stopped for a minute (R12).
		if elapsed(answered, time.Now()) >= sessionTrust {
			c.errs = repeat(sink.NotAttempted(errStale), len(c.ds))
		} else {
			c.errs = c.sink.sink.Deliver(ctx, c.ds)
			c.clean(hide)
		}
		c.took = time.Since(c.started)
		select {
		case e.answers <- c:
		case <-e.over: // it was given up
		}
	}()
}

// clean takes out of the errors what nobody is to read, before any of them is logged or stored.
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
