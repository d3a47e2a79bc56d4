package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// A RequestResult is the field result of tailbox_request: what a request did so far.
type RequestResult = sqlstore.RequestResult

// A requestDocument is a document of tailbox_request.
type requestDocument struct {
	ID          int64           `bson:"_id"`
	Verb        string          `bson:"verb"`
	Selection   bson.Raw        `bson:"selection"`
	Reason      string          `bson:"reason"`
	By          string          `bson:"by"`
	RequestedAt *time.Time      `bson:"requested_at"`
	DoneAt      *time.Time      `bson:"done_at"`
	Result      bson.Raw        `bson:"result"`
	InForce     *sqlstore.Force `bson:"in_force"`
}

// openRequests is the filter for what is not done.
func (s *store) openRequests() bson.D {
	return bson.D{{Key: "pipeline", Value: s.cfg.Pipeline}, {Key: "done_at", Value: nil}}
}

// Requests returns what is not done, in order. One that cannot be read (somebody wrote it by hand) is closed with the reason.
func (s *store) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	cur, err := s.requests.Find(ctx, s.openRequests(), options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(sqlstore.RequestsAtOnce))
	if err != nil {
		return nil, fault("read requests", err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	var out []checkpoint.Request
	type broken struct {
		id  bson.RawValue
		why error
	}
	var closing []broken
	for cur.Next(ctx) {
		r, err := readRequest(cur.Current)
		if err != nil {
			id := cur.Current.Lookup("_id")
			id.Value = slices.Clone(id.Value)
			closing = append(closing, broken{id, err})
			continue
		}
		out = append(out, *r)
	}
	if err := cur.Err(); err != nil {
		return nil, fault("read requests", err)
	}
	for _, b := range closing {
		if err := s.noteResult(ctx, b.id, &RequestResult{Error: b.why.Error()}, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readRequest reads and checks a request.
func readRequest(raw bson.Raw) (*checkpoint.Request, error) {
	var doc requestDocument
	if err := bson.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	r := &checkpoint.Request{ID: doc.ID, Verb: checkpoint.Verb(doc.Verb), Reason: doc.Reason, By: doc.By}
	if err := valueFrom(doc.Selection, &r.Selection); err != nil {
		return nil, fmt.Errorf("read field selection: %w", err)
	}
	return r, sqlstore.Validate(r)
}

// noteResult records what a request did so far.
func (s *store) noteResult(ctx context.Context, id any, result *RequestResult, done bool) error {
	doc, err := documentOf(result)
	if err != nil {
		return fmt.Errorf("write result of request %v: %w", id, err)
	}
	set := bson.D{{Key: "result", Value: literal(doc)}}
	if done {
		set = append(set, bson.E{Key: "done_at", Value: "$$NOW"})
	}
	if _, err := s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.A{bson.D{{Key: "$set", Value: set}}}); err != nil {
		return fault("record a request's result", err)
	}
	return nil
}

// progress reads what a request did so far. Done: nothing is left to do, or the request is gone.
func (s *store) progress(ctx context.Context, id int64) (result *RequestResult, done bool, err error) {
	var doc requestDocument
	err = s.requests.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return &RequestResult{}, true, nil
	}
	if err != nil {
		return nil, false, fault("read a request's progress", err)
	}
	result = &RequestResult{}
	if err := valueFrom(doc.Result, result); err != nil {
		return nil, false, fmt.Errorf("read progress of request %d: %w", id, err)
	}
	return result, doc.DoneAt != nil, nil
}

// Lanes names the lanes that the next Apply will change. A hold or resume that names no sink is about a group at every
// sink: its lane has the sink ”.
func (s *store) Lanes(ctx context.Context, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	if sqlstore.Validate(r) != nil || limit <= 0 {
		return nil, nil
	}
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
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
		for i := range c.rows {
			if !add(c.rows[i].lane()) {
				break
			}
		}
	}
	return lanes, nil
}
