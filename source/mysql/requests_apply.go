package mysql

import (
	"context"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// Apply carries out the next part of a request, in one transaction with its progress. It goes through what is selected in
// order, as far as the lanes reach that the caller has quiesced; what lies in others is left for the next call.
func (s *store) Apply(ctx context.Context, r *checkpoint.Request, lanes []checkpoint.Lane) (*checkpoint.Applied, error) {
	if err := sqlstore.Validate(r); err != nil {
		return &checkpoint.Applied{Done: true}, s.closeRequest(ctx, r.ID, &RequestResult{Error: err.Error()})
	}
	out := &checkpoint.Applied{}
	a, err := s.settle(ctx, &checkpoint.Settlement{}, nil, func(ctx context.Context, a *attempt) error {
		*out = checkpoint.Applied{}
		result, done, err := s.progress(ctx, r.ID)
		if err != nil || done {
			out.Done = done
			return err
		}
		p := &part{attempt: a, request: r, result: result, lanes: lanes}
		if err := p.apply(ctx); err != nil {
			return err
		}
		out.Changed, out.Done = p.changed, p.done
		if p.done {
			result.After, result.Next = nil, 0
		}
		b := s.batch()
		queueResult(b, r.ID, result, p.done)
		return s.send(ctx, b)
	})
	if err != nil {
		return nil, err
	}
	for i, state := range a.states {
		lane := a.lanes.Order[i]
		if !slices.Contains(lanes, lane) {
			continue // of the same group at another sink: the caller has not quiesced it
		}
		if state.Blocked || s.isHeld(lane) {
			out.Blocked = append(out.Blocked, lane)
		} else {
			out.Open = append(out.Open, lane)
		}
	}
	return out, nil
}

// A part is what one transaction does of a request.
type part struct {
	*attempt
	request *checkpoint.Request
	result  *RequestResult
	lanes   []checkpoint.Lane
	changed int
	done    bool
}

func (p *part) apply(ctx context.Context) error {
	switch {
	case p.request.Verb == checkpoint.VerbAcceptGap:
		// A start that finds a gap uses such a request up itself, when it saves the new position.
		p.result.Error, p.done = "there is no gap: nothing was accepted", true
		return nil
	case sqlstore.ByGroups(p.request):
		return p.groups(ctx)
	case !sqlstore.Selects(p.request.Verb):
		return p.pauseSinks(ctx)
	}
	c, err := p.s.selectChunk(ctx, p.request, p.result)
	if err != nil {
		return err
	}
	c.Within(p.lanes)
	switch p.request.Verb {
	case checkpoint.VerbReplay:
		err = p.replay(ctx, c.Rows)
	case checkpoint.VerbEdit:
		err = p.edit(ctx, c.Rows)
	case checkpoint.VerbDrop:
		err = p.drop(ctx, c.Rows)
	case checkpoint.VerbSkip:
		err = p.skip(ctx, c.Rows)
	}
	if err != nil {
		return err
	}
	p.result.Changed += p.changed
	if c.Last != nil {
		p.result.After = c.Last
	}
	p.done = c.End
	if p.done && p.result.Changed+p.result.Refused == 0 {
		p.result.Note = "nothing matched"
	}
	return nil
}

// touch adds the deliveries' lanes to those that are put in order, and their messages to those whose row is dealt with. A
// message whose other deliveries are still on their way keeps its row as it is until they are settled.
func (p *part) touch(rows []sqlstore.SelectedRow) {
	for i := range rows {
		r := &rows[i]
		if !r.Alone {
			p.attempt.lanes.Add(r.Lane())
		}
		if r.RowSettled {
			p.message(sqlstore.MessageKey{Table: r.Table, ID: r.ID})
		}
	}
}

// keys are the deliveries as keys.
func keys(rows []sqlstore.SelectedRow) []checkpoint.Key {
	out := make([]checkpoint.Key, len(rows))
	for i := range rows {
		out[i] = checkpoint.Key{Sink: rows[i].Sink, Table: rows[i].Table, ID: rows[i].ID}
	}
	return out
}
