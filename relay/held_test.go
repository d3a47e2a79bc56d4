package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
)

// TestHoldsAreCountedAfterAStart: a group that an operator holds at one sink, and one that he holds at all of them, count although nothing of theirs is
// in memory.
func TestHoldsAreCountedAfterAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{loaded: checkpoint.Loaded{HeldLanes: []checkpoint.Lane{{Sink: "out", Group: "order:1"}, {Group: "order:2"}, {Group: "order:3"}}}}
		counted := make(chan struct{})
		r := relayOther(t, emitting(messages(4)), dropping{}, store, func(c *relay.Config) {
			c.Events.Sampled = func(s relay.Sample) {
				if s.Sinks["out"].Held == 3 {
					once(counted)
				}
			}
		})
		runUntil(t, r, counted, time.Minute, "three groups are held")
	})
}
