package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// Only the first blocking delivery of a lane has a time, and none that an operator, a hold or the sink "" holds up.
func TestLaneOrder(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lane, other := checkpoint.Lane{Sink: "a", Group: "g"}, checkpoint.Lane{Group: "g"}
	key := func(id string) checkpoint.Key { return checkpoint.Key{Sink: "a", Table: "t", ID: id} }
	head := func(id string, state checkpoint.State, next time.Time) *store.LaneHead {
		return &store.LaneHead{Key: key(id), Position: id, State: state, Next: next}
	}
	later, past := now.Add(time.Hour), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		before, head, unrouted *store.LaneHead
		want                   map[string]time.Duration
		hold                   store.HeldLanes
		set                    string
		state                  store.LaneState
	}{
		"empty":               {},
		"left by the first":   {before: head("1", checkpoint.StateRetrying, past), set: "1 none "},
		"follows":             {head: head("2", checkpoint.StateWaiting, time.Time{}), set: "2 0s ", state: store.LaneState{Blocked: true, Due: true}},
		"has a time":          {head: head("2", checkpoint.StateRetrying, later), state: store.LaneState{Blocked: true}},
		"has come":            {head: head("2", checkpoint.StateRetrying, past), state: store.LaneState{Blocked: true, Due: true}},
		"wants one":           {head: head("2", checkpoint.StateRetrying, time.Time{}), want: map[string]time.Duration{"2": time.Minute}, set: "2 1m0s ", state: store.LaneState{Blocked: true}},
		"another wants one":   {head: head("2", checkpoint.StateRetrying, later), want: map[string]time.Duration{"3": time.Minute}, state: store.LaneState{Blocked: true}},
		"dead":                {head: head("2", checkpoint.StateDead, past), set: "2 none ", state: store.LaneState{Blocked: true}},
		"dead without a time": {head: head("2", checkpoint.StateDead, time.Time{}), state: store.LaneState{Blocked: true}},
		"held":                {head: head("2", checkpoint.StateRetrying, past), hold: store.HeldLanes{lane: true}, set: "2 none ", state: store.LaneState{Blocked: true}},
		"held everywhere":     {head: head("2", checkpoint.StateRetrying, past), hold: store.HeldLanes{other: true}, set: "2 none ", state: store.LaneState{Blocked: true}},
		"behind the unrouted": {head: head("2", checkpoint.StateRetrying, past), unrouted: head("1", checkpoint.StateDead, time.Time{}), set: "2 none ", state: store.LaneState{Blocked: true}},
		"before the unrouted": {head: head("2", checkpoint.StateRetrying, past), unrouted: head("3", checkpoint.StateDead, time.Time{}), state: store.LaneState{Blocked: true, Due: true}},
		"overtaken":           {before: head("2", checkpoint.StateRetrying, later), head: head("1", checkpoint.StateWaiting, time.Time{}), set: "2 none 1 0s ", state: store.LaneState{Blocked: true, Due: true}},
		"still the first":     {before: head("2", checkpoint.StateRetrying, later), head: head("2", checkpoint.StateRetrying, later), state: store.LaneState{Blocked: true}},
	} {
		o := store.NewLaneOrder()
		o.Touched.Add(lane)
		for l, h := range map[checkpoint.Lane]*store.LaneHead{lane: c.head, other: c.unrouted} {
			if h != nil {
				o.Heads[l] = h
			}
		}
		if c.before != nil {
			o.Before[lane] = c.before
		}
		for id, wait := range c.want {
			o.Want(key(id), wait)
		}
		set := ""
		states := o.Decide(c.hold, now, func(h *store.LaneHead, at time.Time) {
			what := "none"
			if !at.IsZero() {
				what = at.Sub(now).String()
			}
			set += fmt.Sprintf("%s %s ", h.ID, what)
		})
		equal(t, name, set, c.set)
		equal(t, name, states, []store.LaneState{c.state})
	}
}

// A lane whose first delivery is known is not read again; what holds its group up still is.
func TestFoundLaneIsNotAsked(t *testing.T) {
	t.Parallel()
	o := store.NewLaneOrder()
	found, read, unrouted := checkpoint.Lane{Sink: "a", Group: "g"}, checkpoint.Lane{Sink: "a", Group: "h"}, checkpoint.Lane{Group: "g"}
	o.Touched.Add(found)
	o.Touched.Add(read)
	o.Found(found, &store.LaneHead{Key: checkpoint.Key{Sink: "a", Table: "t", ID: "1"}})
	equal(t, "asked", o.Asked(map[string]bool{"a": true}), []checkpoint.Lane{read})
	equal(t, "asked with unrouted messages", o.Asked(map[string]bool{"a": true, "": true}), []checkpoint.Lane{unrouted, read, {Group: "h"}})
}
