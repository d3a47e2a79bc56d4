package relay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// hanging is a store whose settlements wait.
type hanging struct {
	accepting
	until chan struct{}
}

func (h hanging) Settle(ctx context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	<-h.until
	return h.accepting.Settle(ctx, s)
}

// A sink that is faster than the store gets only so far ahead of what is durable: a crash repeats all of that.
func TestDeliveriesKeepNearTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const batches, size, most = 700, 100, 15_000
		var delivered atomic.Int64
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			delivered.Add(int64(len(ds)))
			return nil
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			for i := range batches {
				b := &source.Batch{Resume: "r"}
				for n := range size {
					b.Messages = append(b.Messages, &outbox.Message{Table: "public.outbox", Topic: "order", Type: "T",
						Position: outbox.Position{Log: 1, Commit: uint64(i + 1), N: uint32(n)}})
				}
				if err := emit(ctx, b); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}}
		store := hanging{until: make(chan struct{})}
		end := started(t, relayWithin(t, 1<<30, src, to, store, 0))
		synctest.Wait()
		if n := delivered.Load(); n > most || n < most/2 {
			t.Errorf("%d messages were delivered while nothing became durable; want some 10,000", n)
		}
		close(store.until)
		synctest.Wait()
		if n := delivered.Load(); n != batches*size {
			t.Errorf("%d of %d messages were delivered", n, batches*size)
		}
		end()
	})
}
