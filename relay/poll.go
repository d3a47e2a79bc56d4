package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

const (
	// dueMost due lanes are brought back by one query; polledMost may be in memory at once.
	dueMost    = 256
	polledMost = 512
	// pageMost deliveries, of about pageBytes, are read on of a lane whose head was delivered (R7).
	pageMost  = 1000
	pageBytes = 1 << 20
	// putBackMost is how long what is put back for a sink that rests waits in the database.
	putBackMost = time.Second
)

// pollState is what the poller has in hand.
type pollState struct {
	dueAsked bool
	dueAt    time.Time    // when the next parked delivery is due, by the database's word
	pages    []*lane.Lane // lanes to read on
	inHand   map[checkpoint.Key]bool
	looked   bool // what was due at the start is known
	// polledBytes is what the poller's deliveries take of the memory; they have a quarter of it to themselves, or a tail
	// that always fills its part would starve them.
	polledBytes int
}

// dueSoon makes the poller look again when something parked is due.
func (e *engine) dueSoon(wait time.Duration, now time.Time) {
	at := now.Add(wait)
	if e.dueAt.IsZero() || at.Before(e.dueAt) {
		e.dueAt = at
	}
}

// dueNow asks for lanes that are due, at sinks that take deliveries (R10).
func (e *engine) dueNow(now time.Time) bool {
	if !e.dueAt.IsZero() && !now.Before(e.dueAt) {
		e.dueAsked, e.dueAt = true, time.Time{}
	}
	if !e.dueAsked || len(e.inHand) >= polledMost || e.polledFull() || e.careful() && !e.nothingInHand() {
		return false
	}
	e.dueAsked, e.dueAt = false, time.Time{}
	names := []string{""}
	// What is in hand is still due in the database, and comes again: ask for as many more.
	most := min(dueMost, polledMost-len(e.inHand)) + len(e.inHand)
	if e.careful() {
		most = 1
	}
	for _, s := range e.sinks[1:] {
		ok, probe := s.Accepts(now)
		if !ok {
			continue
		}
		if probe {
			if len(s.Turn) > 0 || !s.Breaker.RoundDue(now) || now.Sub(s.Asked) < e.cfg.Tick {
				continue // lanes in memory are the probes; or what was found could not be brought back yet
			}
			e.probeDue(s, now)
			return true
		}
		names = append(names, s.Name)
	}
	e.askDue(names, most, false, func(time.Duration) {})
	return true
}

func (e *engine) polledFull() bool { return int64(e.polledBytes) >= e.cfg.Memory/4 }

// probeDue brings back a round of parked heads, to find out whether the sink works again.
func (e *engine) probeDue(s *lane.Sink, now time.Time) {
	e.dueAsked = true // the other sinks' turn comes next
	s.Asked = now
	most := lane.ProbesPerRound
	if e.careful() {
		most = 1
	}
	e.askDue([]string{s.Name}, most, true, func(next time.Duration) {
		if s.Queued == 0 && s.Inflight == 0 && next == 0 { // nothing is parked for it: the next message will tell
			s.Breaker.Close()
			s.RecoverAll(func(*lane.Breaker) bool { return true })
			e.opened(s, time.Now())
		}
	})
}

func (e *engine) askDue(names []string, most int, probe bool, then func(next time.Duration)) {
	e.operate(func(ctx context.Context) (func(), error) {
		due, next, err := e.store.Due(ctx, names, most, probe)
		if err != nil {
			return nil, fmt.Errorf("read due lanes: %w", err)
		}
		return func() {
			now, before := time.Now(), len(e.inHand)
			e.looked = true
			if e.careful() && len(due) > 0 {
				e.bringCarefully(&due[0], now)
				then(next)
				return
			}
			for i := range due {
				e.bring(&due[i], now)
			}
			if len(due) == most && most > 1 && len(e.inHand) > before {
				e.dueAsked = true
			}
			if next > 0 {
				e.dueSoon(next, now)
			}
			then(next)
		}, nil
	})
}

// bring puts the head of a due lane into memory: it is tried alone, and opens the way for what is parked behind it.
func (e *engine) bring(p *checkpoint.Parked, now time.Time) {
	s := e.byName[p.Sink]
	if s == nil || e.inHand[p.Key()] {
		return
	}
	if s.Sink == nil && !e.inTurn(p) {
		e.dueSoon(e.cfg.Tick, now)
		return
	}
	var l *lane.Lane
	if p.Blocks && p.Message.Group != "" {
		l = s.Lane(p.Message.Group)
		// That a message of the group cannot be routed is no reason to wait: what is behind it is not due, by the store's word.
		if l.Polling() || l.Is(lane.Frozen|lane.Settling|lane.InFlight|lane.Changing|lane.Parking|lane.Paging) || l.IsHeld() || e.heldEverywhere(l) {
			return
		}
		l.Shelve() // cannot be sent before what is parked
	} else {
		l = lane.NewLane(s, "")
	}
	l.On(lane.EvBring)
	if s.Sink == nil {
		e.reroute(l, p)
		return
	}
	e.pushBack(l, p)
	e.offer(l, now)
}

// pushBack makes a delivery of what is parked.
func (e *engine) pushBack(l *lane.Lane, p *checkpoint.Parked) {
	if !e.knows(p.Message.Table) {
		return
	}
	d := &lane.Delivery{Back: p, Lane: l, Spent: p.Attempts, Tries: p.Tries, Failed: p.Failed}
	d.Message, d.Source = p.Message, e.cfg.Pipeline
	route, err := e.cfg.Router.ForSink(p.Message, p.Sink, &d.Delivery)
	d.Route = route
	if err != nil {
		d.Route = &router.Route{Name: p.Sink, Retry: router.DefaultRetry()}
		d.Doomed = &lane.Failure{Class: "unroutable", Err: err.Error()}
	}
	if why := e.doomBack(p); why != nil {
		d.Doomed = why
	}
	if d.Doomed == nil {
		d.Doomed = l.Sink.TopicFault(d)
	}
	if p.Original != "" && !outbox.IsStandInID(p.Original) {
		d.Headers = append(d.Headers[:len(d.Headers):len(d.Headers)],
			outbox.Header{Name: sink.HeaderReplaces, Value: []byte(p.Original)})
	}
	if e.cfg.Receipts != nil && e.cfg.Receipts(p.Message.Table) {
		d.Receipt = &sink.Receipt{}
	}
	e.inHand[p.Key()] = true
	e.readAny = true
	e.polledBytes += p.Message.Size()
	l.Sink.Queued++
	l.Queue.Push(d)
}

// doomBack is why a parked delivery must not be sent. Where a message that has ended relays was parked before its turn came, behind
// others, its row says so until an operator replays it.
func (e *engine) doomBack(p *checkpoint.Parked) *lane.Failure {
	switch crash := sink.ClassCrash.String(); {
	case p.Message.Fault != nil:
		return &lane.Failure{Class: p.Message.Fault.Class, Err: p.Message.Fault.Reason}
	case p.State == checkpoint.StateWaiting && p.ErrorClass == crash:
		return &lane.Failure{Class: crash, Err: p.LastError}
	}
	return e.proven(p.Message.Position)
}

// reroute tries to route what is parked under the sink "" again: if it can be, it goes on as parked at its sinks.
func (e *engine) reroute(l *lane.Lane, p *checkpoint.Parked) {
	e.inHand[p.Key()] = true
	e.polledBytes += p.Message.Size()
	r := &routed{msg: lane.Message{Message: p.Message}}
	r.delivery.Message = p.Message
	r.msg.Route, r.err = e.cfg.Router.Route(p.Message, &r.delivery.Delivery)
	targets := e.targetsOf(r)
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
	e.addChange(c)
}

func (e *engine) addChange(c change) {
	c.lane.Changes++
	c.lane.On(lane.EvChange)
	e.pending = append(e.pending, c)
}

// change is the new state of a delivery in hand.
func (e *engine) changeOf(l *lane.Lane, d *lane.Delivery) change {
	c := change{lane: l, size: d.Message.Size()}
	c.Key, c.Group, c.Attempts, c.Tries, c.Failed = d.Back.Key(), l.Group, d.Spent, d.Tries, d.Failed
	return c
}

// backDelivered notes that a parked delivery was delivered.
func (e *engine) backDelivered(l *lane.Lane, d *lane.Delivery) {
	c := e.changeOf(l, d)
	c.Delivered, c.Message = true, d.Message
	if d.Receipt != nil {
		c.Receipt = lane.ReceiptLine(l.Sink.Name, d.Receipt)
	}
	l.After = d.Message.Position
	e.addChange(c)
}

// backFailed notes that a parked delivery failed again: what is behind it in memory is let go, the database has it.
func (e *engine) backFailed(l *lane.Lane, f *lane.Failure) {
	d := l.Queue.At(0)
	c := e.changeOf(l, d)
	c.State, c.LastError, c.ErrorClass, c.Message = f.State, f.Err, f.Class, d.Message
	grouped := l.Group != ""
	c.Blocks = f.Blocks && grouped
	if f.State == checkpoint.StateRetrying {
		c.Blocks, c.Due, c.NextAttempt = grouped, true, f.Wait
		c.Supersede = f.Latest && grouped
	} else {
		e.died(l.Sink.Name, d, f.Class)
	}
	e.addChange(c)
	e.drop1(l)
	e.letGo(l)
}

// putBack gives a parked delivery back untried: its sink or destination takes nothing for so long.
func (e *engine) putBack(l *lane.Lane, wait time.Duration) {
	d := l.Queue.At(0)
	c := e.changeOf(l, d)
	c.State, c.Blocks = d.Back.State, d.Back.Blocks
	c.LastError, c.ErrorClass = d.Back.LastError, d.Back.ErrorClass
	c.Due, c.NextAttempt = true, wait
	e.addChange(c)
	e.drop1(l)
	e.letGo(l)
}

// putOff puts a lane back that was brought by the poller, after an answer that says to wait. How long a sink wants to rest is not
// written down: nothing is asked for at a sink that takes nothing, and what is put back is due as soon as an operator ends that.
func (e *engine) putOff(l *lane.Lane, wait time.Duration) {
	if l.Polling() {
		e.putBack(l, max(min(wait, putBackMost), 0))
	}
}

// drop1 takes the head, whose change is noted, out of the queue.
func (e *engine) drop1(l *lane.Lane) {
	l.Passed(l.Queue.At(0))
	l.Queue.Pop(1)
	l.Sink.Queued--
}

// letGo forgets what the poller brought into a lane and is not in flight.
func (e *engine) letGo(l *lane.Lane) {
	for _, d := range l.Queue.Slice() {
		l.Passed(d)
		delete(e.inHand, d.Back.Key())
		e.polledBytes -= d.Message.Size()
		l.Sink.Queued--
	}
	l.Queue.Clear()
	e.endPolling(l)
	e.review(l)
}

// endPolling takes note that nothing of the poller's is in a lane's queue, or on its way there.
func (e *engine) endPolling(l *lane.Lane) {
	l.On(lane.EvLetGo)
	if e.heldEverywhere(l) { // since a run of the poller's was in flight
		l.On(lane.EvHold)
	}
	e.dueAsked = true
}

// pageNow reads on a lane whose polled deliveries are all delivered.
func (e *engine) pageNow() bool {
	for len(e.pages) > 0 && !e.stops() && !e.polledFull() {
		l := e.pages[0]
		e.pages = e.pages[1:]
		// What is parked behind a message that cannot be routed waits for it; the store knows which that is.
		if l.Is(lane.Frozen|lane.Settling) || !l.Polling() || e.unroutable(l) {
			l.On(lane.EvDropPage)
			if l.Polling() {
				e.endPolling(l)
			}
			e.dueAsked = true
			continue
		}
		if ok, _ := l.Sink.Accepts(time.Now()); !ok {
			l.On(lane.EvDropPage)
			e.letGo(l)
			continue
		}
		e.page(l)
		return true
	}
	return false
}

func (e *engine) page(l *lane.Lane) {
	l.On(lane.EvPage)
	name := checkpoint.Lane{Sink: l.Sink.Name, Group: l.Group}
	after := l.After
	bytes := min(pageBytes, int(e.cfg.Memory/16))
	e.operate(func(ctx context.Context) (func(), error) {
		page, more, err := e.store.Page(ctx, name, after, pageMost, bytes)
		if err != nil {
			return nil, fmt.Errorf("read parked lane: %w", err)
		}
		return func() {
			e.paged(l, page, more)
			e.review(l)
			e.offer(l, time.Now())
		}, nil
	})
}

// paged puts a page into the lane's queue, unless the sink has been parked while the page was read.
func (e *engine) paged(l *lane.Lane, page []checkpoint.Parked, more bool) {
	if !l.Polling() {
		l.On(lane.EvDropPage)
		e.dueAsked = true
		return
	}
	if more {
		l.On(lane.EvMore)
	} else {
		l.On(lane.EvLast)
	}
	for i := range page {
		e.pushBack(l, &page[i])
	}
	if len(page) == 0 {
		e.endPolling(l)
	}
}

// changed takes note that changes of parked deliveries are durable, and goes on with their lanes.
func (e *engine) changed(s *settlement, done *checkpoint.Settled, now time.Time) {
	for _, c := range s.changes {
		if c.lane.Changes--; c.lane.Changes == 0 {
			c.lane.On(lane.EvChanged)
		}
		delete(e.inHand, c.Key)
		e.polledBytes -= c.size
	}
	for _, name := range done.Open {
		e.reopen(name)
	}
	for _, name := range done.Next {
		if l := e.laneNamed(name); l != nil && !e.careful() && l.PolledOut() {
			l.On(lane.EvWantPage)
			e.pages = append(e.pages, l)
		} else {
			e.dueAsked = true
		}
	}
	for _, c := range s.changes {
		l := c.lane
		if l.PolledOut() {
			e.endPolling(l)
			e.review(l)
		}
		if c.Due {
			e.dueSoon(c.NextAttempt, now)
		}
		l.Sink.Forget(l)
	}
}

func (e *engine) laneNamed(name checkpoint.Lane) *lane.Lane {
	s := e.byName[name.Sink]
	if s == nil || name.Group == "" {
		return nil
	}
	return s.Find(name.Group)
}

// reopen lets a lane flow again: the database shows nothing that blocks it (R7).
func (e *engine) reopen(name checkpoint.Lane) {
	l := e.laneNamed(name)
	if l == nil || l.Queue.Len() > 0 || l.Is(lane.InFlight|lane.Changing|lane.Settling) {
		return
	}
	l.On(lane.EvReopen)
	e.review(l)
	if l.Sink.Sink == nil { // the group was blocked at every sink
		for _, s := range e.sinks[1:] {
			if other := s.Find(name.Group); other != nil {
				e.review(other)
			}
		}
		e.dueAsked = true
	}
	l.Sink.Forget(l)
}
