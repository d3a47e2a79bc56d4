package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// inForce reads what is in force.
func (s *store) inForce(ctx context.Context) (sqlstore.Forces, error) {
	rows, err := s.conn.Query(ctx, s.q(`SELECT id, in_force::text FROM {request} WHERE pipeline = $1 AND in_force IS NOT NULL ORDER BY id`),
		s.cfg.Pipeline)
	if err != nil {
		return nil, s.fault("read holds and pauses", err)
	}
	fs, err := collectForces(rows)
	if err != nil {
		return nil, s.fault("read holds and pauses", err)
	}
	return fs, nil
}

func collectForces(rows pgx.Rows) (sqlstore.Forces, error) {
	fs := make(sqlstore.Forces)
	var id int64
	var text string
	_, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		f := &sqlstore.Force{}
		if err := json.Unmarshal([]byte(text), f); err != nil {
			return fmt.Errorf("read in_force of request %d: %w", id, err)
		}
		fs[id] = f
		return nil
	})
	return fs, err
}

// saveForce writes what is left of a request's force.
func (s *store) saveForce(ctx context.Context, id int64, f *sqlstore.Force) error {
	var text any
	if !f.Empty() {
		b, err := json.Marshal(f)
		if err != nil {
			return fmt.Errorf("write in_force of request %d: %w", id, err)
		}
		text = string(b)
	}
	_, err := s.conn.Exec(ctx, s.q(`UPDATE {request} SET in_force = $2 WHERE id = $1`), id, text)
	return err
}

// groups holds or resumes groups. A held lane's first delivery loses its time; a resumed one's is due at once.
func (p *part) groups(ctx context.Context) error {
	all := sqlstore.GroupLanes(p.request, p.result.Next, sqlstore.RequestChunk+1)
	lanes := all
	for i, lane := range all {
		if i == sqlstore.RequestChunk || !slices.Contains(p.lanes, lane) {
			lanes = all[:i]
			break
		}
	}
	fs, err := p.s.inForce(ctx)
	if err != nil {
		return err
	}
	changed := len(lanes)
	if p.request.Verb == checkpoint.VerbHold {
		err = p.hold(ctx, fs, lanes)
	} else {
		changed = fs.Resumed(lanes, p.result)
		err = p.resume(ctx, fs, func(f *sqlstore.Force) bool { return f.Resume(lanes) })
	}
	if err != nil {
		return err
	}
	p.s.held = fs.Held()
	for _, lane := range lanes {
		p.attempt.lanes.Add(lane)
		if lane.Sink == "" {
			for sink := range p.s.sinks {
				p.attempt.lanes.Add(checkpoint.Lane{Sink: sink, Group: lane.Group})
			}
		}
	}
	p.changed += changed
	p.result.Changed += changed
	p.result.Next += len(lanes)
	if p.done = len(lanes) == len(all); p.done && p.result.Changed+p.result.Refused == 0 {
		p.result.Note = "nothing was held"
	}
	return nil
}

// hold adds lanes to what the request has in force.
func (p *part) hold(ctx context.Context, fs sqlstore.Forces, lanes []checkpoint.Lane) error {
	f := fs[p.request.ID]
	if f == nil {
		f = &sqlstore.Force{}
		fs[p.request.ID] = f
	}
	f.Hold(lanes)
	return p.s.saveForce(ctx, p.request.ID, f)
}

// resume takes from what requests have in force, and saves those that take says have changed.
func (p *part) resume(ctx context.Context, fs sqlstore.Forces, take func(*sqlstore.Force) bool) error {
	for id, f := range fs {
		if !take(f) {
			continue
		}
		if err := p.s.saveForce(ctx, id, f); err != nil {
			return err
		}
	}
	return nil
}

// pauseSinks pauses or resumes sinks.
func (p *part) pauseSinks(ctx context.Context) error {
	sinks := slices.Compact(slices.Sorted(slices.Values(p.request.Selection.Sinks)))
	p.changed, p.done = len(sinks), true
	p.result.Changed = len(sinks)
	if p.request.Verb == checkpoint.VerbPause {
		return p.s.saveForce(ctx, p.request.ID, &sqlstore.Force{Sinks: sinks})
	}
	fs, err := p.s.inForce(ctx)
	if err != nil {
		return err
	}
	return p.resume(ctx, fs, func(f *sqlstore.Force) bool { return f.ResumeSinks(sinks) })
}
