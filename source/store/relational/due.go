package relational

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// Due implements checkpoint.Store.
func (c *Core) Due(ctx context.Context, q *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	if err := c.Finish(ctx, c.db.UnfinishedMessages); err != nil {
		return nil, 0, err
	}
	sinks := c.WithParked(q.Sinks)
	if len(sinks) == 0 {
		if err := c.db.Prove(ctx); err != nil {
			return nil, 0, c.db.Fault("look for due deliveries", err)
		}
	}
	return store.Due(ctx, c.db, c.Configured(), sinks, q)
}

// Page implements checkpoint.Store.
func (c *Core) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	return store.Page(ctx, c.db, lane, c.Holds.Has(lane), after, limit, bytes)
}

// Whole implements store.ParkedReader.
func (c *Core) Whole(ctx context.Context, refs []store.ParkedRef) ([]checkpoint.Parked, error) {
	keys := make([]checkpoint.Key, len(refs))
	for i := range refs {
		keys[i] = refs[i].Key
	}
	return c.db.ReadKeys(ctx, keys)
}
