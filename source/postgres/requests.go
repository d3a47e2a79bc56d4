package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
)

const (
	// requestChunk is the most deliveries, or groups, of one transaction.
	requestChunk = 1000
	// requestsAtOnce is how many requests are read at once.
	requestsAtOnce = 100
)

// A RequestResult is the column result of tailbox_request: what a request did so far.
type RequestResult struct {
	// Changed counts deliveries, groups or sinks that were changed; Refused deliveries that were left alone, for the reason
	// in Why.
	Changed int    `json:"changed"`
	Refused int    `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
	// Note is what else there is to say. Error says why the request as a whole was not carried out.
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`
	// NewID is the id that an edit gave the message.
	NewID string `json:"new_id,omitempty"`
	// After is the last delivery that was looked at, Next the number of groups that were dealt with.
	After *parkedKey `json:"after,omitempty"`
	Next  int        `json:"next,omitempty"`
}

// refuse counts a delivery that is left alone.
func (r *RequestResult) refuse(why string) {
	r.Refused++
	r.Why = why
}

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason.
func (s *store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	rows, err := s.conn.Query(ctx, s.q(`SELECT id, verb, selection::text, reason, "by" FROM {request}
		WHERE pipeline = $1 AND done_at IS NULL ORDER BY id LIMIT $2`), s.cfg.Pipeline, requestsAtOnce)
	if err != nil {
		return nil, s.fault("read requests", err)
	}
	var out []checkpoint.Request
	bad := make(map[int64]error)
	var r checkpoint.Request
	var selection string
	if _, err := pgx.ForEachRow(rows, []any{&r.ID, &r.Verb, &selection, &r.Reason, &r.By}, func() error {
		r.Selection = checkpoint.Selection{}
		if err := json.Unmarshal([]byte(selection), &r.Selection); err != nil {
			bad[r.ID] = fmt.Errorf("read column selection: %w", err)
		} else if err := validate(&r); err != nil {
			bad[r.ID] = err
		} else {
			out = append(out, r)
		}
		return nil
	}); err != nil {
		return nil, s.fault("read requests", err)
	}
	for id, why := range bad {
		if err := s.closeRequest(ctx, id, &RequestResult{Error: why.Error()}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// validate tells what is wrong with a request, before anything of it is carried out.
func validate(r *checkpoint.Request) error {
	sel := &r.Selection
	_, atSink := sel.AtSink()
	narrowed := len(sel.IDs) > 0 || len(sel.Groups) > 0 || atSink || sel.Type != "" || sel.Reason != ""
	if sel.Unrouted && (sel.Sink != "" || byGroups(r)) {
		return errors.New("unrouted is about deliveries for which no sink could be chosen: it goes with no sink, and not with hold or resume")
	}
	switch r.Verb {
	case checkpoint.VerbReplay, checkpoint.VerbDrop:
		if !narrowed && !sel.All {
			return errors.New("nothing is selected: name ids, groups, a sink, a type or a reason, or say all")
		}
	case checkpoint.VerbEdit:
		if len(sel.IDs) != 1 || sel.Edit == nil {
			return errors.New("an edit changes one message: name one id, and what to change")
		}
		if sel.Edit.NewID == sel.IDs[0] {
			return errors.New("an edited message needs an id of its own")
		}
	case checkpoint.VerbSkip, checkpoint.VerbHold:
		if len(sel.Groups) == 0 {
			return errors.New("name the groups")
		}
	case checkpoint.VerbResume:
		if len(sel.Groups) == 0 && len(sel.Sinks) == 0 {
			return errors.New("name groups or sinks")
		}
	case checkpoint.VerbPause:
		if len(sel.Sinks) == 0 {
			return errors.New("name the sinks")
		}
	case checkpoint.VerbAcceptGap:
		if sel.From == "" {
			return errors.New("say which gap: from is the checkpoint that was seen, the column resume of tailbox_checkpoint")
		}
	default:
		return fmt.Errorf("there is no verb %q", r.Verb)
	}
	for _, state := range sel.States {
		switch state {
		case checkpoint.StateRetrying, checkpoint.StateWaiting, checkpoint.StateDead:
		default:
			return fmt.Errorf("there is no state %q: want retrying, waiting or dead", state)
		}
	}
	return nil
}

// closeRequest marks a request as done.
func (s *store) closeRequest(ctx context.Context, id int64, result *RequestResult) error {
	return s.noteResult(ctx, id, result, true)
}

// noteResult records what a request did so far.
func (s *store) noteResult(ctx context.Context, id int64, result *RequestResult, done bool) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write result of request %d: %w", id, err)
	}
	if _, err := s.conn.Exec(ctx, s.q(`UPDATE {request} SET result = $2, done_at = CASE WHEN $3 THEN now() END WHERE id = $1`),
		id, string(text), done); err != nil {
		return s.fault("record a request's result", err)
	}
	return nil
}

// progress reads what a request did so far. Done: nothing is left to do, or the request is gone.
func (s *store) progress(ctx context.Context, id int64) (result *RequestResult, done bool, err error) {
	var text *string
	err = s.conn.QueryRow(ctx, s.q(`SELECT result::text, done_at IS NOT NULL FROM {request} WHERE id = $1`), id).Scan(&text, &done)
	if errors.Is(err, pgx.ErrNoRows) {
		return &RequestResult{}, true, nil
	}
	if err != nil {
		return nil, false, s.fault("read a request's progress", err)
	}
	result = &RequestResult{}
	if text != nil {
		if err := json.Unmarshal([]byte(*text), result); err != nil {
			return nil, false, fmt.Errorf("read progress of request %d: %w", id, err)
		}
	}
	return result, done, nil
}

// byGroups tells whether a request is about a list of groups, parked or not, instead of deliveries.
func byGroups(r *checkpoint.Request) bool {
	return r.Verb == checkpoint.VerbHold || r.Verb == checkpoint.VerbResume && len(r.Selection.Sinks) == 0
}

// Lanes names the lanes that the next Apply will change. A hold or resume that names no sink is about a group at every
// sink: its lane has the sink ”.
func (s *store) Lanes(ctx context.Context, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	if validate(r) != nil || limit <= 0 {
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
	case byGroups(r):
		for _, lane := range groupLanes(r, result.Next, requestChunk) {
			if !add(lane) {
				break
			}
		}
	case selects(r.Verb):
		c, err := s.selectChunk(ctx, r, result)
		if err != nil {
			return nil, err
		}
		for i := range c.rows {
			if !add(c.rows[i].lane()) {
				break
			}
		}
	}
	return lanes, nil
}
