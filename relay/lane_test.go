package relay

import (
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
)

func laneOf(partitions ...int32) *lane {
	l := &lane{group: "g"}
	for _, p := range partitions {
		d := &delivery{lane: l}
		d.Value = make([]byte, 10)
		d.Destination.Partition = p
		l.queue.push(d)
	}
	return l
}

// keep leaves a delivery's destination as the test set it.
func keep(d *delivery) sink.Destination { return d.Destination }

func TestRunLength(t *testing.T) {
	t.Parallel()
	doomed := laneOf(1, 1, 1)
	doomed.queue.at(1).doomed = &failure{}
	narrowed := laneOf(1, 1, 1, 1, 1, 1)
	narrowed.narrow(5)
	for _, c := range []struct {
		name        string
		lane        *lane
		limits      sink.Limits
		room, bytes int
		first       bool
		want        int
	}{
		{"one at a time", laneOf(1, 1, 1), sink.Limits{}, 0, 0, true, 1},
		{"all", laneOf(1, 1, 1), sink.Limits{Run: 10}, 0, 0, true, 3},
		{"no run across partitions", laneOf(1, 1, 2, 1), sink.Limits{Run: 10}, 0, 0, true, 2},
		{"room in the call", laneOf(1, 1, 1), sink.Limits{Run: 10, Batch: 100}, 2, 0, false, 2},
		{"bytes in the call", laneOf(1, 1, 1), sink.Limits{Run: 10, Bytes: 100}, 0, 25, false, 2},
		{"one may exceed the bytes", laneOf(1, 1), sink.Limits{Run: 10, Bytes: 5}, 0, 5, true, 1},
		{"not beside others", laneOf(1, 1), sink.Limits{Run: 10, Bytes: 5}, 0, 5, false, 0},
		{"stops before a doomed one", doomed, sink.Limits{Run: 10}, 0, 0, true, 1},
		{"half of a failed run", narrowed, sink.Limits{Run: 10}, 0, 0, true, 2},
	} {
		if got := c.lane.runLength(c.limits, c.room, c.bytes, c.first, keep); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNarrowFindsTheGuilty(t *testing.T) {
	t.Parallel()
	for guilty := range 16 {
		l := laneOf(make([]int32, 16)...)
		bad := l.queue.at(guilty)
		calls := 0
		for l.queue.len() > 0 {
			if calls++; calls > 40 {
				t.Fatalf("guilty %d: not found in 40 calls", guilty)
			}
			n := l.runLength(sink.Limits{Run: 16}, 0, 0, true, keep)
			failed := false
			for i := range n {
				failed = failed || l.queue.at(i) == bad
			}
			if failed && n > 1 {
				l.narrow(n)
				continue
			}
			for i := range n { // delivered, or given up alone
				l.passed(l.queue.at(i))
			}
			l.queue.pop(n)
		}
		if l.suspect != nil {
			t.Errorf("guilty %d: still narrowing", guilty)
		}
	}
}

// A sink that names the guilty one and takes none of the others gets what is before it next, and then that one at the head.
func TestIsolateKeepsTheGuiltyAway(t *testing.T) {
	t.Parallel()
	l := laneOf(make([]int32, 8)...)
	bad := l.queue.at(5)
	l.isolate(5)
	if n := l.runLength(sink.Limits{Run: 16}, 0, 0, true, keep); n != 5 {
		t.Fatalf("a run of %d, want the 5 before the guilty one", n)
	}
	for i := range 5 {
		l.passed(l.queue.at(i))
	}
	l.queue.pop(5)
	if l.suspect != bad || l.queue.at(0) != bad {
		t.Error("the guilty one is not next")
	}
	l.passed(bad)
	l.queue.pop(1)
	if n := l.runLength(sink.Limits{Run: 16}, 0, 0, true, keep); n != 2 {
		t.Errorf("a run of %d, want the 2 that are left", n)
	}
}

func TestSendable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name string
		set  func(*lane)
		want bool
	}{
		{"open", func(*lane) {}, true},
		{"empty", func(l *lane) { l.queue.clear() }, false},
		{"a run in flight", func(l *lane) { l.busy = 1 }, false},
		{"blocked by parked deliveries (I5)", func(l *lane) { l.blocked = true }, false},
		{"blocked, but the poller's turn", func(l *lane) { l.blocked, l.polling = true, true }, true},
		{"held by an operator", func(l *lane) { l.held = true }, false},
		{"a request is about to change it", func(l *lane) { l.frozen = true }, false},
		{"being parked", func(l *lane) { l.parking = &failure{} }, false},
		{"park not durable yet", func(l *lane) { l.settling = true }, false},
		{"waits for its next attempt", func(l *lane) { l.retryAt = now.Add(1) }, false},
		{"its time has come", func(l *lane) { l.retryAt = now }, true},
	} {
		l := laneOf(1)
		c.set(l)
		if got := l.sendable(now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What a blocked lane has in its queue goes behind what is parked, before what arrived since; and the lane is as wide again as
// it was: nobody would tell it that the suspect, which the database has then, was delivered.
func TestShelveEndsTheNarrowing(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*lane){
		"narrow":  func(l *lane) { l.narrow(8) },
		"isolate": func(l *lane) { l.isolate(1) },
	} {
		l := laneOf(make([]int32, 8)...)
		begin(l)
		inOrder := append([]*delivery{}, l.queue.slice()...)
		late := &delivery{lane: l}
		l.arrivals.push(late)
		l.shelve()
		if l.queue.len() != 0 || !slices.Equal(l.arrivals.slice(), append(inOrder, late)) {
			t.Errorf("%s: what was queued is not before what arrived", name)
		}
		for range 6 { // brought back from the database
			l.queue.push(&delivery{lane: l})
		}
		if n := l.runLength(sink.Limits{Run: 16}, 0, 0, true, keep); n != 6 {
			t.Errorf("%s: a run of %d, want all 6", name, n)
		}
	}
}
