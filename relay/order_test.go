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

// A time to wait for is one of the database's clock, which the host's may be far ahead of, or behind.
func TestAvailableAtByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := messages(2)
				for i, wait := range []time.Duration{-30 * time.Second, 30 * time.Second} { // the first one was read late
					m := b.Messages[i]
					m.CommitTime = time.Now().Add(-ahead - time.Minute)
					m.AvailableAt = time.Now().Add(-ahead + wait)
				}
				delivered, parked := make(chan struct{}), make(chan struct{})
				store := &shelf{ahead: ahead}
				store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
					for _, p := range in.Park {
						if p.Message.ID != b.Messages[1].ID || p.NextAttempt != 30*time.Second {
							t.Errorf("message %s was parked for %v", p.Message.ID, p.NextAttempt)
						}
						once(parked)
					}
					return saved(in)
				}
				to := answering{func(context.Context, []*sink.Delivery) []error {
					once(delivered)
					return nil
				}}
				both := make(chan struct{})
				go func() { <-delivered; <-parked; close(both) }()
				runUntil(t, relayWith(t, emitting(b), to, store, 0), both, time.Minute, "one message is sent, and one waits")
			})
		})
	}
}

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
