package relay

import (
	"hash/maphash"
	"strings"
)

// lane finds or makes the lane of a group. A message without a group has a lane of its own.
func (s *sinkState) lane(group string) *lane {
	if group == "" {
		return &lane{sink: s}
	}
	if l := s.lanes[group]; l != nil {
		return l
	}
	group = strings.Clone(group) // a lane outlives the chunk of memory that its first message lies in
	var l *lane
	if n := len(s.spare); n > 0 {
		l, s.spare = s.spare[n-1], s.spare[:n-1]
		l.group = group
	} else {
		l = &lane{sink: s, group: group}
	}
	l.blocked = s.asleep.wake(group)
	s.lanes[group] = l
	return l
}

// find returns the lane of a group if anything is known of it, else nil.
func (s *sinkState) find(group string) *lane {
	if l := s.lanes[group]; l != nil || !s.asleep.has(group) {
		return l
	}
	return s.lane(group)
}

// forget drops a lane with nothing in memory when there are many, and keeps its memory for the next one. What still points
// to it, a timer that has become void, finds a lane that has nothing to send or is offered anyway. Of a blocked lane only
// that is remembered: in a long outage there can be millions.
func (s *sinkState) forget(l *lane) {
	if l.group == "" || len(s.lanes) <= s.most || !l.empty() || l.held {
		return
	}
	if l.blocked {
		s.asleep.add(l.group)
	}
	delete(s.lanes, l.group)
	if len(s.spare) < s.most {
		*l = lane{sink: s, queue: l.queue, arrivals: l.arrivals}
		s.spare = append(s.spare, l)
	}
}

// sleepers is a set of groups. It holds 128 bits of a hash for each: two groups that share them do not come up.
type sleepers struct {
	seeds [2]maphash.Seed
	set   map[[2]uint64]struct{}
}

func newSleepers() sleepers {
	return sleepers{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, map[[2]uint64]struct{}{}}
}

func (s *sleepers) key(group string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], group), maphash.String(s.seeds[1], group)}
}

func (s *sleepers) add(group string) { s.set[s.key(group)] = struct{}{} }

func (s *sleepers) has(group string) bool {
	if len(s.set) == 0 {
		return false
	}
	_, ok := s.set[s.key(group)]
	return ok
}

// wake takes a group out, and tells whether it was there.
func (s *sleepers) wake(group string) bool {
	if !s.has(group) {
		return false
	}
	delete(s.set, s.key(group))
	if len(s.set) == 0 {
		s.set = map[[2]uint64]struct{}{} // a map keeps the memory of what it once held
	}
	return true
}
