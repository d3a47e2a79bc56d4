package sinktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// patience is how long the kit waits for what has to happen.
const patience = 4 * time.Minute

// Eventually waits until ok says true, and fails the test after a minute.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// Call calls Deliver once and checks the form of the answers. The caller sees to limits and to one destination.
func Call(ctx context.Context, t testing.TB, s sink.Sink, ds []*sink.Delivery) []error {
	t.Helper()
	if destinations, ok := s.(sink.Destinations); ok {
		for _, d := range ds {
			d.Destination = destinations.Destination(d)
		}
	}
	return call(ctx, t, s, ds)
}

func call(ctx context.Context, t testing.TB, s sink.Sink, ds []*sink.Delivery) []error {
	t.Helper()
	answers := s.Deliver(ctx, ds)
	if answers == nil {
		return make([]error, len(ds))
	}
	if len(answers) != len(ds) {
		t.Errorf("%d answers for %d deliveries", len(answers), len(ds))
		return slices.Repeat([]error{errors.New("no answer")}, len(ds))
	}
	failed := make(map[string]bool)
	for i, d := range ds {
		group := d.Message.Group
		if answers[i] != nil {
			failed[group] = true
		} else if group != "" && failed[group] {
			t.Errorf("%s was delivered although an earlier message of its group was not", d.Message.ID)
		}
		if class, _, whole := sink.Classify(answers[i]); whole && len(ds) == 1 {
			t.Errorf("a call with one delivery was answered as a whole (%v): its delivery is the guilty one", class)
		}
	}
	return answers
}

// Send delivers ds as the relay does, call after call within the sink's limits. What was not attempted is sent again;
// after any other error the rest of its group is given up. It returns the deliveries that did not succeed.
// Deliveries of a group stand in order in ds.
func Send(ctx context.Context, t testing.TB, s sink.Sink, ds []*sink.Delivery) map[*sink.Delivery]error {
	t.Helper()
	failed := make(map[*sink.Delivery]error)
	stopped := make(map[string]error)
	done := make(map[*sink.Delivery]bool)
	deadline := time.Now().Add(patience)
	for rest := ds; len(rest) > 0; {
		next := split(s, rest)
		for i, err := range call(ctx, t, s, next) {
			d := next[i]
			class, _, _ := sink.Classify(err)
			if err != nil && class == sink.ClassNotAttempted && ctx.Err() == nil && time.Now().Before(deadline) {
				continue
			}
			done[d] = true
			if err != nil {
				failed[d] = err
				if d.Message.Group != "" {
					stopped[d.Message.Group] = sink.ErrNotAttempted
				}
			}
		}
		var again []*sink.Delivery
		for _, d := range rest {
			switch {
			case done[d]:
			case stopped[d.Message.Group] != nil:
				failed[d] = stopped[d.Message.Group]
			default:
				again = append(again, d)
			}
		}
		rest = again
	}
	return failed
}

// split takes from ds what may go into one call: one destination, at most Run of a group, groups side by side.
func split(s sink.Sink, ds []*sink.Delivery) []*sink.Delivery {
	limits := s.Limits()
	if destinations, ok := s.(sink.Destinations); ok {
		for _, d := range ds {
			d.Destination = destinations.Destination(d)
		}
	}
	var order []string
	byGroup := make(map[string][]*sink.Delivery)
	waits := make(map[string]bool)
	count, bytes := 0, 0
	for _, d := range ds {
		g := d.Message.Group
		if limits.Batch > 0 && count >= limits.Batch || limits.Bytes > 0 && bytes > 0 && bytes+len(d.Value) > limits.Bytes {
			break
		}
		if d.Destination != ds[0].Destination || waits[g] || g != "" && len(byGroup[g]) >= max(1, limits.Run) {
			// Those behind it in its group wait as well.
			waits[g] = g != ""
			continue
		}
		if byGroup[g] == nil {
			order = append(order, g)
		}
		byGroup[g] = append(byGroup[g], d)
		count++
		bytes += len(d.Value)
	}
	var next []*sink.Delivery
	for _, g := range order {
		next = append(next, byGroup[g]...)
	}
	return next
}
