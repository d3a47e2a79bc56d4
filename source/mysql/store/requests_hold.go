package store

import (
	"context"

	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// InForce reads what is in force.
func (s *Store) InForce(ctx context.Context) (store.Forces, error) {
	fs := make(store.Forces)
	b := s.Batch()
	b.Each(func(r session.Row) error { return fs.Read(r.Num(0), r.Text(1)) },
		"SELECT id, in_force FROM {request} WHERE pipeline = ? AND in_force IS NOT NULL AND verb IN ('hold', 'pause') ORDER BY id", s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("read holds and pauses", err)
	}
	return fs, nil
}

// saveForce writes what is left of a request's force.
func (s *Store) saveForce(ctx context.Context, id int64, f *store.Force) error {
	b := s.Batch()
	b.Exec("UPDATE {request} SET in_force = ? WHERE id = ?", quote.OrNull(f.JSON()), id)
	return s.Send(ctx, b)
}
