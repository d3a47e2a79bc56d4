package lane

import (
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
)

func laneOf(partitions ...int32) *Lane {
	l := &Lane{Group: "g", Mode: Open}
	for _, p := range partitions {
		d := &Delivery{Lane: l}
		d.Value = make([]byte, 10)
		d.Destination.Partition = p
		l.Queue.Push(d)
	}
	return l
}

// keep leaves a delivery's destination as the test set it.
func keep(d *Delivery) sink.Destination { return d.Destination }

func TestRunLength(t *testing.T) {
	t.Parallel()
	doomed := laneOf(1, 1, 1)
	doomed.Queue.At(1).Unsendable = &Failure{}
	narrowed := laneOf(1, 1, 1, 1, 1, 1)
	narrowed.Narrow(5)
	for _, c := range []struct {
		name        string
		lane        *Lane
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
		if got := c.lane.RunLength(c.limits, c.room, c.bytes, c.first, keep); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNarrowFindsTheGuilty(t *testing.T) {
	t.Parallel()
	for guilty := range 16 {
		l := laneOf(make([]int32, 16)...)
		bad := l.Queue.At(guilty)
		calls := 0
		for l.Queue.Len() > 0 {
			if calls++; calls > 40 {
				t.Fatalf("guilty %d: not found in 40 calls", guilty)
			}
			n := l.RunLength(sink.Limits{Run: 16}, 0, 0, true, keep)
			failed := false
			for i := range n {
				failed = failed || l.Queue.At(i) == bad
			}
			if failed && n > 1 {
				l.Narrow(n)
				continue
			}
			for i := range n { // delivered, or given up alone
				l.Passed(l.Queue.At(i))
			}
			l.Queue.Pop(n)
		}
		if l.BisectEnd != nil {
			t.Errorf("guilty %d: still narrowing", guilty)
		}
	}
}

// A sink that names the guilty one and takes none of the others gets what is before it next, and then that one at the head.
func TestIsolateKeepsTheGuiltyAway(t *testing.T) {
	t.Parallel()
	l := laneOf(make([]int32, 8)...)
	bad := l.Queue.At(5)
	l.Isolate(5)
	if n := l.RunLength(sink.Limits{Run: 16}, 0, 0, true, keep); n != 5 {
		t.Fatalf("a run of %d, want the 5 before the guilty one", n)
	}
	for i := range 5 {
		l.Passed(l.Queue.At(i))
	}
	l.Queue.Pop(5)
	if l.BisectEnd != bad || l.Queue.At(0) != bad {
		t.Error("the guilty one is not next")
	}
	l.Passed(bad)
	l.Queue.Pop(1)
	if n := l.RunLength(sink.Limits{Run: 16}, 0, 0, true, keep); n != 2 {
		t.Errorf("a run of %d, want the 2 that are left", n)
	}
}

func TestSendable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name string
		set  func(*Lane)
		want bool
	}{
		{"open", func(*Lane) {}, true},
		{"empty", func(l *Lane) { l.Queue.Clear() }, false},
		{"a run in flight", func(l *Lane) { l.doing = InFlight }, false},
		{"blocked by parked deliveries (I5)", func(l *Lane) { l.Mode = Behind }, false},
		{"blocked, but the poller's turn", func(l *Lane) { l.Mode = Polled }, true},
		{"held by an operator", func(l *Lane) { l.Mode = Held }, false},
		{"a request is about to change it", func(l *Lane) { l.doing = Frozen }, false},
		{"being parked", func(l *Lane) { l.doing = Parking }, false},
		{"park not durable yet", func(l *Lane) { l.doing = Settling }, false},
		{"waits for its next attempt", func(l *Lane) { l.RetryAt = now.Add(1) }, false},
		{"its time has come", func(l *Lane) { l.RetryAt = now }, true},
	} {
		l := laneOf(1)
		c.set(l)
		if got := l.Sendable(now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What a blocked lane has in its queue goes behind what is parked, before what arrived since; and the lane is as wide again as
// it was: nobody would tell it that the suspect, which the database has then, was delivered.
func TestShelveEndsTheNarrowing(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*Lane){
		"narrow":  func(l *Lane) { l.Narrow(8) },
		"isolate": func(l *Lane) { l.Isolate(1) },
	} {
		l := laneOf(make([]int32, 8)...)
		begin(l)
		inOrder := append([]*Delivery{}, l.Queue.Slice()...)
		late := &Delivery{Lane: l}
		l.Backlog.Push(late)
		l.Demote()
		if l.Queue.Len() != 0 || !slices.Equal(l.Backlog.Slice(), append(inOrder, late)) {
			t.Errorf("%s: what was queued is not before what arrived", name)
		}
		for range 6 { // brought back from the database
			l.Queue.Push(&Delivery{Lane: l})
		}
		if n := l.RunLength(sink.Limits{Run: 16}, 0, 0, true, keep); n != 6 {
			t.Errorf("%s: a run of %d, want all 6", name, n)
		}
	}
}
