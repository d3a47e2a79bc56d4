package relay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A message that could not be routed is parked while those before it in its group may still wait for their sink. An operator's replay
// of it, with routes that fit now, must not send it before them: neither while they wait in memory, nor while they are still in the log.
func TestReplayedUnroutableWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"in memory": 0, "in the log": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := messages(3) // the last of which was parked
				for i, m := range b.Messages {
					m.Group, m.Position.Commit = "g", uint64(i+1)
				}
				last := b.Messages[2]
				src := emitting()
				src.run = func(ctx context.Context, emit source.Emit) error {
					<-time.After(wait)
					if err := emit(ctx, b); err != nil {
						return err
					}
					<-ctx.Done()
					return nil
				}
				above := map[string][]checkpoint.Range{"": {{First: last.Position, Last: last.Position}}}
				store := &shelf{loaded: checkpoint.Loaded{
					Checkpoint: &checkpoint.Checkpoint{SourceID: "test", Resume: "0", Log: 1, SettledAbove: above},
				}}
				copied := *last
				rerouted, done := false, make(chan struct{})
				store.due = func([]string) []checkpoint.Parked {
					if rerouted {
						return nil
					}
					return []checkpoint.Parked{{Message: &copied, State: checkpoint.StateRetrying, Blocks: true, Due: true}}
				}
				sent := 0
				store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
					if len(in.Changes) > 0 && !rerouted {
						rerouted = true
						if sent < 2 {
							t.Errorf("given to its sinks after %d of the 2 messages before it", sent)
						}
						close(done)
					}
					return saved(in)
				}
				to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
					<-time.After(3 * time.Second)
					sent += len(ds)
					return nil
				}}
				runUntil(t, relayWith(t, src, to, store, 0), done, time.Minute, "the replayed message")
			})
		})
	}
}
