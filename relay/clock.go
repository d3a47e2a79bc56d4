package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

const (
	// clockEvery is how often the database's clock is read at least: clocks are set now and then.
	clockEvery = time.Minute
	// readClock warns if the host's and the database's clocks differ by more than apart.
	apart = time.Second
)

// A dbClock estimates the database's clock from the host's. Commit times and delivery times are in the database's time, and the host's clock may be
// off. The zero dbClock assumes that both agree. Its methods take the time as an argument. Not safe for concurrent use.
type dbClock struct {
	ahead  time.Duration // of the host's clock
	unsure time.Duration // how wrong that may be
	readAt time.Time     // by the host's clock; zero: never
}

// read records a reading of the database's clock: it showed the time said, at some moment between asked and answered. A less exact reading (a slower
// one) is ignored unless it contradicts the estimate.
func (c *dbClock) read(asked, said, answered time.Time) {
	unsure := answered.Sub(asked) / 2
	ahead := asked.Add(unsure).Sub(said)
	if c.readAt.IsZero() || unsure < c.unsure || (ahead-c.ahead).Abs() > unsure+c.unsure {
		c.ahead, c.unsure = ahead, unsure
	}
	c.readAt = answered
}

// at is what the database's clock says at a moment of the host's.
func (c *dbClock) at(now time.Time) time.Time { return now.Add(-c.ahead) }

// ping checks that the session lives, and with it the lock. It returns a function that records the database's clock in a dbClock.
func ping(ctx context.Context, store checkpoint.Store) (note func(*dbClock), err error) {
	asked := time.Now()
	said, err := store.Ping(ctx)
	answered := time.Now()
	return func(c *dbClock) {
		if !said.IsZero() {
			c.read(asked, said, answered)
		}
	}, err
}

// readClock reads the database's clock before a term begins.
func (r *Relay) readClock(ctx context.Context, store checkpoint.Store) (clock dbClock, err error) {
	note, err := ping(ctx, store)
	if err != nil {
		return clock, fmt.Errorf("read the database's clock: %w", err)
	}
	if note(&clock); clock.ahead.Abs() > apart {
		r.cfg.Logger.Warn("the clocks of this host and of the database differ: times are taken by the database's",
			"host_ahead", clock.ahead.Round(time.Millisecond))
	}
	return clock, nil
}
