package operate

import (
	"context"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// A WaitingLane is a lane that does not flow, and why.
type WaitingLane struct {
	Sink, Group string
	// Held by an operator. Then there may be no first delivery. Everywhere: the group is held at every sink.
	Held, Everywhere bool
	// Deliveries that block the lane, the first one included.
	Deliveries int
	// First is the delivery that all others wait for; its Message is there without payload.
	First *store.Listed
}

// Lanes lists the lanes that wait behind a lane, and why. The zero lane is before all others; then lanes that are held with nothing parked come first,
// beyond the limit. Of the selection, only the sink and the groups count. limit bounds the lanes; 0 means all. next is the lane to go on behind; nil
// at the end.
func (o Operator) Lanes(ctx context.Context, sel checkpoint.Selection, after checkpoint.Lane, limit int) (list []WaitingLane, next *checkpoint.Lane, err error) {
	err = o.read(ctx, func(ctx context.Context, s Reader) error {
		if err := s.Remember(ctx); err != nil {
			return err
		}
		lanes, rows, behind, err := s.WaitingLanes(ctx, &sel, after, limit)
		if err != nil {
			return err
		}
		firsts, err := s.Listed(ctx, rows, false)
		if err != nil {
			return err
		}
		first := make(map[checkpoint.Lane]*store.Listed, len(firsts))
		for i := range firsts {
			m := firsts[i].Message
			m.Payload = nil
			first[checkpoint.Lane{Sink: firsts[i].Sink, Group: m.Group}] = &firsts[i]
		}
		held := s.Held()
		if after == (checkpoint.Lane{}) {
			if list, err = emptyHeld(ctx, s, lanes, behind != nil, &sel); err != nil {
				return err
			}
		}
		for _, l := range lanes {
			if l.First = first[l.lane()]; l.First != nil { // else it is freed meanwhile
				l.Held, l.Everywhere = held.Has(l.lane()), held[checkpoint.Lane{Group: l.Group}]
				list = append(list, l)
			}
		}
		next = behind
		return nil
	})
	return list, next, err
}

// NextLane is where a list of lanes goes on that was cut to a limit, 0 = none: behind the last one; nil if it was not cut.
func NextLane(lanes []checkpoint.Lane, limit int) *checkpoint.Lane {
	if limit <= 0 || len(lanes) < limit {
		return nil
	}
	return &lanes[len(lanes)-1]
}

func (l *WaitingLane) lane() checkpoint.Lane { return checkpoint.Lane{Sink: l.Sink, Group: l.Group} }

// emptyHeld lists the lanes that are held and have nothing parked. listed are lanes with deliveries; full: there may be more. A group that is held at
// every sink is left out if one of its lanes has deliveries, because that one shows the hold.
func emptyHeld(ctx context.Context, s Reader, listed []WaitingLane, full bool, sel *checkpoint.Selection) (empty []WaitingLane, err error) {
	sink, limited := sel.AtSink()
	var held []checkpoint.Lane
	var groups []string
	for _, lane := range store.SortedLanes(s.Held()) {
		if (len(sel.Groups) == 0 || slices.Contains(sel.Groups, lane.Group)) && (!limited || lane.Sink == "" || lane.Sink == sink) {
			held, groups = append(held, lane), append(groups, lane.Group)
		}
	}
	if full && len(held) > 0 {
		if listed, _, _, err = s.WaitingLanes(ctx, &checkpoint.Selection{Sink: sel.Sink, Unrouted: sel.Unrouted, Groups: groups}, checkpoint.Lane{}, 0); err != nil {
			return nil, err
		}
	}
	parked := make(map[checkpoint.Lane]bool)
	for i := range listed {
		parked[listed[i].lane()], parked[checkpoint.Lane{Group: listed[i].Group}] = true, true
	}
	for _, lane := range held {
		if !parked[lane] {
			empty = append(empty, WaitingLane{Sink: lane.Sink, Group: lane.Group, Held: true, Everywhere: lane.Sink == ""})
		}
	}
	return empty, nil
}
