package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/store"
)

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason. While others hold a
// lock on the table, Requests returns none: only requests wait for that lock, nothing else.
func (s *Store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	if s.locks.requests {
		if err := s.locks.lookAtRequests(ctx, s.Names.Request); err != nil || s.locks.requests {
			return nil, err
		}
	}
	rs, err := s.openRequests(ctx)
	if err == nil && len(rs) == 0 {
		return nil, nil
	}
	if err != nil && pgerr.State(err) != pgerr.LockNotAvailable {
		return nil, err
	}
	// The relay also writes to the table of requests, so a lock that only keeps it from writing counts, too. If the lock that the query met is gone
	// by now, that is no error: the next look finds the requests.
	if lerr := s.locks.lookAtRequests(ctx, s.Names.Request); lerr != nil || s.locks.requests || err != nil {
		return nil, lerr
	}
	return rs, nil
}

// openRequests reads what is not done.
func (s *Store) openRequests(ctx context.Context) ([]checkpoint.Request, error) {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT id, verb, selection::text, reason, "by" FROM {request}
		WHERE pipeline = $1 AND done_at IS NULL ORDER BY id LIMIT $2`), s.Cfg.Pipeline, store.RequestsAtOnce)
	if err != nil {
		return nil, s.Fault("read requests", err)
	}
	var list store.RequestList
	var r checkpoint.Request
	var selection string
	if _, err := pgx.ForEachRow(rows, []any{&r.ID, &r.Verb, &selection, &r.Reason, &r.By}, func() error {
		list.Add(r, selection)
		return nil
	}); err != nil {
		return nil, s.Fault("read requests", err)
	}
	return list.Open(ctx, s)
}

// CloseRequest implements store.Requests.
func (s *Store) CloseRequest(ctx context.Context, id int64, result *store.RequestResult) error {
	return s.Record(ctx, id, result, true)
}

// Record implements relational.Statements.
func (s *Store) Record(ctx context.Context, id int64, result *store.RequestResult, done bool) error {
	fitting := *result
	fitting.Why, fitting.Note, fitting.Error = s.encoding.Fit(result.Why), s.encoding.Fit(result.Note), s.encoding.Fit(result.Error)
	if _, err := s.Conn.Exec(ctx, s.SQL(`UPDATE {request} SET result = $2, done_at = CASE WHEN $3 THEN now() END WHERE id = $1`),
		id, fitting.JSON(), done); err != nil {
		return s.Fault("record a request's result", err)
	}
	return nil
}

// Progress implements store.Requests.
func (s *Store) Progress(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error) {
	var text *string
	err = s.Conn.QueryRow(ctx, s.SQL(`SELECT result::text, done_at IS NOT NULL FROM {request} WHERE id = $1`), id).Scan(&text, &done)
	if errors.Is(err, pgx.ErrNoRows) {
		return &store.RequestResult{}, true, nil
	}
	if err != nil {
		return nil, false, s.Fault("read a request's progress", err)
	}
	result, err = store.ReadResult(id, text)
	return result, done, err
}

// Refusal implements store.Requests.
func (s *Store) Refusal(err error) string { return pgerr.Refusal(err) }

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
