package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// overworked is a store whose settlements take so long that there is always more to park when one ends.
type overworked struct {
	accepting
	due, asked chan time.Time
}

func (s overworked) Settle(_ context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	<-time.After(200 * time.Millisecond)
	return &checkpoint.Settled{Saved: in.Checkpoint(nil) != nil}, nil
}

func (s overworked) Due(context.Context, *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	s.due <- time.Now()
	return nil, time.Minute, nil
}

func (s overworked) Requests(context.Context) ([]checkpoint.Request, error) {
	s.asked <- time.Now()
	return nil, nil
}

// TestBusyStore has everything for a failing sink parked by a store that is never done with it: operators' requests and parked deliveries that are
// due, of which some find out whether the sink works again, get their turn all the same.
func TestBusyStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := overworked{due: make(chan time.Time, 1000), asked: make(chan time.Time, 1000)}
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			return []error{sink.Unavailable(errors.New("answered 503"))}
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			for n := uint64(1); ; n++ {
				b := &source.Batch{Resume: source.Resume(fmt.Sprint(n)), Messages: []*outbox.Message{{ID: fmt.Sprint(n), Table: "public.outbox", Topic: "order",
					Type: "T", Group: fmt.Sprint("order:", n), CommitTime: time.Now(), Position: outbox.Position{Log: 1, Commit: n}}}}
				if err := emit(ctx, b); err != nil {
					return nil
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
					return nil
				}
			}
		}}
		end := started(t, relayWith(t, src, to, store, 0))
		<-time.After(20 * time.Second) // by now the sink is parked
		drain := func(c chan time.Time) (n int) {
			for {
				select {
				case <-c:
					n++
				default:
					return n
				}
			}
		}
		drain(store.due)
		drain(store.asked)
		<-time.After(time.Minute)
		if due, asked := drain(store.due), drain(store.asked); due == 0 || asked < 20 {
			t.Errorf("within a minute of parking the store was asked %d times for what is due, want at least once, and %d times for requests, want at least 20", due, asked)
		}
		end()
	})
}
