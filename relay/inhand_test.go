package relay_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// heldAt is message n of a group as it is parked at a sink.
func heldAt(at, group string, n int) checkpoint.Parked {
	m := messages(1).Messages[0]
	m.ID, m.Type, m.Group, m.Position = fmt.Sprint(at, group, n), "Both", group, outbox.Position{Log: 1, N: uint32(n)}
	return checkpoint.Parked{Sink: at, Message: m, State: checkpoint.StateWaiting, Blocks: true, Due: n == 0}
}

// TestLongGroupHoldsUpNoOther: a thousand messages wait in one group, of which its sink takes one a second. What is due of another sink, and of
// another group of that sink, does not wait for them; neither do groups beyond those that the poller has in hand.
func TestLongGroupHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]checkpoint.Parked{
		"another sink":                  heldAt("quick", "other", 0),
		"another group of its own sink": heldAt("slow", "other", 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const long = 1000
				rest := make([]checkpoint.Parked, long)
				for i := range rest {
					rest[i] = heldAt("slow", "long", i+1)
				}
				delivered := make(chan struct{})
				paged, settled := false, map[checkpoint.Key]bool{}
				store := &shelf{loaded: checkpoint.Loaded{Blocked: []checkpoint.Lane{{Sink: "slow", Group: "long"}, {Sink: other.Sink, Group: other.Message.Group}}}}
				store.due = func(sinks []string) (due []checkpoint.Parked) {
					heads := []checkpoint.Parked{heldAt("slow", "long", 0)}
					if paged {
						heads = append(heads, other) // due only now
					}
					for _, head := range heads {
						if slices.Contains(sinks, head.Sink) && !settled[head.Key()] {
							due = append(due, head)
						}
					}
					return due
				}
				store.page = func() []checkpoint.Parked {
					paged = true
					return rest
				}
				store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
					s := saved(in)
					for _, c := range in.Changes {
						settled[c.Key] = true
						if c.Group == "long" && len(settled) == 1 {
							s.Next = []checkpoint.Lane{{Sink: "slow", Group: "long"}}
						}
						if c.Key == other.Key() && c.Delivered {
							close(delivered)
						}
					}
					return s
				}
				slow := answering{func(ctx context.Context, ds []*sink.Delivery) []error {
					if err := until(ctx, time.Second); err != nil {
						return []error{sink.NotAttempted(err)}
					}
					return nil
				}}
				runUntil(t, relayOfTwo(t, emitting(), store, slow, dropping{}), delivered, 30*time.Second, "what was due elsewhere was delivered")
			})
		})
	}
}
