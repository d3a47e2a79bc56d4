package store

import (
	"cmp"
	"slices"

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

// A LaneState is what is found out about a lane after deliveries came or left: whether it is blocked (it has a blocking
// row at all), and whether the first of them is due.
type LaneState struct{ Blocked, Due bool }

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
