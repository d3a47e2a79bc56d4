package mongo

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
)

// force is the field in_force of a request: what of a hold or a pause has not been resumed yet.
type force struct {
	Sinks []string    `bson:"sinks,omitempty"`
	Lanes [][2]string `bson:"lanes,omitempty"` // sink and group; the sink '' is every sink
}

// forces are those of all requests, by id.
type forces map[int64]*force

// inForce reads what is in force.
func (s *store) inForce(ctx context.Context) (forces, error) {
	cur, err := s.requests.Find(ctx, bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "in_force", Value: bson.D{{Key: "$exists", Value: true}}}},
		options.Find().SetProjection(bson.D{{Key: "in_force", Value: 1}}))
	if err != nil {
		return nil, fault("read holds and pauses", err)
	}
	var found []struct {
		ID      int64  `bson:"_id"`
		InForce *force `bson:"in_force"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, fault("read holds and pauses", err)
	}
	fs := make(forces, len(found))
	for _, f := range found {
		if f.InForce != nil {
			fs[f.ID] = f.InForce
		}
	}
	return fs, nil
}

func (fs forces) sinks() []string {
	set := make(map[string]bool)
	for _, f := range fs {
		for _, sink := range f.Sinks {
			set[sink] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (fs forces) held() map[checkpoint.Lane]bool {
	set := make(map[checkpoint.Lane]bool)
	for _, f := range fs {
		for _, l := range f.Lanes {
			set[checkpoint.Lane{Sink: l[0], Group: l[1]}] = true
		}
	}
	return set
}

// saveForce writes what is left of a request's force.
func (s *store) saveForce(ctx context.Context, id int64, f *force) error {
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "in_force", Value: f}}}}
	if len(f.Sinks)+len(f.Lanes) == 0 {
		update = bson.D{{Key: "$unset", Value: bson.D{{Key: "in_force", Value: ""}}}}
	}
	_, err := s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, update)
	return err
}

// groupLanes lists the lanes of a hold or resume from the n-th group on.
func groupLanes(r *checkpoint.Request, from, limit int) []checkpoint.Lane {
	groups := slices.Compact(slices.Sorted(slices.Values(r.Selection.Groups)))
	var lanes []checkpoint.Lane
	for i := from; i < len(groups) && len(lanes) < limit; i++ {
		lanes = append(lanes, checkpoint.Lane{Sink: r.Selection.Sink, Group: groups[i]})
	}
	return lanes
}

// groups holds or resumes groups. A held lane's first delivery loses its time; a resumed one's is due at once.
func (p *part) groups(ctx context.Context) error {
	all := groupLanes(p.request, p.result.Next, requestChunk+1)
	lanes := all
	for i, lane := range all {
		if i == requestChunk || !slices.Contains(p.lanes, lane) {
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
		err = p.resume(ctx, fs, func(f *force) bool {
			n := len(f.Lanes)
			f.Lanes = slices.DeleteFunc(f.Lanes, func(l [2]string) bool {
				return slices.ContainsFunc(lanes, func(lane checkpoint.Lane) bool {
					return lane.Group == l[1] && (lane.Sink == "" || lane.Sink == l[0])
				})
			})
			return len(f.Lanes) < n
		})
	}
	if err != nil {
		return err
	}
	p.s.held = fs.held()
	for _, lane := range lanes {
		p.attempt.lanes.add(lane)
		if lane.Sink == "" {
			for sink := range p.s.sinks {
				p.attempt.lanes.add(checkpoint.Lane{Sink: sink, Group: lane.Group})
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
func (p *part) hold(ctx context.Context, fs forces, lanes []checkpoint.Lane) error {
	f := fs[p.request.ID]
	if f == nil {
		f = &force{}
		fs[p.request.ID] = f
	}
	for _, lane := range lanes {
		f.Lanes = append(f.Lanes, [2]string{lane.Sink, lane.Group})
	}
	return p.s.saveForce(ctx, p.request.ID, f)
}

// resume takes from what requests have in force, and saves those that take says have changed.
func (p *part) resume(ctx context.Context, fs forces, take func(*force) bool) error {
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
		return p.s.saveForce(ctx, p.request.ID, &force{Sinks: sinks})
	}
	fs, err := p.s.inForce(ctx)
	if err != nil {
		return err
	}
	return p.resume(ctx, fs, func(f *force) bool {
		n := len(f.Sinks)
		f.Sinks = slices.DeleteFunc(f.Sinks, func(sink string) bool { return slices.Contains(sinks, sink) })
		return len(f.Sinks) < n
	})
}
