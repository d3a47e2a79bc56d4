package lane

import (
	"hash/maphash"
	"strings"
)

// NewLane returns an open lane with nothing in it.
func NewLane(s *Sink, group string) *Lane { return &Lane{Sink: s, Group: group, Mode: Open} }

// Lane finds or makes the lane of a group. A message without a group has a lane of its own.
func (s *Sink) Lane(group string) *Lane {
	if group == "" {
		return NewLane(s, "")
	}
	if l := s.Lanes[group]; l != nil {
		return l
	}
	group = strings.Clone(group) // a lane outlives the chunk of memory that its first message lies in
	var l *Lane
	if n := len(s.spare); n > 0 {
		l, s.spare = s.spare[n-1], s.spare[:n-1]
		l.Group = group
	} else {
		l = NewLane(s, group)
	}
	if s.Asleep.wake(group) {
		l.On(EvBlock)
	}
	s.Lanes[group] = l
	return l
}

// Find returns the lane of a group if anything is known of it, else nil.
func (s *Sink) Find(group string) *Lane {
	if l := s.Lanes[group]; l != nil || !s.Asleep.Has(group) {
		return l
	}
	return s.Lane(group)
}

// Forget drops a lane with nothing in memory if there are many, and keeps its memory for the next one. A stale timer may still point to the lane, but
// a timer offers only a lane that can send something. Of a blocked lane only the fact that it is blocked is kept, because a long outage can block
// millions of lanes.
func (s *Sink) Forget(l *Lane) {
	if l.Group == "" || len(s.Lanes) <= s.most || !l.empty() || l.IsHeld() {
		return
	}
	if l.Blocked() {
		s.Asleep.add(l.Group)
	}
	delete(s.Lanes, l.Group)
	if len(s.spare) < s.most {
		*l = Lane{Sink: s, Mode: Open, Queue: l.Queue, Backlog: l.Backlog}
		s.spare = append(s.spare, l)
	}
}

// sleepers is a set of groups. It holds a 128-bit hash of each; two groups with the same hash are too unlikely to matter.
type sleepers struct {
	seeds [2]maphash.Seed
	Set   map[[2]uint64]struct{}
}

func newSleepers() sleepers {
	return sleepers{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, map[[2]uint64]struct{}{}}
}

func (s *sleepers) key(group string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], group), maphash.String(s.seeds[1], group)}
}

func (s *sleepers) add(group string) { s.Set[s.key(group)] = struct{}{} }

// Has reports whether a group is in the set.
func (s *sleepers) Has(group string) bool {
	if len(s.Set) == 0 {
		return false
	}
	_, ok := s.Set[s.key(group)]
	return ok
}

// wake takes a group out, and reports whether it was there.
func (s *sleepers) wake(group string) bool {
	if !s.Has(group) {
		return false
	}
	delete(s.Set, s.key(group))
	if len(s.Set) == 0 {
		s.Set = map[[2]uint64]struct{}{} // a map keeps the memory of what it once held
	}
	return true
}
