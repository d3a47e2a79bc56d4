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

// A time that was not in the future when its message was committed, such as a column's default now(), takes nothing out of its group's order, whatever
// time it is where the relay runs.
func TestAvailableAtOnce(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"an idle relay": 0, "a server whose clock is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				src := emitting()
				src.run = func(ctx context.Context, emit source.Emit) error {
					<-time.After(500 * time.Millisecond) // the relay waits since then
					b := messages(1)
					m := b.Messages[0]
					m.CommitTime = time.Now().Add(ahead)
					m.AvailableAt = m.CommitTime
					if err := emit(ctx, b); err != nil {
						return err
					}
					<-ctx.Done()
					return nil
				}
				delivered := make(chan struct{})
				store := &shelf{settle: func(in *checkpoint.Settlement) *checkpoint.Settled {
					if len(in.Park) > 0 {
						t.Errorf("message %s was parked to wait for its time", in.Park[0].Message.ID)
					}
					return saved(in)
				}}
				to := answering{func(context.Context, []*sink.Delivery) []error {
					close(delivered)
					return nil
				}}
				runUntil(t, relayWith(t, src, to, store, 0), delivered, time.Minute, "the message arrives")
			})
		})
	}
}
