package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// While a sink fails it gets single heads and no more, though it would take many deliveries in a call.
func TestProbesAreSingleHeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, fails := time.Now(), errors.New("503")
		sizes := make(chan int, 1000)
		to := bounded{answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if time.Since(begin) > 900*time.Millisecond { // the breaker is open
				sizes <- len(ds)
			}
			errs := make([]error, len(ds))
			for i := range errs {
				errs[i] = sink.Whole(sink.Unavailable(fails))
			}
			return errs
		}}, sink.Limits{Batch: 10, Run: 10, Concurrency: 4}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			if err := emit(ctx, messages(400)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		end := started(t, relayWith(t, src, to, &shelf{}, 0))
		<-time.After(4500 * time.Millisecond) // of the bubble: before what waits is parked
		end()
		close(sizes)
		calls := 0
		for n := range sizes {
			if calls++; n != 1 {
				t.Errorf("a probe carries %d deliveries", n)
			}
		}
		if calls == 0 || calls > 2*8 {
			t.Errorf("%d probes within two rounds, want 1 to 16", calls)
		}
	})
}

// A round has each head once: a group that is alone is not sent eight times in a row.
func TestProbesAreOfDifferentGroups(t *testing.T) {
	t.Parallel()
	for range 30 { // the pauses between tries are random
		synctest.Test(t, func(t *testing.T) {
			calls := make(chan time.Time, 1000)
			to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
				calls <- time.Now()
				return []error{sink.Unavailable(errors.New("503"))}
			}}
			src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
				if err := emit(ctx, messages(1)); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}}
			end := started(t, relayWith(t, src, to, &shelf{}, 0))
			<-time.After(4500 * time.Millisecond) // before what waits is parked
			end()
			close(calls)
			if n := len(calls); n < 3 || n > 5+2 {
				t.Errorf("%d calls, want 3 to 5 until the sink fails and a probe in each of two rounds at most", n)
			}
		})
	}
}
