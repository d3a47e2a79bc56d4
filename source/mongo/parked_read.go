package mongo

import (
	"context"

	"github.com/tailbox/tailbox/outbox"
)

// ReadRow implements store.ParkedReader.
func (s *stateStore) ReadRow(ctx context.Context, table, id string) ([]*outbox.Message, error) {
	t := s.table(table)
	if t == nil {
		return nil, nil
	}
	return s.readRows(ctx, t, []string{id}, nil)
}
