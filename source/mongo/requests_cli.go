package mongo

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
	"github.com/tailbox/tailbox/source/store"
)

// What operators see and ask for, beside the relay or without it. Each function connects by itself, and takes no lease but
// for Execute.

// Ask writes a request into tailbox_request, and returns its id. One that could never be carried out is refused.
func Ask(ctx context.Context, cfg Config, r *checkpoint.Request) (id int64, err error) {
	if err := store.Validate(r); err != nil {
		return 0, fmt.Errorf("ask for %s: %w", r.Verb, err)
	}
	s, err := openReader(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	who, err := readRights(ctx, s.client)
	if err != nil {
		return 0, fault("look who asks", err)
	}
	asked := *r
	asked.By = cmp.Or(who.user, "unknown") // without authentication nothing tells
	return s.ask(s.in(ctx), &asked)
}

// askTries bounds how often another request takes the number that was to be this one's.
const askTries = 100

// ask writes a request under the next number.
func (s *stateStore) ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
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
			return 0, fault("number the request", err)
		}
		id := last.ID + 1
		// An upsert, because an insert cannot take the server's time.
		_, err = s.requests.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "pipeline", Value: bson.D{{Key: "$exists", Value: false}}}}, bson.A{
			bson.D{{Key: "$set", Value: bson.D{{Key: "pipeline", Value: literal(s.cfg.Pipeline)}, {Key: "verb", Value: literal(string(r.Verb))},
				{Key: "selection", Value: literal(selection)}, {Key: "reason", Value: literal(r.Reason)}, {Key: "by", Value: literal(r.By)},
				{Key: "requested_at", Value: "$$NOW"}, {Key: "done_at", Value: nil}}}}}, options.UpdateOne().SetUpsert(true))
		switch {
		case mongo.IsDuplicateKeyError(err):
			continue
		case err != nil:
			return 0, fault("write request", err)
		}
		// Times are milliseconds. What happens after the request must not bear the same one.
		pause := 2 * time.Millisecond
		return id, sleep(ctx, &pause)
	}
	return 0, errors.New("number the request: others were faster each time: try again")
}

// Result reads what a request did so far, and whether it is done.
func Result(ctx context.Context, cfg Config, id int64) (result *RequestResult, done bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return s.Progress(s.in(ctx), id)
}

// Execute carries out the open requests up to an id where no relay runs; with one, it fails with checkpoint.ErrLocked.
// Requests to accept a gap are left for the next start.
func Execute(ctx context.Context, cfg Config, upTo int64) (err error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return store.Execute(ctx, s, upTo)
}

// Wait waits until a request is done: by the relay that runs or, where none does, by Execute. A request to accept a gap
// is left to the next start where no relay runs: the result is nil then.
func Wait(ctx context.Context, cfg Config, id int64) (*RequestResult, error) {
	return store.Wait(ctx, id, func(ctx context.Context) (*RequestResult, bool, error) { return Result(ctx, cfg, id) },
		func(ctx context.Context) error { return Execute(ctx, cfg, id) })
}
