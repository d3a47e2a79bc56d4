package mysql

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// A RequestResult is the column result of tailbox_request: what a request did so far.
type RequestResult = sqlstore.RequestResult

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason.
func (s *store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	var out []checkpoint.Request
	bad := make(map[int64]error)
	b := s.batch()
	b.each(func(r row) error {
		req := checkpoint.Request{ID: r.num(0), Verb: checkpoint.Verb(r.text(1)), Reason: r.text(3), By: r.text(4)}
		if err := json.Unmarshal([]byte(r.text(2)), &req.Selection); err != nil {
			bad[req.ID] = fmt.Errorf("read column selection: %w", err)
		} else if err := sqlstore.Validate(&req); err != nil {
			bad[req.ID] = err
		} else {
			out = append(out, req)
		}
		return nil
	}, "SELECT id, verb, selection, reason, `by` FROM {request} WHERE pipeline = ? AND done_at IS NULL ORDER BY id LIMIT ?",
		s.cfg.Pipeline, sqlstore.RequestsAtOnce)
	if err := s.send(ctx, b); err != nil {
		return nil, s.fault("read requests", err)
	}
	for id, why := range bad {
		if err := s.closeRequest(ctx, id, &RequestResult{Error: why.Error()}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// closeRequest marks a request as done.
func (s *store) closeRequest(ctx context.Context, id int64, result *RequestResult) error {
	err := s.inTx(ctx, func(b *batch) { queueResult(b, id, result, true) })
	if err != nil {
		return s.fault("record a request's result", err)
	}
	return nil
}

// queueResult records what a request did so far.
func queueResult(b *batch, id int64, result *RequestResult, done bool) {
	text, err := json.Marshal(result)
	if err != nil {
		text = []byte(`{}`) // cannot be: texts and numbers alone
	}
	b.exec("UPDATE {request} SET result = ?, done_at = IF(?, UTC_TIMESTAMP(6), NULL) WHERE id = ?", string(text), done, id)
}

// progress reads what a request did so far. Done: nothing is left to do, or the request is gone.
func (s *store) progress(ctx context.Context, id int64) (result *RequestResult, done bool, err error) {
	result, done = &RequestResult{}, true
	b := s.batch()
	b.each(func(r row) error {
		done = r.bool(1)
		if r.null(0) {
			return nil
		}
		if err := json.Unmarshal([]byte(r.text(0)), result); err != nil {
			return fmt.Errorf("read progress of request %d: %w", id, err)
		}
		return nil
	}, "SELECT result, done_at IS NOT NULL FROM {request} WHERE id = ?", id)
	if err := s.send(ctx, b); err != nil {
		return nil, false, s.fault("read a request's progress", err)
	}
	return result, done, nil
}

// Lanes names the lanes that the next Apply will change. A hold or resume that names no sink is about a group at every
// sink: its lane has the sink ”.
func (s *store) Lanes(ctx context.Context, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	if sqlstore.Validate(r) != nil || limit <= 0 {
		return nil, nil
	}
	result, done, err := s.progress(ctx, r.ID)
	if err != nil || done {
		return nil, err
	}
	var lanes []checkpoint.Lane
	seen := make(map[checkpoint.Lane]bool)
	add := func(lane checkpoint.Lane) (room bool) {
		if !seen[lane] {
			if len(lanes) == limit {
				return false
			}
			seen[lane] = true
			lanes = append(lanes, lane)
		}
		return true
	}
	switch {
	case sqlstore.ByGroups(r):
		for _, lane := range sqlstore.GroupLanes(r, result.Next, sqlstore.RequestChunk) {
			if !add(lane) {
				break
			}
		}
	case sqlstore.Selects(r.Verb):
		c, err := s.selectChunk(ctx, r, result)
		if err != nil {
			return nil, err
		}
		for i := range c.Rows {
			if !add(c.Rows[i].Lane()) {
				break
			}
		}
	}
	return lanes, nil
}
