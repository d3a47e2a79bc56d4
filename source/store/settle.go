package store

import (
	"context"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
)

// SettleCheckpoint is a settlement without outcomes: save writes the checkpoint, if there is one.
func SettleCheckpoint(ctx context.Context, in *checkpoint.Settlement, save func(context.Context, *checkpoint.Checkpoint) error,
) (*checkpoint.Settled, error) {
	out := &checkpoint.Settled{}
	if in.Checkpoint == nil {
		return out, nil
	}
	c := in.Checkpoint(nil)
	if c == nil {
		return out, nil
	}
	out.Saved = true
	return out, save(ctx, c)
}

// LastChanges are the changes that count: of several for one delivery the last one.
func LastChanges(changes []checkpoint.Change) []*checkpoint.Change {
	last := make(map[checkpoint.Key]int, len(changes))
	for i := range changes {
		last[changes[i].Key] = i
	}
	out := make([]*checkpoint.Change, 0, len(last))
	for i := range changes {
		if last[changes[i].Key] == i {
			out = append(out, &changes[i])
		}
	}
	return out
}

// LaneOf is the lane of a change.
func LaneOf(c *checkpoint.Change) checkpoint.Lane {
	return checkpoint.Lane{Sink: c.Key.Sink, Group: c.Group}
}

// Timed reports whether a delivery that is parked or changed as due gets a time. Deliveries that wait for an operator get none.
func Timed(due bool, state checkpoint.State) bool { return due && Active(state) }

// Active reports whether a delivery in this state is delivered without an operator.
func Active(state checkpoint.State) bool {
	return state == checkpoint.StateRetrying || state == checkpoint.StateWaiting
}

// Superseding are the lanes of which all but the newest blocking delivery become dead (on_exhausted latest).
func Superseding(changes []*checkpoint.Change) LaneSet {
	var lanes LaneSet
	for _, c := range changes {
		if c.Supersede && !c.Delivered {
			lanes.Add(LaneOf(c))
		}
	}
	return lanes
}

// Spread adds the lanes that a lane of the sink "" holds up: its group's lanes at every sink.
func (l *LaneSet) Spread(sinks map[string]bool) {
	for _, lane := range slices.Clone(l.Order) {
		if lane.Sink != "" {
			continue
		}
		for sink := range sinks {
			l.Add(checkpoint.Lane{Sink: sink, Group: lane.Group})
		}
	}
}

// ReportLanes tells which of the changed lanes are open, and which go on (R7). changed counts a lane's changes. Deliveries that are lanes of their
// own do not count for their group's lane. states are parallel to lanes.
func ReportLanes(out *checkpoint.Settled, lanes []checkpoint.Lane, states []LaneState, changed map[checkpoint.Lane]int, held HeldLanes) {
	for i, state := range states {
		lane := lanes[i]
		switch {
		case changed[lane] == 0:
		case !state.Blocked && !held.Has(lane):
			out.Open = append(out.Open, lane)
		case state.Due:
			out.Next = append(out.Next, lane)
		}
	}
}
