package tail

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func delivery(n int, group, payload string) *sink.Delivery {
	return &sink.Delivery{Message: &outbox.Message{ID: fmt.Sprint(n), Type: "OrderPlaced", Group: group, CommitTime: noon.Add(-time.Second), Position: outbox.Position{Log: 1, Commit: uint64(n)}},
		Topic: "orders", Value: []byte(payload), Attempt: 2}
}

// got takes what waits for a watcher, and tells whether it was dropped.
func got(w *Watcher) (all []Attempt, dropped bool) {
	for {
		select {
		case d, ok := <-w.C:
			if !ok {
				return all, true
			}
			all = append(all, d)
		default:
			return all, false
		}
	}
}

func watch(t *testing.T, h *Hub, f Filter) *Watcher {
	t.Helper()
	w, err := h.Watch(fmt.Sprint("watcher ", len(h.watchers)), f)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	var h Hub
	h.Answered("api", []*sink.Delivery{delivery(1, "g", "{}")}, nil, noon) // nobody watches
	all, group, other := watch(t, &h, Filter{}), watch(t, &h, Filter{Sink: "api", Group: "g", Payload: true}), watch(t, &h, Filter{Sink: "mail"})
	long := strings.Repeat("x", mostPayload-1) + "ü"
	h.Answered("api", []*sink.Delivery{delivery(1, "g", "{}"), delivery(2, "h", "secret"), delivery(3, "g", long), delivery(4, "g", "\xff")},
		[]error{nil, errors.New("the endpoint's answer"), nil, sink.NotAttempted(errors.New("x"))}, noon)
	one := Attempt{At: noon, Sink: "api", ID: "1", Type: "OrderPlaced", Group: "g", Topic: "orders", Position: outbox.Position{Log: 1, Commit: 1}.String(), Attempt: 2,
		Outcome: "delivered", Latency: 1, Bytes: 2}
	two := one
	two.ID, two.Group, two.Position, two.Outcome, two.Class, two.Bytes = "2", "h", outbox.Position{Log: 1, Commit: 2}.String(), "failed", "rejected", 6
	three := one
	three.ID, three.Position, three.Bytes = "3", outbox.Position{Log: 1, Commit: 3}.String(), len(long)
	if have, _ := got(all); !reflect.DeepEqual(have, []Attempt{one, two, three}) {
		t.Errorf("all:\n%+v", have)
	}
	one.Payload, three.Payload = "{}", long[:mostPayload-1]
	if have, _ := got(group); !reflect.DeepEqual(have, []Attempt{one, three}) {
		t.Errorf("one group:\n%+v", have)
	}
	if have, dropped := got(other); len(have) > 0 || dropped {
		t.Errorf("another sink: %+v, dropped %v", have, dropped)
	}
	h.Leave(all)
	h.Leave(all)
	h.Close()
	for _, w := range []*Watcher{all, group, watch(t, &h, Filter{})} {
		if have, dropped := got(w); len(have) > 0 || !dropped {
			t.Errorf("after the end: %+v, dropped %v", have, dropped)
		}
	}
}

// Of many deliveries a watcher gets some, and how many were left out. One that takes nothing is dropped, and the others go on.
func TestSample(t *testing.T) {
	t.Parallel()
	var h Hub
	w, stuck, one := watch(t, &h, Filter{}), watch(t, &h, Filter{}), watch(t, &h, Filter{Group: "g9999"})
	left := map[int]int{0: 0, 1: 400, 2: 400}
	for second := range 3 {
		now := noon.Add(time.Duration(second) * time.Second)
		for n := range 50 {
			var ds []*sink.Delivery
			for i := range 10 {
				ds = append(ds, delivery(n*10+i, fmt.Sprintf("g%d", 1000*second+n*10+i), ""))
			}
			h.Answered("api", ds, nil, now)
		}
		have, dropped := got(w)
		if len(have) != PerSecond || dropped || have[0].Skipped != left[second] || have[1].Skipped != 0 || have[PerSecond-1].ID != fmt.Sprint(PerSecond-1) {
			t.Errorf("second %d: %d deliveries, dropped %v, %+v", second, len(have), dropped, have[0])
		}
	}
	if have, dropped := got(stuck); len(have) != waiting || !dropped {
		t.Errorf("who takes nothing: %d deliveries, dropped %v", len(have), dropped)
	}
	if have, dropped := got(one); len(have) != 0 || dropped {
		t.Errorf("a group: %+v, dropped %v", have, dropped)
	}
	for len(h.watchers) < MostWatchers {
		watch(t, &h, Filter{})
	}
	if _, err := h.Watch("one more", Filter{}); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
}

// One name leaves room for others, and has its own again when one of its watchers leaves.
func TestOften(t *testing.T) {
	t.Parallel()
	var h Hub
	var last *Watcher
	for i := range MostOfOne + 2 {
		w, err := h.Watch("ana", Filter{})
		if i < MostOfOne && err != nil || i >= MostOfOne && !errors.Is(err, ErrOften) {
			t.Errorf("stream %d: %v", i, err)
		}
		if err == nil {
			last = w
		}
	}
	bob, err := h.Watch("bob", Filter{})
	if err != nil {
		t.Errorf("another name has none: %v", err)
	}
	h.Leave(last)
	h.Leave(bob)
	if _, err := h.Watch("ana", Filter{}); err != nil || len(h.watchers) != MostOfOne {
		t.Errorf("after one left: %v, %d watch", err, len(h.watchers))
	}
}

// Nobody watches: nothing is allocated.
func TestUnwatched(t *testing.T) {
	var h Hub
	ds := []*sink.Delivery{delivery(1, "g", "{}")}
	if n := testing.AllocsPerRun(100, func() { h.Answered("api", ds, nil, noon) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
