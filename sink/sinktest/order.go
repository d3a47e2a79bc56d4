package sinktest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/sink"
)

// testOrder delivers lanes that are interleaved, in runs as long as the sink wants them.
func testOrder(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	const groups, length = 7, 100
	lanes := make([][]*sink.Delivery, groups)
	for g := range lanes {
		lanes[g] = lane(p, fmt.Sprintf("order-%d", g), length)
	}
	var ds []*sink.Delivery
	for n := range length {
		for g := range lanes {
			ds = append(ds, lanes[g][n])
		}
	}
	deliverAll(t, p, ds)
	inOrder(t, h, p, ds, false)
}

// testConcurrent calls Deliver from as many goroutines as the sink allows, each with lanes of its own.
func testConcurrent(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	var all []*sink.Delivery
	var lanes [][]*sink.Delivery
	for g := range min(max(1, p.Sink.Limits().Concurrency), 8) {
		lanes = append(lanes, lane(p, fmt.Sprintf("concurrent-%d", g), 60))
		all = append(all, lanes[g]...)
	}
	// Destination is called by one goroutine, and a destination may want one call at a time: so the kit shares out the
	// lanes by destination.
	warm := lane(p, "concurrent-warm", 1)
	deliverAll(t, p, warm)
	byDestination := make(map[sink.Destination][]*sink.Delivery)
	for g, ds := range lanes {
		where := sink.Destination{Partition: int32(g)}
		if destinations, ok := p.Sink.(sink.Destinations); ok {
			where = destinations.Destination(ds[0])
		}
		byDestination[where] = append(byDestination[where], ds...)
	}
	var wg sync.WaitGroup
	for _, ds := range byDestination {
		wg.Go(func() {
			for d, err := range Send(t.Context(), t, p.Sink, ds) {
				t.Errorf("deliver %s: %v", d.Message.ID, err)
			}
		})
	}
	wg.Wait()
	if !t.Failed() {
		inOrder(t, h, p, all, false)
	}
}

// inOrder waits for all of ds and checks that the first arrivals of each group came in order. Repeated arrivals are
// errors unless they are allowed.
func inOrder(t *testing.T, h Harness, p Place, ds []*sink.Delivery, repeats bool) {
	t.Helper()
	if h.Blind {
		return
	}
	await(t, p, ds)
	next := make(map[string]int)
	place := make(map[string]*sink.Delivery)
	number := make(map[string]int)
	count := make(map[string]int)
	for _, d := range ds {
		place[d.Message.ID] = d
		number[d.Message.ID] = count[d.Message.Group]
		count[d.Message.Group]++
	}
	for _, a := range p.Arrived(t) {
		d := place[a.ID]
		if d == nil {
			continue
		}
		g := d.Message.Group
		switch n := number[a.ID]; {
		case n == next[g]:
			next[g]++
		case n > next[g]:
			t.Fatalf("group %s: number %d arrived before number %d", g, n, next[g])
		case !repeats:
			t.Fatalf("group %s: number %d arrived twice", g, n)
		}
	}
}

func closeSink(t *testing.T, s sink.Sink) {
	t.Helper()
	// The test's own context has ended when its cleanups run.
	if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("close: %v", err)
	}
}
