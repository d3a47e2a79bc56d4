package store_test

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// Of several changes for one delivery the last one counts, where it stands.
func TestLastChanges(t *testing.T) {
	t.Parallel()
	change := func(sink, id string, attempts int) checkpoint.Change {
		return checkpoint.Change{Key: checkpoint.Key{Sink: sink, Table: "t", ID: id}, Group: "g" + id, Attempts: attempts, Supersede: attempts > 2, Delivered: attempts > 4}
	}
	changes := []checkpoint.Change{change("a", "1", 1), change("b", "1", 2), change("a", "1", 3), change("a", "2", 4), change("b", "1", 5)}
	var got []int
	for _, c := range store.LastChanges(changes) {
		got = append(got, c.Attempts)
	}
	equal(t, "changes", got, []int{3, 4, 5})
	super := store.Superseding(store.LastChanges(changes))
	equal(t, "superseding", super.Order, []checkpoint.Lane{{Sink: "a", Group: "g1"}, {Sink: "a", Group: "g2"}})
}

// What happens in a lane without a sink concerns its group's lanes at every sink.
func TestSpread(t *testing.T) {
	t.Parallel()
	var lanes store.LaneSet
	for _, lane := range []checkpoint.Lane{{Sink: "a", Group: "g"}, {Group: "g"}, {Group: "h"}, {Sink: "a"}} {
		lanes.Add(lane)
	}
	lanes.Spread(map[string]bool{"a": true})
	equal(t, "lanes", lanes.Order, []checkpoint.Lane{{Sink: "a", Group: "g"}, {Group: "g"}, {Group: "h"}, {Sink: "a", Group: "h"}})
}

func TestReport(t *testing.T) {
	t.Parallel()
	lane := func(group string) checkpoint.Lane { return checkpoint.Lane{Sink: "a", Group: group} }
	lanes := []checkpoint.Lane{lane("open"), lane("held"), lane("everywhere"), lane("next"), lane("later"), lane("unchanged")}
	changed := map[checkpoint.Lane]int{}
	for _, l := range lanes[:5] {
		changed[l] = 1
	}
	var out checkpoint.Settled
	store.ReportLanes(&out, lanes, []store.LaneState{{}, {}, {}, {Blocked: true, Due: true}, {Blocked: true}, {}}, changed,
		store.HeldLanes{lane("held"): true, {Group: "everywhere"}: true})
	equal(t, "open", out.Open, lanes[:1])
	equal(t, "next", out.Next, lanes[3:4])
}
