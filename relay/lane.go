package relay

import (
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// A message is what the engine knows of a message in memory.
type message struct {
	*outbox.Message
	route *router.Route
	batch *batchMemory
	seq   uint64 // number in the tracker; 0 for messages that a sweep or a reconciliation found
	left  uint64 // parts without an outcome yet: sinks
	// parked: some of its deliveries may be parked in the database.
	parked bool
	// kept: its table keeps delivered rows as they are, so that nothing is to be done about the row.
	kept bool
	row  bool // of the log, and not named as settled by the checkpoint: its row has to be settled
	// receipts are what its sinks answered; nil where that is not wanted.
	receipts *receipts
	// prev and next link all messages in memory.
	prev, next *message
}

// A delivery is one message for one sink, in memory. The sink sees the embedded part.
type delivery struct {
	sink.Delivery
	msg  *message // nil for a delivery that the poller brought back
	lane *lane
	// back is the parked delivery that the poller brought back; nil for deliveries from the tail.
	back *checkpoint.Parked
	// route is the failure policy.
	route *router.Route
	// doomed: not to be sent; when its turn comes it fails with this.
	doomed *failure

	spent   int // attempts that were spent
	tries   int // failures, whether they spent an attempt or not
	inline  int // retries that were waited for in memory
	skipped int // not-attempted answers in a row
	// failed is when the last try failed, last what it failed with; nil if the sink has not failed it in this term.
	failed checkpoint.Failure
	last   *failure
}

// A lane is the ordered queue of one (sink, group). All of it is owned by the engine's goroutine; its methods have no
// clock and no I/O.
//
// An open lane sends its queue. A blocked lane has deliveries in the database that come first (R4, R7): its queue
// holds only what the poller brought back, and what arrives from the tail goes to arrivals, to be parked behind them, or to
// be held until the lane reopens.
type lane struct {
	sink  *sinkState
	group string

	queue    fifo
	arrivals fifo

	busy     int  // deliveries of the queue that are in flight
	ready    bool // stands in a list of lanes that have something to send
	blocked  bool // the database holds deliveries that block the lane
	held     bool // an operator holds the group
	frozen   bool // a request is about to change it: no run starts
	parking  *failure
	settling bool // a park of the lane is in a settlement that is not durable yet
	listed   bool // stands in the engine's list of lanes to park
	changes  int  // of its parked deliveries, not durable yet

	polling bool // the poller's deliveries are in the queue or on their way
	last    bool // the last page is in the queue: what arrives is held instead of parked
	paging  bool // a page is wanted or on its way
	after   outbox.Position

	retryAt time.Time // the head waits in memory until then

	// While a guilty delivery is looked for, or kept away from those before it, runs are alone in their call and no longer than
	// run, until suspect is passed.
	run     int
	suspect *delivery
}

// A failure is why a delivery is parked: the head's new state. State "" parks it as waiting, without a failure.
type failure struct {
	state  checkpoint.State
	blocks bool
	wait   time.Duration // until it is due; only for states that are retried
	class  string
	err    string
	only   bool // only the head is parked, what follows goes on
	latest bool // what is between head and newest is superseded, the newest is due
}

// fifo is a queue of deliveries.
type fifo struct {
	items []*delivery
	head  int
}

func (q *fifo) len() int           { return len(q.items) - q.head }
func (q *fifo) at(i int) *delivery { return q.items[q.head+i] }
func (q *fifo) slice() []*delivery { return q.items[q.head:] }
func (q *fifo) push(d *delivery)   { q.items = append(q.items, d) }
func (q *fifo) clear()             { clear(q.items); q.items, q.head = q.items[:0], 0 }

// pop removes the first n.
func (q *fifo) pop(n int) {
	clear(q.items[q.head : q.head+n])
	q.head += n
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > 1024 {
			q.items = nil
		}
	case q.head > 64 && q.head*2 > len(q.items):
		rest := copy(q.items, q.items[q.head:])
		clear(q.items[rest:])
		q.items, q.head = q.items[:rest], 0
	}
}

// empty tells that of the lane nothing is in memory or on its way.
func (l *lane) empty() bool {
	return l.queue.len() == 0 && l.arrivals.len() == 0 && l.busy == 0 && !l.ready && !l.frozen &&
		l.parking == nil && !l.settling && !l.listed && !l.polling && !l.paging && l.changes == 0
}

// idle tells that nothing of the lane needs to be remembered.
func (l *lane) idle() bool { return l.empty() && !l.blocked && !l.held }

// sendable tells whether the lane may start a run now.
func (l *lane) sendable(now time.Time) bool {
	return l.queue.len() > 0 && l.busy == 0 && !l.frozen && l.parking == nil && !l.settling &&
		(!l.blocked || l.polling) && (!l.held || l.polling) && !now.Before(l.retryAt)
}

// runLength is how many deliveries of the queue's front go into one call that has room for so many deliveries and
// bytes: the longest prefix with one destination (R2). At least 1 if the call is empty.
func (l *lane) runLength(limits sink.Limits, room, bytes int, first bool, to func(*delivery) sink.Destination) int {
	most := min(max(limits.Run, 1), l.queue.len())
	if limits.Batch > 0 {
		most = min(most, room)
	}
	if l.suspect != nil {
		most = min(most, l.run)
	}
	n := 0
	for n < most {
		d := l.queue.at(n)
		if d.doomed != nil {
			break
		}
		if limits.Bytes > 0 {
			bytes -= len(d.Value)
			if bytes < 0 && !(first && n == 0) {
				break
			}
		}
		if to != nil && n > 0 {
			if d.Destination = to(d); d.Destination != l.queue.at(0).Destination {
				break
			}
		}
		n++
	}
	return n
}

// narrow makes the next runs smaller and lonelier, because a call with n deliveries of this lane failed as a whole
// and any of them may be the cause: the left half goes first, the right half waits.
func (l *lane) narrow(n int) {
	l.suspect = l.queue.at(n - 1)
	l.run = max(1, n/2)
}

// isolate makes the next run end before the queue's delivery n, because the sink refused that one and tried none of those
// before it: a run of the same deliveries would end the same way.
func (l *lane) isolate(n int) { l.suspect, l.run = l.queue.at(n), n }

// passed ends the narrowing once the last suspect was delivered or given up.
func (l *lane) passed(d *delivery) {
	if l.suspect == d {
		l.suspect, l.run = nil, 0
	}
}

// shelve turns what is in the queue into arrivals, before those that are there: something blocks the lane now. The narrowing
// ends with that: its suspect is not in the queue any more, or is not the next one, and is found again if it comes back.
func (l *lane) shelve() {
	l.join()
	l.queue, l.arrivals = l.arrivals, l.queue
	l.suspect, l.run = nil, 0
}

// join puts what has arrived at the end of the queue.
func (l *lane) join() {
	for _, d := range l.arrivals.slice() {
		l.queue.push(d)
	}
	l.arrivals.clear()
}
