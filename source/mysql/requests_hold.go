package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// inForce reads what is in force.
func (s *store) inForce(ctx context.Context) (sqlstore.Forces, error) {
	fs := make(sqlstore.Forces)
	b := s.batch()
	b.each(func(r row) error {
		f := &sqlstore.Force{}
		if err := json.Unmarshal([]byte(r.text(1)), f); err != nil {
			return fmt.Errorf("read in_force of request %d: %w", r.num(0), err)
		}
		fs[r.num(0)] = f
		return nil
	}, "SELECT id, in_force FROM {request} WHERE pipeline = ? AND in_force IS NOT NULL ORDER BY id", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return nil, s.fault("read holds and pauses", err)
	}
	return fs, nil
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
	b := s.batch()
	b.exec("UPDATE {request} SET in_force = ? WHERE id = ?", text, id)
	return s.send(ctx, b)
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
	if p.request.Verb == checkpoint.VerbHold {
		err = p.hold(ctx, fs, lanes)
	} else {
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
	p.changed += len(lanes)
	p.result.Changed += len(lanes)
	p.result.Next += len(lanes)
	p.done = len(lanes) == len(all)
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
