package relay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A relay that is far behind gathers messages for a sink that takes one call at a time for a destination, because many small calls cost the sink. It
// does not gather if more destinations wait than calls may be made, because that only holds them up, and not if the relay is in time.
func TestGathers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age         time.Duration
		topics      int
		ahead       time.Duration // of the host's clock
		most, least int           // calls for 1000 messages within a second
	}{
		"in time":                        {0, 1, 0, 1000, 1000},
		"in time, ahead of the database": {time.Hour, 1, time.Hour, 1000, 1000},
		"far behind":                     {time.Hour, 1, 0, 25, 15},
		"many destinations":              {time.Hour, 20, 0, 1000, 150},
		"as many as calls take":          {time.Hour, 4, 0, 100, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls, taken atomic.Int64
				done := make(chan struct{})
				to := gathering{bounded{answering{func(ctx context.Context, ds []*sink.Delivery) []error {
					calls.Add(1)
					if c.topics > 4 {
						if err := until(ctx, 20*time.Millisecond); err != nil {
							return []error{sink.NotAttempted(err)}
						}
					}
					if taken.Add(int64(len(ds))) == 1000 {
						close(done)
					}
					return nil
				}}, sink.Limits{Batch: 10_000, Run: 10_000, Concurrency: 4, PerDestination: 1}}}
				src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
					for i := range 1000 {
						b := messages(1)
						b.Resume = source.Resume(fmt.Sprint(i + 1))
						m := b.Messages[0]
						m.ID, m.Group, m.Type = fmt.Sprint(i), fmt.Sprint("order:", i), fmt.Sprint("T", i%c.topics)
						m.CommitTime, m.Position.Commit = time.Now().Add(-c.age), uint64(i+1)
						if err := emit(ctx, b); err != nil {
							return err
						}
						if err := until(ctx, time.Millisecond); err != nil {
							return nil
						}
					}
					<-ctx.Done()
					return nil
				}}
				runUntil(t, relayWith(t, src, to, &shelf{ahead: c.ahead}, 0), done, time.Minute, "everything is delivered")
				if n := int(calls.Load()); n < c.least || n > c.most {
					t.Errorf("%d calls, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// gathering is a sink whose topics are destinations.
type gathering struct{ bounded }

func (gathering) Destination(d *sink.Delivery) sink.Destination {
	return sink.Destination{Name: d.Topic}
}
