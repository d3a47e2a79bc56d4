package relay_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// parking is a store that says what is parked, and has one request.
type parking struct {
	accepting
	parked  chan int
	request chan checkpoint.Request
}

func (p parking) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if len(s.Park) > 0 {
		p.parked <- len(s.Park)
	}
	return &checkpoint.Settled{Saved: s.Checkpoint(nil) != nil}, nil
}

func (p parking) Requests(context.Context) ([]checkpoint.Request, error) {
	select {
	case r := <-p.request:
		return []checkpoint.Request{r}, nil
	default:
		return nil, nil
	}
}

func (parking) Lanes(context.Context, *checkpoint.Request, int) ([]checkpoint.Lane, error) {
	return nil, nil
}

func (parking) Apply(context.Context, *checkpoint.Request, []checkpoint.Lane) (*checkpoint.Applied, error) {
	return &checkpoint.Applied{Done: true}, nil
}

// A sink that takes nothing for 5 s has its lanes parked, so that the log flows on. That is so even if a call that was in flight when the sink asked
// to wait, or was paused, succeeded after that.
func TestSinkIsDownThoughACallEndsWell(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"throttled", "paused"} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { downThoughACallEndsWell(t, why) })
		})
	}
}

func downThoughACallEndsWell(t *testing.T, why string) {
	store := parking{parked: make(chan int, 100), request: make(chan checkpoint.Request, 1)}
	to := answering{func(ctx context.Context, ds []*sink.Delivery) []error {
		if why == "throttled" && ds[0].Message.ID == "0" {
			return []error{sink.Throttled(fmt.Errorf("busy"), 10*time.Minute)}
		}
		select {
		case <-time.After(3 * time.Second):
			return nil
		case <-ctx.Done():
			return []error{sink.NotAttempted(ctx.Err())}
		}
	}}
	src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
		if err := emit(ctx, messages(10)); err != nil {
			return err
		}
		if why == "paused" {
			<-time.After(time.Second)
			store.request <- checkpoint.Request{ID: 1, Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"out"}}}
		}
		<-ctx.Done()
		return nil
	}}
	end := started(t, relayWith(t, src, to, store, 0))
	late := time.After(time.Minute)
	left := 7 // one is throttled and 3 are delivered; or 4 are in flight when it is paused, and are delivered
	if why == "paused" {
		left = 6
	}
	for left > 0 {
		select {
		case n := <-store.parked:
			left -= n
		case <-late:
			t.Errorf("%d of the deliveries to a sink that has taken nothing for a minute are not parked", left)
			left = 0
		}
	}
	end()
}
