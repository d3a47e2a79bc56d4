package mysql

import (
	"context"

	"github.com/tailbox/tailbox/source/store"
)

// inForce reads what is in force.
func (s *stateStore) inForce(ctx context.Context) (store.Forces, error) {
	fs := make(store.Forces)
	b := s.batch()
	b.each(func(r row) error { return fs.Read(r.num(0), r.text(1)) },
		"SELECT id, in_force FROM {request} WHERE pipeline = ? AND in_force IS NOT NULL AND verb IN ('hold', 'pause') ORDER BY id", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("read holds and pauses", err)
	}
	return fs, nil
}

// saveForce writes what is left of a request's force.
func (s *stateStore) saveForce(ctx context.Context, id int64, f *store.Force) error {
	b := s.batch()
	b.exec("UPDATE {request} SET in_force = ? WHERE id = ?", orNull(f.JSON()), id)
	return s.send(ctx, b)
}
