package operate

import (
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

// emptyHeld are those of the held lanes that are not in the list because nothing is parked in them. A group that is held at every sink is
// left out if one of its lanes is listed, because that one shows the hold.
func emptyHeld(held store.HeldLanes, list []WaitingLane, sel *checkpoint.Selection) []WaitingLane {
	lanes, groups := make(map[checkpoint.Lane]bool), make(map[string]bool)
	for _, l := range list {
		lanes[checkpoint.Lane{Sink: l.Sink, Group: l.Group}], groups[l.Group] = true, true
	}
	sink, limited := sel.AtSink()
	var out []WaitingLane
	for _, lane := range store.SortedLanes(held) {
		everywhere := lane.Sink == ""
		switch {
		case lanes[lane], everywhere && groups[lane.Group]:
		case len(sel.Groups) > 0 && !slices.Contains(sel.Groups, lane.Group):
		case limited && !everywhere && lane.Sink != sink:
		default:
			out = append(out, WaitingLane{Sink: lane.Sink, Group: lane.Group, Held: true, Everywhere: everywhere})
		}
	}
	return out
}
