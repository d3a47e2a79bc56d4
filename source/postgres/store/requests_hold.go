package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/store"
)

// InForce reads what is in force.
func (s *Store) InForce(ctx context.Context) (store.Forces, error) {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT id, in_force::text FROM {request} WHERE pipeline = $1 AND in_force IS NOT NULL
		AND verb IN ('hold', 'pause') ORDER BY id`),
		s.Cfg.Pipeline)
	if err != nil {
		return nil, s.Fault("read holds and pauses", err)
	}
	fs, err := collectForces(rows)
	if err != nil {
		return nil, s.Fault("read holds and pauses", err)
	}
	return fs, nil
}

func collectForces(rows pgx.Rows) (store.Forces, error) {
	fs := make(store.Forces)
	var id int64
	var text string
	_, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error { return fs.Read(id, text) })
	return fs, err
}

// saveForce writes what is left of a request's force.
func (s *Store) saveForce(ctx context.Context, id int64, f *store.Force) error {
	_, err := s.Conn.Exec(ctx, s.SQL(`UPDATE {request} SET in_force = nullif($2, '')::json WHERE id = $1`), id, f.JSON())
	return err
}
