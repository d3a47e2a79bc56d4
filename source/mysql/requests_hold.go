package mysql

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/source/store"
)

// inForce reads what is in force.
func (s *stateStore) inForce(ctx context.Context) (store.Forces, error) {
	fs := make(store.Forces)
	b := s.batch()
	b.each(func(r row) error {
		f := &store.Force{}
		if err := json.Unmarshal([]byte(r.text(1)), f); err != nil {
			return fmt.Errorf("read in_force of request %d: %w", r.num(0), err)
		}
		fs[r.num(0)] = f
		return nil
	}, "SELECT id, in_force FROM {request} WHERE pipeline = ? AND in_force IS NOT NULL AND verb IN ('hold', 'pause') ORDER BY id", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return nil, s.fault("read holds and pauses", err)
	}
	return fs, nil
}

// saveForce writes what is left of a request's force.
func (s *stateStore) saveForce(ctx context.Context, id int64, f *store.Force) error {
	var text any
	if !f.Empty() {
		b, err := json.Marshal(f)
		if err != nil {
			return fmt.Errorf("write in_force of request %d: %w", id, err)
		}
		text = string(b)
	}
	b := s.batch()
	b.exec("UPDATE {request} SET in_force = ? WHERE id = ?", text, id)
	return s.send(ctx, b)
}
