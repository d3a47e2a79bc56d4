package mongo

import (
	"context"
	"maps"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// Apply carries out the next part of a request, in one transaction with its progress. It goes through what is selected in
// order, as far as the lanes reach that the caller has quiesced; what lies in others is left for the next call.
func (s *store) Apply(ctx context.Context, r *checkpoint.Request, lanes []checkpoint.Lane) (*checkpoint.Applied, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := sqlstore.Validate(r); err != nil {
		return &checkpoint.Applied{Done: true}, s.noteResult(ctx, r.ID, &RequestResult{Error: err.Error()}, true)
	}
	out := &checkpoint.Applied{}
	before := maps.Clone(s.held)
	a, err := s.settle(ctx, &checkpoint.Settlement{}, nil, func(ctx context.Context, a *attempt) error {
		*out = checkpoint.Applied{}
		s.held = maps.Clone(before) // the transaction may run again
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
		return s.noteResult(ctx, r.ID, result, p.done)
	})
	if err != nil {
		return nil, err
	}
	for _, lane := range a.lanes.order {
		if !slices.Contains(lanes, lane) {
			continue // of the same group at another sink: the caller has not quiesced it
		}
		if a.states[lane].blocked || s.isHeld(lane) {
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
	c.within(p.lanes)
	switch p.request.Verb {
	case checkpoint.VerbReplay:
		err = p.replay(ctx, c.rows)
	case checkpoint.VerbEdit:
		err = p.edit(ctx, c.rows)
	case checkpoint.VerbDrop:
		err = p.drop(ctx, c.rows)
	case checkpoint.VerbSkip:
		err = p.skip(ctx, c.rows)
	}
	if err != nil {
		return err
	}
	p.result.Changed += p.changed
	if c.last != nil {
		p.result.After = c.last
	}
	p.done = c.end
	if p.done && p.result.Changed+p.result.Refused == 0 {
		p.result.Note = "nothing matched"
	}
	return nil
}

// touch adds the deliveries' lanes to those that are put in order, and their messages to those whose row is dealt with. A
// message whose other deliveries are still on their way keeps its row as it is until they are settled.
func (p *part) touch(rows []*view) {
	for _, r := range rows {
		if !r.Alone {
			p.attempt.lanes.add(r.lane())
		}
		if r.RowSettled {
			p.message(r.messageKey()).stale = true
		}
	}
}
