package operate

import (
	"context"
	"errors"
	"fmt"
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
		lanes, rows, err := s.WaitingLanes(ctx, &sel, after, limit)
		if err != nil {
			return err
		}
		firsts, err := s.Listed(ctx, rows, false)
		if err != nil {
			return err
		}
		if len(firsts) != len(lanes) {
			return fmt.Errorf("list lanes: %w", errors.New("they changed meanwhile: try again"))
		}
		held := s.Held()
		for i := range firsts {
			l := &lanes[i]
			firsts[i].Message.Payload = nil
			l.First, l.Held, l.Everywhere = &firsts[i], held.Has(l.lane()), held[checkpoint.Lane{Group: l.Group}]
		}
		full := limit > 0 && len(lanes) == limit
		if full {
			last := lanes[limit-1].lane()
			next = &last
		}
		if list = lanes; after == (checkpoint.Lane{}) {
			empty, err := emptyHeld(ctx, s, lanes, full, &sel)
			if err != nil {
				return err
			}
			list = append(empty, lanes...)
		}
		return nil
	})
	return list, next, err
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
		if listed, _, err = s.WaitingLanes(ctx, &checkpoint.Selection{Sink: sel.Sink, Unrouted: sel.Unrouted, Groups: groups}, checkpoint.Lane{}, 0); err != nil {
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
