package store

import (
	"context"

	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// EachForce implements relational.Statements.
func (s *Store) EachForce(ctx context.Context, on func(id int64, text string) error) error {
	b := s.Batch()
	b.Each(func(r session.Row) error { return on(r.Num(0), r.Text(1)) },
		"SELECT id, in_force FROM {request} WHERE pipeline = ? AND in_force IS NOT NULL AND verb IN ('hold', 'pause') ORDER BY id", s.Config.Pipeline)
	return s.Send(ctx, b)
}

// SaveForce implements relational.Statements.
func (s *Store) SaveForce(ctx context.Context, id int64, f *store.Force) error {
	b := s.Batch()
	b.Exec("UPDATE {request} SET in_force = ? WHERE id = ?", quote.OrNull(f.JSON()), id)
	return s.Send(ctx, b)
}
