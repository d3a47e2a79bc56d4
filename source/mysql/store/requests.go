package store

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason.
func (s *Store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	var list store.RequestList
	b := s.Batch()
	b.Each(func(r session.Row) error {
		list.Add(checkpoint.Request{ID: r.Num(0), Verb: checkpoint.Verb(r.Text(1)), Reason: r.Text(3), By: r.Text(4)}, r.Text(2))
		return nil
	}, "SELECT id, verb, selection, reason, `by` FROM {request} WHERE pipeline = ? AND done_at IS NULL ORDER BY id LIMIT ?",
		s.Config.Pipeline, store.RequestsAtOnce)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("read requests", err)
	}
	return list.Open(ctx, s)
}

// CloseRequest implements store.Requests.
func (s *Store) CloseRequest(ctx context.Context, id int64, result *store.RequestResult) error {
	err := s.InTx(ctx, func(b *session.Batch) { queueResult(b, id, result, true) })
	if err != nil {
		return server.Fault("record a request's result", err)
	}
	return nil
}

// Record implements relational.Statements.
func (s *Store) Record(ctx context.Context, id int64, result *store.RequestResult, done bool) error {
	b := s.Batch()
	queueResult(b, id, result, done)
	return s.Send(ctx, b)
}

// queueResult records what a request did so far.
func queueResult(b *session.Batch, id int64, result *store.RequestResult, done bool) {
	b.Exec("UPDATE {request} SET result = ?, done_at = IF(?, UTC_TIMESTAMP(6), NULL) WHERE id = ?", result.JSON(), done, id)
}

// Progress implements store.Requests.
func (s *Store) Progress(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error) {
	result, done = &store.RequestResult{}, true
	b := s.Batch()
	b.Each(func(r session.Row) (err error) {
		done = r.Bool(1)
		result, err = store.ReadResult(id, r.TextOrNil(0))
		return err
	}, "SELECT result, done_at IS NOT NULL FROM {request} WHERE id = ?", id)
	if err := s.Send(ctx, b); err != nil {
		return nil, false, server.Fault("read a request's progress", err)
	}
	return result, done, nil
}

// Refusal implements store.Requests.
func (s *Store) Refusal(err error) string { return server.Refusal(err) }

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
