package relay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

const (
	// dueMost due lanes are brought back by one query. For a sink that has polledMost in memory none is asked for.
	dueMost    = 256
	polledMost = 512
	// After a lane's head was delivered, the poller reads the lane on in pages of at most pageMost deliveries and about pageBytes (R7).
	pageMost  = 1000
	pageBytes = 1 << 20
	// requeueMost bounds how long a requeued delivery waits in the database while its sink rests.
	requeueMost = time.Second
)

// A poller brings parked deliveries back when they are due (R10), and reads on in lanes whose head was delivered (R7). It belongs to the
// engine's goroutine.
type poller struct {
	e *engine

	dueAsked bool
	dueAt    time.Time    // when the next parked delivery is due, by the database's word
	pages    []*lane.Lane // lanes to read on
	inHand   map[checkpoint.Key]bool
	looked   bool // what was due at the start is known
	// polledBytes is what the poller's deliveries take of the memory; they have a quarter of it to themselves, or a tail
	// that always fills its part would starve them. If it is used up, a sink that has less than an equal part of it may still load.
	polledBytes int64
}

// dueSoon makes the poller look again when something parked is due.
func (pl *poller) dueSoon(wait time.Duration, now time.Time) {
	at := now.Add(wait)
	if pl.dueAt.IsZero() || at.Before(pl.dueAt) {
		pl.dueAt = at
	}
}

// dueNow asks for lanes that are due, at sinks that take deliveries (R10).
func (pl *poller) dueNow(now time.Time) bool {
	if !pl.dueAt.IsZero() && !now.Before(pl.dueAt) {
		pl.dueAsked, pl.dueAt = true, time.Time{}
	}
	for _, s := range pl.e.sinks {
		if s.PassedOver && pl.room(s) {
			s.PassedOver, pl.dueAsked = false, true
		}
	}
	if !pl.dueAsked || !pl.loads() || pl.e.safeMode.active() && !pl.e.safeMode.nothingInHand() {
		return false
	}
	pl.dueAsked, pl.dueAt = false, time.Time{}
	var names []string
	most := dueMost
	if pl.e.safeMode.active() {
		most = 1
	}
	for _, s := range pl.e.sinks {
		if s.PassedOver = !pl.room(s); s.PassedOver {
			continue
		}
		ok, probe := s.Sink == nil, false
		if !ok {
			ok, probe = s.Accepts(now)
		}
		if !ok {
			continue
		}
		if probe {
			if s.RunQueue.Len() > 0 || !s.Breaker.RoundDue(now) || now.Sub(s.Asked) < pl.e.cfg.Tick {
				continue // lanes in memory are the probes, no round is due, or the database was asked just now
			}
			pl.probeDue(s, now)
			return true
		}
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		pl.askDue(names, most, false, func(time.Duration) {})
	}
	return len(names) > 0
}

// full reports whether no more may be loaded for a sink.
func (pl *poller) full(s *lane.Sink) bool {
	share := pl.e.cfg.Memory / 4
	return pl.polledBytes >= share && s.PolledBytes >= share/int64(len(pl.e.sinks))
}

// room reports whether due lanes may be loaded for a sink.
func (pl *poller) room(s *lane.Sink) bool { return !pl.full(s) && s.Polled < polledMost }

// loads reports whether due lanes may be loaded for any sink.
func (pl *poller) loads() bool { return slices.ContainsFunc(pl.e.sinks, pl.room) }

// take counts the memory for a parked delivery of a sink.
func (pl *poller) take(s *lane.Sink, bytes int) {
	pl.polledBytes += int64(bytes)
	s.PolledBytes += int64(bytes)
}

// letGo takes note that a parked delivery is not in hand any more.
func (pl *poller) letGo(s *lane.Sink, key checkpoint.Key, bytes int) {
	delete(pl.inHand, key)
	pl.take(s, -bytes)
}

// probeDue brings back a round of parked heads, to find out whether the sink works again.
func (pl *poller) probeDue(s *lane.Sink, now time.Time) {
	pl.dueAsked = true // the other sinks' turn comes next
	s.Asked = now
	most := lane.ProbesPerRound
	if pl.e.safeMode.active() {
		most = 1
	}
	pl.askDue([]string{s.Name}, most, true, func(next time.Duration) {
		if s.Queued == 0 && s.Inflight == 0 && next == 0 { // nothing is parked for it: the next message will tell
			s.Breaker.Close()
			s.RecoverAll(func(*lane.Breaker) bool { return true })
			pl.e.dispatcher.opened(s, time.Now())
		}
	})
}

func (pl *poller) askDue(names []string, most int, probe bool, then func(next time.Duration)) {
	q := &checkpoint.DueQuery{Sinks: names, Limit: most, Bytes: int(pl.e.cfg.Memory / 4), Probe: probe, Except: maps.Clone(pl.inHand)}
	for _, name := range names {
		q.Lanes = max(q.Lanes, pl.e.byName[name].Polled)
	}
	pl.e.session.operate(func(ctx context.Context) (func(), error) {
		due, next, err := pl.e.session.store.Due(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read due lanes: %w", err)
		}
		return func() {
			now, before := time.Now(), len(pl.inHand)
			pl.looked = true
			if pl.e.safeMode.active() && len(due) > 0 {
				pl.e.safeMode.loadAlone(&due[0], now)
				then(next)
				return
			}
			for i := range due {
				pl.load(&due[i], now)
			}
			if len(due) == most && most > 1 && len(pl.inHand) > before {
				pl.dueAsked = true
			}
			if next > 0 {
				pl.dueSoon(next, now)
			}
			then(next)
		}, nil
	})
}

// load puts the head of a due lane into memory. It is tried alone: if it is delivered, what is parked behind it follows.
func (pl *poller) load(p *checkpoint.Parked, now time.Time) {
	s := pl.e.byName[p.Sink]
	if s == nil || pl.inHand[p.Key()] {
		return
	}
	if s.Sink == nil && !pl.gateOpen(p) {
		pl.dueSoon(pl.e.cfg.Tick, now)
		return
	}
	var l *lane.Lane
	if p.Blocks && p.Message.Group != "" {
		l = s.Lane(p.Message.Group)
		// An unroutable message of the group does not matter here: the store reports nothing behind it as due.
		if l.Polling() || l.Is(lane.Frozen|lane.Settling|lane.InFlight|lane.Changing|lane.Parking|lane.Paging) || l.IsHeld() || pl.e.heldEverywhere(l) {
			return
		}
		l.Demote() // cannot be sent before what is parked
	} else {
		l = lane.NewLane(s, "")
	}
	l.On(lane.EvLoad)
	if s.Sink == nil {
		pl.reroute(l, p)
		return
	}
	pl.pushBack(l, p)
	pl.e.touch(l)
}

// pushBack makes a delivery of what is parked. It copies, or the delivery would keep the whole answer of the store in memory.
func (pl *poller) pushBack(l *lane.Lane, found *checkpoint.Parked) {
	if !pl.e.requireTable(found.Message.Table) {
		return
	}
	copied := *found
	p := &copied
	d := &lane.Delivery{Back: p, Lane: l, Spent: p.Attempts, Tries: p.Tries, Failed: p.Failed}
	d.Message, d.Source = p.Message, pl.e.cfg.Pipeline
	route, err := pl.e.cfg.Router.ForSink(p.Message, p.Sink, &d.Delivery)
	d.Route = route
	if err != nil {
		d.Route = &router.Route{Name: p.Sink, Retry: router.DefaultRetry()}
		d.Unsendable = &lane.Failure{Class: "unroutable", Err: err.Error()}
	}
	if why := pl.unsendableBack(p); why != nil {
		d.Unsendable = why
	}
	if d.Unsendable == nil {
		d.Unsendable = l.Sink.TopicFault(d)
	}
	if p.Original != "" && !outbox.IsStandInID(p.Original) {
		d.Headers = append(d.Headers[:len(d.Headers):len(d.Headers)],
			outbox.Header{Name: sink.HeaderReplaces, Value: []byte(p.Original)})
	}
	if pl.e.cfg.Receipts != nil && pl.e.cfg.Receipts(p.Message.Table) {
		d.Receipt = &sink.Receipt{}
	}
	pl.inHand[p.Key()] = true
	pl.e.safeMode.readAny = true
	pl.take(l.Sink, p.Message.Size())
	l.Sink.Queued++
	l.Queue.Push(d)
}

// unsendableBack returns why a parked delivery must not be sent; nil if it may. If a quarantined message was parked behind others, its row keeps the
// class crash until an operator replays it.
func (pl *poller) unsendableBack(p *checkpoint.Parked) *lane.Failure {
	switch crash := sink.ClassCrash.String(); {
	case p.Message.Fault != nil:
		return &lane.Failure{Class: p.Message.Fault.Class, Err: p.Message.Fault.Reason}
	case p.State == checkpoint.StateWaiting && p.ErrorClass == crash:
		return &lane.Failure{Class: crash, Err: p.LastError}
	}
	return pl.e.safeMode.quarantined(p.Message.Position)
}

func (pl *poller) addChange(c change) {
	c.lane.Changes++
	c.lane.On(lane.EvChange)
	pl.e.settler.pending = append(pl.e.settler.pending, c)
}

// changeOf makes a change of a delivery in hand: its key, and what its tries have spent.
func (pl *poller) changeOf(l *lane.Lane, d *lane.Delivery) change {
	c := change{lane: l, size: d.Message.Size()}
	c.Key, c.Group, c.Attempts, c.Tries, c.Failed = d.Back.Key(), l.Group, d.Spent, d.Tries, d.Failed
	return c
}

// backDelivered notes that a parked delivery was delivered.
func (pl *poller) backDelivered(l *lane.Lane, d *lane.Delivery) {
	c := pl.changeOf(l, d)
	c.Delivered, c.Message = true, d.Message
	if d.Receipt != nil {
		c.Receipt = lane.ReceiptLine(l.Sink.Name, d.Receipt)
	}
	l.After = d.Message.Position
	pl.addChange(c)
}

// backFailed notes that a parked delivery failed again: what is behind it in memory is let go, the database has it.
func (pl *poller) backFailed(l *lane.Lane, f *lane.Failure) {
	d := l.Queue.At(0)
	c := pl.changeOf(l, d)
	c.State, c.LastError, c.ErrorClass, c.Message = f.State, f.Err, f.Class, d.Message
	grouped := l.Group != ""
	c.Blocks = f.Blocks && grouped
	if f.State == checkpoint.StateRetrying {
		c.Blocks, c.Due, c.NextAttempt = grouped, true, f.Wait
		c.Supersede = f.Latest && grouped
	} else {
		pl.e.parker.died(l.Sink.Name, d, f.Class)
	}
	pl.addChange(c)
	pl.popHead(l)
	pl.release(l)
}

// requeue gives a parked delivery back untried, because its sink or destination takes nothing now. The delivery is due again after wait.
func (pl *poller) requeue(l *lane.Lane, wait time.Duration) {
	d := l.Queue.At(0)
	c := pl.changeOf(l, d)
	c.State, c.Blocks = d.Back.State, d.Back.Blocks
	c.LastError, c.ErrorClass = d.Back.LastError, d.Back.ErrorClass
	c.Due, c.NextAttempt = true, wait
	pl.addChange(c)
	pl.popHead(l)
	pl.release(l)
}

// requeueSoon requeues the lane's delivery after an answer that asks to wait. The database does not store the sink's wait: the poller asks for
// nothing at a sink that accepts nothing, and the delivery is due as soon as an operator resumes the sink.
func (pl *poller) requeueSoon(l *lane.Lane, wait time.Duration) {
	if l.Polling() {
		pl.requeue(l, max(min(wait, requeueMost), 0))
	}
}

// popHead takes the head out of the queue. The change of its state is noted already.
func (pl *poller) popHead(l *lane.Lane) {
	l.Passed(l.Queue.At(0))
	l.Queue.Pop(1)
	l.Sink.Queued--
}

// release takes what the poller has loaded out of a lane. Nothing of it may be in flight.
func (pl *poller) release(l *lane.Lane) {
	for _, d := range l.Queue.Slice() {
		l.Passed(d)
		pl.letGo(l.Sink, d.Back.Key(), d.Message.Size())
		l.Sink.Queued--
	}
	l.Queue.Clear()
	pl.endPolling(l)
	pl.e.touch(l)
}

// endPolling takes note that nothing of the poller's is in a lane's queue, or on its way there.
func (pl *poller) endPolling(l *lane.Lane) {
	l.On(lane.EvUnload)
	if pl.e.heldEverywhere(l) { // the hold came while a run of the poller's was in flight
		l.On(lane.EvHold)
	}
	pl.dueAsked = true
}

// pageNow reads on a lane whose polled deliveries are all delivered.
func (pl *poller) pageNow() bool {
	for !pl.e.stops() {
		next := slices.IndexFunc(pl.pages, func(l *lane.Lane) bool { return !pl.full(l.Sink) })
		if next < 0 {
			return false
		}
		l := pl.pages[next]
		pl.pages = slices.Delete(pl.pages, next, next+1)
		// If a message of the group cannot be routed, only the store knows what waits for it: ask again.
		if l.Is(lane.Frozen|lane.Settling) || !l.Polling() || pl.e.unroutable(l) {
			l.On(lane.EvDropPage)
			if l.Polling() {
				pl.endPolling(l)
			}
			pl.dueAsked = true
			continue
		}
		if ok, _ := l.Sink.Accepts(time.Now()); !ok {
			l.On(lane.EvDropPage)
			pl.release(l)
			continue
		}
		pl.page(l)
		return true
	}
	return false
}

func (pl *poller) page(l *lane.Lane) {
	l.On(lane.EvPage)
	name := checkpoint.Lane{Sink: l.Sink.Name, Group: l.Group}
	after := l.After
	bytes := min(pageBytes, int(pl.e.cfg.Memory/16))
	pl.e.session.operate(func(ctx context.Context) (func(), error) {
		page, more, err := pl.e.session.store.Page(ctx, name, after, pageMost, bytes)
		if err != nil {
			return nil, fmt.Errorf("read parked lane: %w", err)
		}
		return func() {
			pl.paged(l, page, more)
			pl.e.touch(l)
		}, nil
	})
}

// paged puts a page into the lane's queue, unless the sink has been parked while the page was read.
func (pl *poller) paged(l *lane.Lane, page []checkpoint.Parked, more bool) {
	if !l.Polling() {
		l.On(lane.EvDropPage)
		pl.dueAsked = true
		return
	}
	if more {
		l.On(lane.EvMore)
	} else {
		l.On(lane.EvLast)
	}
	for i := range page {
		pl.pushBack(l, &page[i])
	}
	if len(page) == 0 {
		pl.endPolling(l)
	}
}

// changed takes note that changes of parked deliveries are durable, and goes on with their lanes.
func (pl *poller) changed(s *settlement, done *checkpoint.Settled, now time.Time) {
	for _, c := range s.changes {
		if c.lane.Changes--; c.lane.Changes == 0 {
			c.lane.On(lane.EvChanged)
		}
		pl.letGo(c.lane.Sink, c.Key, c.size)
	}
	for _, name := range done.Open {
		pl.reopen(name)
	}
	for _, name := range done.Next {
		if l := pl.laneNamed(name); l != nil && !pl.e.safeMode.active() && l.PolledOut() {
			l.On(lane.EvWantPage)
			pl.pages = append(pl.pages, l)
		} else {
			pl.dueAsked = true
		}
	}
	for _, c := range s.changes {
		l := c.lane
		if l.PolledOut() {
			pl.endPolling(l)
		}
		if c.Due {
			pl.dueSoon(c.NextAttempt, now)
		}
		pl.e.touch(l)
	}
}

func (pl *poller) laneNamed(name checkpoint.Lane) *lane.Lane {
	s := pl.e.byName[name.Sink]
	if s == nil || name.Group == "" {
		return nil
	}
	return s.Find(name.Group)
}

// reopen lets a lane flow again: the database shows nothing that blocks it (R7).
func (pl *poller) reopen(name checkpoint.Lane) {
	l := pl.laneNamed(name)
	if l == nil || l.Queue.Len() > 0 || l.Is(lane.InFlight|lane.Changing|lane.Settling) {
		return
	}
	l.On(lane.EvReopen)
	pl.e.touch(l)
	if l.Sink.Sink == nil { // the group was blocked at every sink
		for _, s := range pl.e.sinks[1:] {
			if other := s.Find(name.Group); other != nil {
				pl.e.touch(other)
			}
		}
		pl.dueAsked = true
	}
}
