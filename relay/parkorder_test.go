package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// What is parked for a sink that has gone out is parked in the order of the log over all its lanes, so that what is settled is not
// scattered over it: settled_above is bounded, and at its bound no sink gets anything.
func TestParksInLogOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lanes, all = 100, 10_000
		var parked, settlements int
		done := make(chan struct{})
		store := &shelf{settle: func(in *checkpoint.Settlement) *checkpoint.Settled {
			if len(in.Park) == 0 {
				return saved(in)
			}
			settlements++
			for i := range in.Park {
				n := int(in.Park[i].Message.Position.N)
				if n < parked || n >= parked+len(in.Park) {
					t.Errorf("settlement %d parks message %d, want those from %d to %d", settlements, n, parked, parked+len(in.Park)-1)
					break
				}
			}
			if parked += len(in.Park); parked == all {
				close(done)
			}
			return saved(in)
		}}
		to := answering{func(context.Context, []*sink.Delivery) []error {
			return []error{sink.Throttled(errors.New("busy"), time.Hour)}
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			b := messages(all)
			for i, m := range b.Messages {
				m.Group = fmt.Sprint("order:", i%lanes)
			}
			if err := emit(ctx, b); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		runUntil(t, relayWithin(t, 1<<30, src, to, store, 0), done, time.Minute, "everything is parked")
		if settlements < 3 {
			t.Errorf("parked by %d settlements, want several", settlements)
		}
	})
}
