package relay_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
)

// A sink that asks to slow down and does not say for how long is asked again less and less often. When it takes deliveries again
// they all arrive soon, and the next time that it asks the rests are short again.
func TestThrottledWithoutATimeIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, busy = 3000, 10 * time.Minute
		began, store, done := time.Now(), newYard(), make(chan struct{})
		var mu sync.Mutex
		asked, again, arrived := 0, 0, 0
		var refusedAgain time.Time
		to := answering{func(context.Context, []*sink.Delivery) []error {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(began) < busy {
				asked++
				return []error{sink.Throttled(errors.New("too many requests"), 0)}
			}
			if arrived == most/2 && again < 2 { // two calls, the second of which is in flight or the first after a short rest
				again++
				refusedAgain = time.Now()
				return []error{sink.Throttled(errors.New("too many requests"), 0)}
			}
			if arrived++; arrived == most/2+1 && time.Since(refusedAgain) > time.Second {
				t.Errorf("after a success it was left alone for %v", time.Since(refusedAgain))
			}
			if arrived == most {
				close(done)
			}
			return nil
		}}
		b := messages(most)
		for _, m := range b.Messages {
			m.Group = ""
		}
		store.shelf.due = dueOf(store)
		runUntil(t, relayWith(t, emitting(b), to, store, 0), done, busy+45*time.Second, "what a sink refused for ten minutes")
		if asked < 20 || asked > 200 {
			t.Errorf("the sink was called %d times while it was busy", asked)
		}
		if _, guilty := store.left(); len(guilty) > 0 {
			t.Errorf("%d messages spent an attempt", len(guilty))
		}
	})
}

// dueOf is what is due in a yard, for the sinks that are asked for.
func dueOf(store *yard) func([]string) []checkpoint.Parked {
	due := store.shelf.due
	return func(sinks []string) []checkpoint.Parked {
		for _, name := range sinks {
			if name == "out" {
				return due(sinks)
			}
		}
		return nil
	}
}
