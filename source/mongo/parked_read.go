package mongo

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// complete is store.Complete.
func (s *stateStore) complete(ctx context.Context, ps []checkpoint.Parked, lane bool) (out []checkpoint.Parked, again time.Duration, err error) {
	return store.Complete(ctx, ps, lane, func(ctx context.Context, table, id string) ([]*outbox.Message, error) {
		t := s.table(table)
		if t == nil {
			return nil, nil
		}
		return s.readRows(ctx, t, []string{id}, nil)
	})
}
