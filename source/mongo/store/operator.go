package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Operator is what operators see of a pipeline, and ask for.
func Operator(cfg conn.Config) operate.Operator {
	return operate.Operator{
		Read: func(ctx context.Context) (operate.Reader, context.Context, error) {
			s, err := OpenReader(ctx, cfg)
			if err != nil {
				return nil, nil, err
			}
			return s, s.lease.In(ctx), nil
		},
		Open: func(ctx context.Context) (checkpoint.Store, error) { return Open(ctx, cfg) },
	}
}

// Leave implements operate.Reader.
func (s *Store) Leave(ctx context.Context) error { return s.Close(ctx) }

// Ask implements operate.Reader.
func (s *Store) Ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	who, err := conn.ReadRights(ctx, s.client)
	if err != nil {
		return 0, conn.Fault("look who asks", err)
	}
	asked := *r
	asked.By = cmp.Or(who.User, "unknown") // without authentication nothing tells
	return s.ask(ctx, &asked)
}

// askTries bounds how often another request takes the number that was to be this one's.
const askTries = 100

// ask writes a request under the next number.
func (s *Store) ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	selection, err := documentOf(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	for range askTries {
		var last struct {
			ID int64 `bson:"_id"`
		}
		err := s.requests.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}}).SetProjection(bson.D{{Key: "_id", Value: 1}})).Decode(&last)
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return 0, conn.Fault("number the request", err)
		}
		id := last.ID + 1
		// An upsert, because an insert cannot take the server's time.
		_, err = s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "pipeline", Value: bson.D{{Key: "$exists", Value: false}}}}, bson.A{
			bson.D{{Key: "$set", Value: bson.D{{Key: "pipeline", Value: document.Literal(s.cfg.Pipeline)}, {Key: "verb", Value: document.Literal(string(r.Verb))},
				{Key: "selection", Value: document.Literal(selection)}, {Key: "reason", Value: document.Literal(r.Reason)}, {Key: "by", Value: document.Literal(r.By)},
				{Key: "requested_at", Value: "$$NOW"}, {Key: "done_at", Value: nil}}}}}, options.UpdateOne().SetUpsert(true))
		switch {
		case mongo.IsDuplicateKeyError(err):
			continue
		case err != nil:
			return 0, conn.Fault("write request", err)
		}
		// Times are milliseconds. What happens after the request must not bear the same one.
		pause := 2 * time.Millisecond
		return id, lease.Sleep(ctx, &pause)
	}
	return 0, errors.New("number the request: others were faster each time: try again")
}
