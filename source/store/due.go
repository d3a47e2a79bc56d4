package store

import (
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// A DuePart is a part of what is due.
type DuePart int

// Parts of what is due. A probe takes Untried before Tried.
const (
	AllDue DuePart = iota
	Untried
	Tried
)

// PriorityWindow is how many due deliveries of a sink are compared at a time, by their priority or by when they were tried: those that
// have been due longest.
const PriorityWindow = 2048

// Window is how many due deliveries of a sink are looked at for limit of them: more only where a table has priorities, or for a probe, which
// compares by more than one column.
func (p DuePart) Window(tables []*outbox.Table, limit int) int {
	if p != AllDue {
		return max(limit, PriorityWindow)
	}
	for _, t := range tables {
		if t.Columns.Priority != "" {
			return max(limit, PriorityWindow)
		}
	}
	return limit
}

// Due asks find for what is due, part by part, until there are limit deliveries, or a part was cut short.
func Due(limit int, probe bool, find func(part DuePart, limit int) (ps []checkpoint.Parked, cut bool, err error)) (ps []checkpoint.Parked, cut bool, err error) {
	parts := []DuePart{AllDue}
	if probe {
		parts = []DuePart{Untried, Tried}
	}
	for _, part := range parts {
		found, short, err := find(part, limit-len(ps))
		if err != nil {
			return nil, false, err
		}
		if ps = append(ps, found...); short || len(ps) >= limit {
			return ps, short, nil
		}
	}
	return ps, false, nil
}

// Arrange brings deliveries into the order of their keys.
func Arrange(ps []checkpoint.Parked, keys []checkpoint.Key) {
	place := make(map[checkpoint.Key]int, len(keys))
	for i, k := range keys {
		place[k] = i
	}
	slices.SortFunc(ps, func(a, b checkpoint.Parked) int { return place[a.Key()] - place[b.Key()] })
}
