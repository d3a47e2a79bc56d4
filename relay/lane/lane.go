package lane

import (
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/memory"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// A Message is what the engine knows of a message in memory.
type Message struct {
	*outbox.Message
	Route *router.Route
	Batch *memory.Batch
	Seq   uint64 // number in the tracker; 0 for messages that a sweep or a reconciliation found
	Left  uint64 // parts without an outcome yet: sinks
	// Parked: some of its deliveries may be parked in the database.
	Parked bool
	// Kept: its table keeps delivered rows as they are, so that nothing is to be done about the row.
	Kept bool
	Row  bool // its row has to be settled: the message is from the log, and the checkpoint does not name the row as settled
	// Receipts are what its sinks answered; nil if that is not wanted.
	Receipts *Receipts
	// Prev and Next link all messages in memory.
	Prev, Next *Message
}

// A Delivery is one message for one sink, in memory. The sink sees the embedded part.
type Delivery struct {
	sink.Delivery
	Msg  *Message // nil for a delivery that the poller has loaded
	Lane *Lane
	// Back is the parked delivery that the poller has loaded; nil for deliveries from the tail.
	Back *checkpoint.Parked
	// Route is the failure policy.
	Route *router.Route
	// Unsendable: it must not be sent, and fails with this when it is the head.
	Unsendable *Failure

	Spent   int // attempts that were spent
	Tries   int // failures, whether they spent an attempt or not
	Inline  int // retries that were waited for in memory
	Skipped int // not-attempted answers in a row
	// Failed names the call in which the last try failed, Last says why; nil if it has not failed in this term.
	Failed checkpoint.Failure
	Last   *Failure
}

// A Lane is the ordered queue of one (sink, group). All of it is owned by the engine's goroutine; its methods have no
// clock and no I/O.
//
// An open lane sends its queue. A blocked lane has deliveries in the database that come first (R4, R7): its queue
// holds only what the poller brought back, and what arrives from the tail goes to the backlog. There it waits until it is parked behind
// them, or until the lane reopens. state.go has all states, and what changes them.
type Lane struct {
	Sink  *Sink
	Group string

	Queue   Fifo
	Backlog Fifo

	// Mode and doing are the lane's state, which only method On changes.
	Mode  Mode
	doing Operation

	Failure *Failure        // why the lane is parking
	Changes int             // new states of its parked deliveries that are not durable yet
	After   outbox.Position // of the last delivery that was brought back and delivered: the next page begins there

	RetryAt time.Time // the head waits in memory until then

	// Narrow sets these to find a rejected delivery, Isolate to keep it away from those before it. Until BisectEnd is passed, a run of this lane is
	// alone in its call, and has at most run deliveries.
	run       int
	BisectEnd *Delivery
}

// A Failure is why a delivery is parked: the head's new state. State "" parks it as waiting, without a failure.
type Failure struct {
	State  checkpoint.State
	Blocks bool
	Wait   time.Duration // until it is due; only for states that are retried
	Class  string
	Err    string
	Only   bool // only the head is parked, what follows goes on
	Latest bool // what is between head and newest is superseded, the newest is due
}

// Fifo is a queue of deliveries.
type Fifo struct {
	items []*Delivery
	head  int
}

// Len returns how many deliveries there are.
func (q *Fifo) Len() int { return len(q.items) - q.head }

// At returns the delivery i of the queue.
func (q *Fifo) At(i int) *Delivery { return q.items[q.head+i] }

// Slice returns all deliveries. It is valid until the queue changes.
func (q *Fifo) Slice() []*Delivery { return q.items[q.head:] }

// Push puts a delivery at the end.
func (q *Fifo) Push(d *Delivery) { q.items = append(q.items, d) }

// Clear removes all deliveries.
func (q *Fifo) Clear() { clear(q.items); q.items, q.head = q.items[:0], 0 }

// Pop removes the first n.
func (q *Fifo) Pop(n int) {
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

// empty reports whether the lane has nothing in memory and nothing under way.
func (l *Lane) empty() bool {
	return l.Queue.Len() == 0 && l.Backlog.Len() == 0 && l.doing == 0 && !l.Polling()
}

// Fail makes the lane one that must be parked, because of f.
func (l *Lane) Fail(f *Failure) {
	l.Failure = f
	l.On(EvFail)
}

// PolledOut reports whether everything that the poller brought into the lane is delivered, durably.
func (l *Lane) PolledOut() bool {
	return l.Polling() && l.Queue.Len() == 0 && !l.Is(InFlight|Changing|Paging)
}

// Idle reports whether nothing about the lane has to be remembered.
func (l *Lane) Idle() bool { return l.empty() && l.Mode == Open }

// Sendable reports whether the lane may start a run now.
func (l *Lane) Sendable(now time.Time) bool {
	return l.Queue.Len() > 0 && sends[l.Mode] != noMode && !l.Is(InFlight|Parking|Settling|Frozen) && !now.Before(l.RetryAt)
}

// RunLength is how many deliveries of the queue's front go into one call that has room for so many deliveries and
// bytes: the longest prefix with one destination (R2). At least 1 if the call is empty.
func (l *Lane) RunLength(limits sink.Limits, room, bytes int, first bool, to func(*Delivery) sink.Destination) int {
	most := min(max(limits.Run, 1), l.Queue.Len())
	if limits.Batch > 0 {
		most = min(most, room)
	}
	if l.BisectEnd != nil {
		most = min(most, l.run)
	}
	n := 0
	for n < most {
		d := l.Queue.At(n)
		if d.Unsendable != nil {
			break
		}
		if limits.Bytes > 0 {
			bytes -= len(d.Value)
			if bytes < 0 && !(first && n == 0) {
				break
			}
		}
		if to != nil && n > 0 {
			if d.Destination = to(d); d.Destination != l.Queue.At(0).Destination {
				break
			}
		}
		n++
	}
	return n
}

// Narrow makes the next runs smaller, each alone in its call, because a call with n deliveries of this lane failed as a whole and any of them may be
// the cause: the left half goes first, the right half waits.
func (l *Lane) Narrow(n int) {
	l.BisectEnd = l.Queue.At(n - 1)
	l.run = max(1, n/2)
}

// Isolate makes the next run end before the queue's delivery n, because the sink refused that one and tried none of those
// before it: a run of the same deliveries would end the same way.
func (l *Lane) Isolate(n int) { l.BisectEnd, l.run = l.Queue.At(n), n }

// Passed ends the narrowing when BisectEnd was delivered or given up.
func (l *Lane) Passed(d *Delivery) {
	if l.BisectEnd == d {
		l.BisectEnd, l.run = nil, 0
	}
}

// Demote puts what is in the queue at the front of the backlog: something blocks the lane now. It ends the narrowing, because the deliveries up to
// BisectEnd are not next any more. If BisectEnd comes back and fails again, the search starts anew.
func (l *Lane) Demote() {
	l.Join()
	l.Queue, l.Backlog = l.Backlog, l.Queue
	l.BisectEnd, l.run = nil, 0
}

// Join appends the backlog to the queue.
func (l *Lane) Join() {
	for _, d := range l.Backlog.Slice() {
		l.Queue.Push(d)
	}
	l.Backlog.Clear()
}

// ToPark returns how many deliveries the lane has to park: its queue, then its backlog (see ParkAt). If the queue is the poller's, it does not count,
// because the database has it already.
func (l *Lane) ToPark() int {
	if l.Is(Parking) && l.Failure.Only {
		return 1
	}
	return l.QueueToPark() + l.Backlog.Len()
}

// QueueToPark returns how many deliveries of its queue the lane has to park.
func (l *Lane) QueueToPark() int {
	if l.Polling() {
		return 0
	}
	return l.Queue.Len()
}

// ParkAt is the i-th delivery that the lane has to park.
func (l *Lane) ParkAt(i int) *Delivery {
	if n := l.QueueToPark(); i >= n {
		return l.Backlog.At(i - n)
	}
	return l.Queue.At(i)
}
