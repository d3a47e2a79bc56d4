package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// byTopic is a sink whose topics are destinations.
type byTopic struct{ answering }

func (byTopic) Destination(d *sink.Delivery) sink.Destination { return sink.Destination{Name: d.Topic} }

// noting is a store that notes what is parked.
type noting struct {
	accepting
	parked chan checkpoint.Parked
}

func (n noting) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	for i := range s.Park {
		n.parked <- s.Park[i]
	}
	return &checkpoint.Settled{Saved: s.Checkpoint(nil) != nil}, nil
}

// TestPausedDestinationSaysWhy: an operator sees at the first delivery of each lane why it is parked.
func TestPausedDestinationSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := noting{parked: make(chan checkpoint.Parked, 100)}
		to := byTopic{answering{func(_ context.Context, ds []*sink.Delivery) []error {
			return []error{sink.Misconfigured(errors.New("unknown topic"))}
		}}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			if err := emit(ctx, messages(3)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		end := started(t, relayWith(t, src, to, store, 0))
		for range 3 {
			select {
			case p := <-store.parked:
				if p.ErrorClass != "misconfigured" || p.LastError != "unknown topic" || p.Attempts != 1 || p.State != checkpoint.StateRetrying {
					t.Errorf("parked %s as %s after %d attempts: %s %q, want retrying after 1: misconfigured \"unknown topic\"",
						p.Message.ID, p.State, p.Attempts, p.ErrorClass, p.LastError)
				}
			case <-time.After(time.Minute):
				t.Fatal("nothing is parked")
			}
		}
		end()
	})
}
