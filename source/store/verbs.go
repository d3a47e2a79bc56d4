package store

import (
	"context"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// Present are rows of the users' tables as they are now, as messages.
type Present map[MessageKey]*outbox.Message

// A Rewritten is a delivery that carries something else from now on.
type Rewritten struct {
	Row    SelectedRow
	Parked *checkpoint.Parked
}

// replay makes deliveries wait for their turn again, with no attempt spent. If a delivery's group has gone on without it, it is delivered out of
// order; the operator has to allow that.
func (p *requestStep) replay(ctx context.Context, rows []SelectedRow) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r SelectedRow) bool {
		passed := r.State == checkpoint.StateDead && !r.Blocks && !r.Alone && !p.request.Selection.AllowReorder
		if passed {
			p.result.Refuse("the group went on, and later messages of it may have been delivered already: to deliver out of order, replay with --allow-reorder")
		}
		return passed
	})
	if p.request.Selection.Refresh {
		var err error
		if rows, err = p.refresh(ctx, rows); err != nil {
			return err
		}
	}
	p.touch(rows)
	return p.replayed(ctx, rows)
}

// drop gives deliveries up. They stay, not blocking, until their whole message is settled, so that a sweep leaves them out.
func (p *requestStep) drop(ctx context.Context, rows []SelectedRow) error {
	p.touch(rows)
	why := "dropped"
	if p.request.Reason != "" {
		why += ": " + p.request.Reason
	}
	return p.Drop(ctx, rows, ErrorText(why))
}

// skip lets lanes go on past dead deliveries. If the first delivery of a lane is retrying, skip makes it dead, too. A retrying delivery that is not
// the first is left alone, because nothing waits for it.
func (p *requestStep) skip(ctx context.Context, rows []SelectedRow) error {
	var lanes LaneSet
	for i := range rows {
		if rows[i].State == checkpoint.StateRetrying {
			lanes.Add(rows[i].Lane())
		}
	}
	if len(lanes.Order) > 0 {
		heads, err := p.Heads(ctx, lanes.Order)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(slices.Clone(rows), func(r SelectedRow) bool {
			head := heads[r.Lane()]
			return r.State == checkpoint.StateRetrying && (head == nil || head.Key != r.Key())
		})
	}
	p.touch(rows)
	a, _ := p.Scope()
	for i := range rows {
		if r := &rows[i]; r.State == checkpoint.StateRetrying {
			a.Superseded = append(a.Superseded, r.Key())
		}
	}
	return p.Skip(ctx, rows)
}

// replayed makes deliveries wait for their turn again. They may come before the first ones of their lanes.
func (p *requestStep) replayed(ctx context.Context, rows []SelectedRow) error {
	if len(rows) == 0 {
		return nil
	}
	a, _ := p.Scope()
	var err error
	if a.Lanes.Before, err = p.Heads(ctx, a.Lanes.Touched.Order); err != nil {
		return err
	}
	return p.Replay(ctx, rows)
}

// refresh puts what the rows of the user's table say now in the place of what was copied. Rows that are not pending (any
// more) are refused.
func (p *requestStep) refresh(ctx context.Context, rows []SelectedRow) ([]SelectedRow, error) {
	old, err := p.ReadParked(ctx, rows)
	if err != nil {
		return nil, err
	}
	fresh, err := p.ReadPending(ctx, rows)
	if err != nil {
		return nil, err
	}
	var changed []Rewritten
	var kept []SelectedRow
	for _, r := range rows {
		m, parked := fresh[MessageKey{Table: r.Table, ID: r.ID}], old[r.ParkedKey]
		if m == nil || parked == nil {
			p.result.Refuse("the " + p.RowWord() + " is not pending any more")
			continue
		}
		parked.Message = WithPresentContent(parked.Message, m)
		parked.InTable = m.Fault != nil
		changed, kept = append(changed, Rewritten{r, parked}), append(kept, r)
	}
	return kept, p.Rewrite(ctx, changed)
}

// edit changes what deliveries carry, gives them a new id, and replays them. The row's own id stays their identity here.
func (p *requestStep) edit(ctx context.Context, rows []SelectedRow) error {
	old, err := p.ReadParked(ctx, rows)
	if err != nil {
		return err
	}
	edit := p.request.Selection.Edit
	if p.result.NewID == "" {
		if p.result.NewID = edit.NewID; p.result.NewID == "" {
			p.result.NewID = NewUUID()
		}
	}
	var changed []Rewritten
	var kept []SelectedRow
	for _, r := range rows {
		parked := old[r.ParkedKey]
		switch {
		case parked == nil:
			continue
		case !r.Blocks && !r.Alone && !p.request.Selection.AllowReorder:
			p.result.Refuse("the group went on, and later messages of it may have been delivered already: to deliver out of order, edit with --allow-reorder")
			continue
		case parked.InTable && edit.Payload == nil:
			p.result.Refuse("the message was not copied as a whole: give the edit a payload, or mend the " + p.RowWord() + " and replay it")
			continue
		}
		parked.Original = parked.RowID()
		parked.Message = Edited(parked.Message, edit)
		parked.Message.ID, parked.InTable = p.result.NewID, false
		if why := p.Unsupported(parked); why != "" {
			p.result.Refuse(why)
			continue
		}
		changed, kept = append(changed, Rewritten{r, parked}), append(kept, r)
	}
	if err := p.Rewrite(ctx, changed); err != nil {
		return err
	}
	p.touch(kept)
	return p.replayed(ctx, kept)
}

// Add adds rows of one table, by id.
func (p Present) Add(table string, rows []*outbox.Message) {
	for _, m := range rows {
		p[MessageKey{Table: table, ID: m.ID}] = m
	}
}

// IDsOf are the ids of those rows that are of one table.
func IDsOf(rows []SelectedRow, table string) (ids []string) {
	for i := range rows {
		if rows[i].Table == table {
			ids = append(ids, rows[i].ID)
		}
	}
	return ids
}
