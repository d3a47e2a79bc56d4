package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/store"
)

// EachForce implements relational.Statements.
func (s *Store) EachForce(ctx context.Context, on func(id int64, text string) error) error {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT id, in_force::text FROM {request} WHERE pipeline = $1 AND in_force IS NOT NULL
		AND verb IN ('hold', 'pause') ORDER BY id`),
		s.Cfg.Pipeline)
	if err != nil {
		return err
	}
	var id int64
	var text string
	_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error { return on(id, text) })
	return err
}

// SaveForce implements relational.Statements.
func (s *Store) SaveForce(ctx context.Context, id int64, f *store.Force) error {
	_, err := s.Conn.Exec(ctx, s.SQL(`UPDATE {request} SET in_force = nullif($2, '')::json WHERE id = $1`), id, f.JSON())
	return err
}
