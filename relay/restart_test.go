package relay_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// full is a store that can make nothing durable while it is full.
type full struct {
	accepting
	full *atomic.Bool
}

func (f full) Settle(ctx context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if f.full.Load() {
		return nil, errors.New("no space left on device")
	}
	return f.accepting.Settle(ctx, s)
}

// While nothing can be settled, each start delivers the same messages again: the pauses between starts grow, however long a start
// lasts, until something is durable.
func TestWhatCannotBeSettledIsSeldomRepeated(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]time.Duration{"a fast sink": 0, "a slow sink": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { seldomRepeated(t, slow) })
		})
	}
}

func seldomRepeated(t *testing.T, slow time.Duration) {
	store := full{full: &atomic.Bool{}}
	store.full.Store(true)
	var delivered atomic.Int64
	to := answering{func(context.Context, []*sink.Delivery) []error {
		delivered.Add(1)
		<-time.After(slow)
		return []error{nil}
	}}
	confirmed := make(chan struct{}, 1)
	src := emitting(messages(1))
	src.confirm = func(source.Resume) { confirmed <- struct{}{} }
	end := started(t, relayWith(t, src, to, store, 0))
	<-time.After(10 * time.Minute)
	if n := delivered.Load(); n < 10 || n > 30 {
		t.Errorf("delivered %d times within 10 minutes; want a try every half minute", n)
	}
	store.full.Store(false)
	<-confirmed
	end()
}
