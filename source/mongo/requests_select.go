package mongo

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// scanChunk bounds how many deliveries one transaction looks at for those that a request selects. Among millions of which
// it wants few, it comes back for the rest.
const scanChunk = 5000

func compareKeys(a, b sqlstore.ParkedKey) int {
	return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Position, b.Position),
		cmp.Compare(a.ID, b.ID), cmp.Compare(a.Table, b.Table))
}

func (v *view) parkedKey() sqlstore.ParkedKey {

	return sqlstore.ParkedKey{Sink: v.Sink, Group: v.Group, Position: v.Position, ID: v.ID, Table: v.Table}

}

// A chunk is the next deliveries that a request selects, in order.
type chunk struct {
	rows []*view
	last *sqlstore.ParkedKey // the last one that was looked at
	end  bool                // nothing follows
}

// selectChunk reads the next deliveries that a request selects. Of what it names by more than ids, it reaches only what was there
// when it was asked for.
func (s *store) selectChunk(ctx context.Context, r *checkpoint.Request, done *RequestResult) (*chunk, error) {
	sel := &r.Selection
	after := sqlstore.ParkedKey{Sink: sel.Sink}
	if done.After != nil {
		after = *done.After
	}
	asked, err := s.askedAt(ctx, r)
	if err != nil {
		return nil, err
	}
	var seen []*view
	full := false
	switch {
	case len(sel.IDs) > 0:
		seen, err = s.scanIDs(ctx, sel, after)
	case len(sel.Groups) > 0:
		seen, full, err = s.scanLanes(ctx, s.lanesFrom(sel, after), after)
	default:
		seen, full, err = s.scanAll(ctx, nil, after)
	}
	if err != nil {
		return nil, fault("select deliveries", err)
	}
	c := &chunk{}
	name, limited := sel.AtSink()
	states := sqlstore.StatesOf(r)
	for _, v := range seen {
		key := v.parkedKey()
		c.last = &key
		if (!limited || v.Sink == name) && slices.Contains(states, string(v.State)) && matches(sel, v, asked) && (r.Verb != checkpoint.VerbSkip || v.Blocks) {
			c.rows = append(c.rows, v)
		}
	}
	c.end = !full || limited && c.last.Sink > name
	s.limitChunk(c, sel, done)
	return c, nil
}

// askedAt is when a request was made; the zero time where that does not matter.
func (s *store) askedAt(ctx context.Context, r *checkpoint.Request) (time.Time, error) {
	if len(r.Selection.IDs) > 0 || r.ID == 0 {
		return time.Time{}, nil
	}
	var found []requestDocument
	cur, err := s.requests.Find(ctx, bson.D{{Key: "_id", Value: r.ID}}, options.Find().SetProjection(bson.D{{Key: "requested_at", Value: 1}}))
	if err == nil {
		err = cur.All(ctx, &found)
	}
	if err != nil || len(found) == 0 {
		return time.Time{}, fault("look a request up", err)
	}
	return orZero(found[0].RequestedAt), nil
}

// matches tells whether a delivery is among those that a selection narrows down to.
func matches(sel *checkpoint.Selection, v *view, asked time.Time) bool {
	since := v.ParkedAt
	if v.State == checkpoint.StateDead {
		since = v.ChangedAt
	}
	switch {
	case !asked.IsZero() && since.After(asked):
		return false
	case sel.Type != "" && !glob(sel.Type, v.Type):
		return false
	}
	return sel.Reason == "" || glob(sel.Reason, v.LastError) || glob(sel.Reason, v.ErrorClass)
}

// glob matches * and ?, and nothing else.
func glob(pattern, text string) bool {
	const slash = "\u0001" // * does not pass a slash in package path
	pattern = strings.NewReplacer(`\`, `\\`, "[", `\[`, "/", slash).Replace(pattern)
	ok, err := path.Match(pattern, strings.ReplaceAll(text, "/", slash))
	return err == nil && ok
}

// limitChunk cuts a chunk to one transaction, and to what the request's limit leaves.
func (s *store) limitChunk(c *chunk, sel *checkpoint.Selection, done *RequestResult) {
	room := sqlstore.RequestChunk
	if sel.Limit > 0 {
		left := sel.Limit - done.Changed
		if left <= 0 {
			*c = chunk{end: true}
			return
		}
		room = min(room, left)
	}
	if len(c.rows) > room {
		c.cut(room)
	}
}

// cut leaves the first n rows; the others are for a later transaction.
func (c *chunk) cut(n int) {
	c.rows, c.end, c.last = c.rows[:n], false, nil
	if n > 0 {
		key := c.rows[n-1].parkedKey()
		c.last = &key
	}
}

// within cuts the chunk before the first delivery that is of none of the lanes.
func (c *chunk) within(lanes []checkpoint.Lane) {
	allowed := make(map[checkpoint.Lane]bool, len(lanes))
	for _, lane := range lanes {
		allowed[lane] = true
	}
	for i, v := range c.rows {
		if !allowed[v.lane()] {
			c.cut(i)
			return
		}
	}
}

// scanAll reads deliveries in order, after a place: of one lane, or all. Each is under one of the two values of blocks in the
// index.
func (s *store) scanAll(ctx context.Context, lane *checkpoint.Lane, after sqlstore.ParkedKey) (seen []*view, full bool, err error) {
	for _, blocks := range []bool{true, false} {
		from := bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "blocks", Value: blocks}, {Key: "sink", Value: after.Sink},
			{Key: "message_group", Value: after.Group}, {Key: "position", Value: after.Position}, {Key: "message_id", Value: after.ID},
			{Key: "source_table", Value: after.Table}, {Key: "state", Value: bson.MaxKey{}}}
		to := bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "blocks", Value: blocks}}
		if lane != nil {
			to = append(to, bson.E{Key: "sink", Value: lane.Sink}, bson.E{Key: "message_group", Value: lane.Group})
		}
		for _, e := range from[len(to):] {
			to = append(to, bson.E{Key: e.Key, Value: bson.MaxKey{}})
		}
		cur, err := s.parked.Find(ctx, bson.D{}, options.Find().SetHint(laneIndex).SetMin(from).SetMax(to).SetLimit(scanChunk).SetProjection(viewFields()))
		if err != nil {
			return nil, false, err
		}
		var found []*view
		if err := cur.All(ctx, &found); err != nil {
			return nil, false, err
		}
		seen, full = append(seen, found...), full || len(found) == scanChunk
	}
	slices.SortFunc(seen, func(a, b *view) int { return compareKeys(a.parkedKey(), b.parkedKey()) })
	if len(seen) > scanChunk {
		seen, full = seen[:scanChunk], true
	}
	return seen, full, nil
}

// scanLanes goes through lanes.
func (s *store) scanLanes(ctx context.Context, lanes []checkpoint.Lane, after sqlstore.ParkedKey) (seen []*view, full bool, err error) {
	for _, lane := range lanes {
		from := sqlstore.ParkedKey{Sink: lane.Sink, Group: lane.Group}
		if compareKeys(after, from) > 0 {
			from = after
		}
		found, more, err := s.scanAll(ctx, &lane, from)
		if err != nil {
			return nil, false, err
		}
		if seen = append(seen, found...); more || len(seen) >= scanChunk {
			return seen, true, nil
		}
	}
	return seen, false, nil
}

// scanIDs looks messages up, by the id of their document or the one that an edit gave them.
func (s *store) scanIDs(ctx context.Context, sel *checkpoint.Selection, after sqlstore.ParkedKey) ([]*view, error) {
	var seen []*view
	known := make(map[bson.ObjectID]bool)
	for field, index := range map[string]string{"message_id": messageIndex, "sent_id": sentIndex} {
		cur, err := s.parked.Find(ctx, s.ours(bson.E{Key: field, Value: bson.D{{Key: "$in", Value: sel.IDs}}}), options.Find().SetProjection(viewFields()).SetHint(index))
		if err != nil {
			return nil, err
		}
		var found []*view
		if err := cur.All(ctx, &found); err != nil {
			return nil, err
		}
		for _, v := range found {
			if !known[v.OID] && compareKeys(v.parkedKey(), after) > 0 && (len(sel.Groups) == 0 || slices.Contains(sel.Groups, v.Group)) {
				known[v.OID] = true
				seen = append(seen, v)
			}
		}
	}
	slices.SortFunc(seen, func(a, b *view) int { return compareKeys(a.parkedKey(), b.parkedKey()) })
	return seen, nil
}

// lanesFrom lists the next of the lanes that a selection of groups can be in, from the one of after on.
func (s *store) lanesFrom(sel *checkpoint.Selection, after sqlstore.ParkedKey) []checkpoint.Lane {
	sinks, groups := sqlstore.LanesFrom(sel, after, s.sinks)
	lanes := make([]checkpoint.Lane, len(sinks))
	for i := range sinks {
		lanes[i] = checkpoint.Lane{Sink: sinks[i], Group: groups[i]}
	}
	return lanes
}
