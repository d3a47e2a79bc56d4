package mongo

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// inForce reads what is in force.
func (s *store) inForce(ctx context.Context) (sqlstore.Forces, error) {
	cur, err := s.requests.Find(ctx, bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "in_force", Value: bson.D{{Key: "$exists", Value: true}}}},
		options.Find().SetProjection(bson.D{{Key: "in_force", Value: 1}}))
	if err != nil {
		return nil, fault("read holds and pauses", err)
	}
	var found []struct {
		ID      int64    `bson:"_id"`
		InForce bson.Raw `bson:"in_force"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, fault("read holds and pauses", err)
	}
	fs := make(sqlstore.Forces, len(found))
	for _, f := range found {
		fs[f.ID] = &sqlstore.Force{}
		if err := valueFrom(f.InForce, fs[f.ID]); err != nil {
			return nil, fmt.Errorf("read in_force of request %d: %w", f.ID, err)
		}
	}
	return fs, nil
}

// saveForce writes what is left of a request's force.
func (s *store) saveForce(ctx context.Context, id int64, f *sqlstore.Force) error {
	doc, err := documentOf(f)
	if err != nil {
		return fmt.Errorf("write in_force of request %d: %w", id, err)
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "in_force", Value: doc}}}}
	if f.Empty() {
		update = bson.D{{Key: "$unset", Value: bson.D{{Key: "in_force", Value: ""}}}}
	}
	_, err = s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, update)
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
		p.attempt.lanes.add(lane)
		if lane.Sink == "" {
			for sink := range p.s.sinks {
				p.attempt.lanes.add(checkpoint.Lane{Sink: sink, Group: lane.Group})
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
