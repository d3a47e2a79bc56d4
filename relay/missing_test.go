package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A table that does not exist is waited for, wherever that is met; a relay whose table stays away ends, each time after a while.
func TestTableAway(t *testing.T) {
	t.Parallel()
	errAway := fmt.Errorf("look up table outbox: %w", source.ErrNoTable)
	for name, test := range map[string]struct {
		// openAgain and readAgain are how often the table is not there; reads is how long it is read in vain before.
		openAgain, readAgain int
		reads                time.Duration
		ends                 bool
	}{
		"start":               {openAgain: 3},
		"log":                 {readAgain: 3},
		"log, after all":      {readAgain: 100, reads: time.Hour}, // a hundred tables made anew, one after the other
		"both":                {openAgain: 2, readAgain: 2},
		"for good":            {openAgain: 1 << 30, ends: true},
		"for good in the log": {readAgain: 1 << 30, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				opens, reads := 0, 0
				src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
					if reads++; reads <= test.readAgain {
						<-time.After(test.reads)
						return errAway
					}
					cancel()
					<-ctx.Done()
					return nil
				}}
				to := answering{func(context.Context, []*sink.Delivery) []error { return nil }}
				r := relayOther(t, src, to, accepting{}, func(c *relay.Config) {
					c.Open = func(context.Context) (checkpoint.Store, error) {
						if opens++; opens <= test.openAgain {
							return nil, errAway
						}
						return accepting{}, nil
					}
				})
				err := r.Run(ctx)
				if errors.Is(err, source.ErrStop) != test.ends {
					t.Errorf("ended with %v", err)
				}
				if took := time.Since(began); test.ends && (took < source.AwayFor || took > 2*source.AwayFor) {
					t.Errorf("ended after %s", took)
				}
			})
		})
	}
}
