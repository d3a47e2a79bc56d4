package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// A LaneSet holds lanes in the order they were added. The zero value is empty.
type LaneSet struct {
	Order []checkpoint.Lane
	index map[checkpoint.Lane]int
}

// Add adds a lane, unless it is there, or has no group: deliveries without a group wait for none.
func (l *LaneSet) Add(lane checkpoint.Lane) {
	if lane.Group == "" {
		return
	}
	if _, ok := l.index[lane]; ok {
		return
	}
	if l.index == nil {
		l.index = make(map[checkpoint.Lane]int)
	}
	l.index[lane] = len(l.Order)
	l.Order = append(l.Order, lane)
}

// A LaneState is what is found out about a lane after deliveries came or left: whether it has blocking deliveries (Blocked), and whether the first of
// these is due (Due).
type LaneState struct{ Blocked, Due bool }

// A LaneHead is the first blocking delivery of a lane.
type LaneHead struct {
	checkpoint.Key
	Position string
	State    checkpoint.State
	Next     time.Time // zero: it has none
	// Ref is what else a store knows the delivery by; only that store looks at it.
	Ref any
}

// A LaneOrder sets next_attempt_at after deliveries came or left. In a lane only the first blocking delivery has a time. It gets the time that it was
// parked or changed with, or else now, unless something holds it up. It has no time while it waits for an operator, while its lane is held, or while
// the sink "" has an earlier delivery of its group. So if the first delivery leaves, the next one gets its time in the same transaction.
type LaneOrder struct {
	// Touched are the lanes that deliveries came to or left.
	Touched LaneSet
	// Before are the old first deliveries of lanes that may have another first one now; Heads are the first ones now.
	Before, Heads map[checkpoint.Lane]*LaneHead
	// wanted is how long from now deliveries are tried if they turn out to be the first.
	wanted map[checkpoint.Key]time.Duration
}

// NewLaneOrder returns a LaneOrder in which nothing has happened.
func NewLaneOrder() LaneOrder {
	return LaneOrder{Before: make(map[checkpoint.Lane]*LaneHead), Heads: make(map[checkpoint.Lane]*LaneHead), wanted: make(map[checkpoint.Key]time.Duration)}
}

// Want says how long from now a blocking delivery is to be tried, if it turns out to be the first.
func (o *LaneOrder) Want(k checkpoint.Key, wait time.Duration) { o.wanted[k] = wait }

// Found says what the first blocking delivery of a lane is when the transaction ends, with the time that it has by then. The lane is not asked for.
func (o *LaneOrder) Found(lane checkpoint.Lane, h *LaneHead) { o.Heads[lane] = h }

// Forget takes back what Want said of a delivery.
func (o *LaneOrder) Forget(k checkpoint.Key) { delete(o.wanted, k) }

// Asked returns the lanes whose first deliveries are read into Heads: the touched ones; for one of the sink "", its group's lanes at every sink; and
// for each group its lane of the sink "", which may hold the others up. What Found told of is left out.
func (o *LaneOrder) Asked(sinks map[string]bool) []checkpoint.Lane {
	o.Touched.Spread(sinks)
	var asked LaneSet
	for _, lane := range o.Touched.Order {
		asked.Add(lane)
		if sinks[""] {
			asked.Add(checkpoint.Lane{Group: lane.Group})
		}
	}
	return slices.DeleteFunc(asked.Order, func(lane checkpoint.Lane) bool { return o.Heads[lane] != nil })
}

// Next returns when a parked delivery of a lane is tried. ok is true only if Want was called for the delivery, and it is now the first blocking one
// of its lane.
func (o *LaneOrder) Next(lane checkpoint.Lane, k checkpoint.Key, now time.Time) (at time.Time, ok bool) {
	wait, wanted := o.wanted[k]
	head := o.Heads[lane]
	return now.Add(wait), wanted && head != nil && head.Key == k
}

// Decide calls set for each delivery whose time changes (zero: it loses it), and returns the states of the touched lanes, in their order. set may be
// called for a delivery that is gone, or no longer blocks: it must not give that one a time.
func (o *LaneOrder) Decide(holds HeldLanes, now time.Time, set func(h *LaneHead, at time.Time)) []LaneState {
	states := make([]LaneState, len(o.Touched.Order))
	for i, lane := range o.Touched.Order {
		head := o.Heads[lane]
		if before := o.Before[lane]; before != nil && !before.Next.IsZero() && (head == nil || head.Key != before.Key) {
			set(before, time.Time{})
		}
		if head == nil {
			continue
		}
		unrouted := o.Heads[checkpoint.Lane{Group: lane.Group}]
		ready := Active(head.State) && !holds.Has(lane) && (lane.Sink == "" || unrouted == nil || unrouted.Position > head.Position)
		at := head.Next
		if wait, wanted := o.wanted[head.Key]; wanted {
			at = now.Add(wait)
		} else if at.IsZero() {
			at = now
		}
		if !ready {
			at = time.Time{}
		}
		if !at.Equal(head.Next) {
			set(head, at)
		}
		states[i] = LaneState{Blocked: true, Due: ready && !at.After(now)}
	}
	return states
}

// SortedLanes lists a set of lanes in order.
func SortedLanes(set map[checkpoint.Lane]bool) []checkpoint.Lane {
	lanes := make([]checkpoint.Lane, 0, len(set))
	for lane := range set {
		lanes = append(lanes, lane)
	}
	slices.SortFunc(lanes, func(a, b checkpoint.Lane) int {
		return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Group, b.Group))
	})
	return lanes
}
