package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// watch opens a change stream. Slim leaves large documents out of the events: an event may not be larger than 16 MiB, and
// a document that is nearly so makes one.
func watch(ctx context.Context, cfg *conn.Config, client *mongo.Client, from position, slim bool) (*mongo.ChangeStream, error) {
	opts := options.ChangeStream().SetBatchSize(serverBatch).SetMaxAwaitTime(maxAwait)
	if from.token != nil {
		opts.SetStartAfter(from.token)
	} else {
		at := from.at.Timestamp()
		opts.SetStartAtOperationTime(&at)
	}
	pipeline, database := pipeline(cfg, slim), cfg.CommonDatabase()
	switch {
	case len(cfg.Tables) == 1:
		return client.Database(cfg.Tables[0].Schema).Collection(cfg.Tables[0].Name).Watch(ctx, pipeline, opts)
	case database != "":
		return client.Database(database).Watch(ctx, pipeline, opts)
	}
	return client.Watch(ctx, pipeline, opts)
}

// A position is where a change stream begins: with the first event at or after a time, or right behind a token.
type position struct {
	at    oplog.Time
	token bson.Raw
}

// slimAbove is the size from which slim events leave the document out.
const slimAbove = 15 << 20

// pipeline lets inserts pass, and what ends a collection. It filters only by what can be looked up in the oplog's own entries, so
// that the server leaves the others out early.
func pipeline(cfg *conn.Config, slim bool) bson.A {
	ends := bson.A{"drop", "rename", "dropDatabase", "invalidate"}
	match := bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: append(bson.A{"insert"}, ends...)}}}}
	if len(cfg.Tables) > 1 {
		var names bson.A
		for i := range cfg.Tables {
			t := &cfg.Tables[i]
			names = append(names, bson.D{{Key: "db", Value: t.Schema}, {Key: "coll", Value: t.Name}})
		}
		match = bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "operationType", Value: "insert"}, {Key: "ns", Value: bson.D{{Key: "$in", Value: names}}}},
			bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: ends}}}},
		}}}
	}
	stages := bson.A{bson.D{{Key: "$match", Value: match}}}
	if slim {
		large := bson.D{{Key: "$gt", Value: bson.A{bson.D{{Key: "$bsonSize", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$fullDocument", bson.D{}}}}}}, slimAbove}}}
		stages = append(stages, bson.D{{Key: "$set", Value: bson.D{{Key: "fullDocument", Value: bson.D{{Key: "$cond",
			Value: bson.A{large, "$$REMOVE", "$fullDocument"}}}}}}})
	}
	return stages
}

// readError gives a server's error its meaning: what ends a stream for good is a lost position.
func readError(doing string, err error) error {
	if conn.HasCode(err, conn.CodeHistoryLost, conn.CodeChangeStreamFatal, conn.CodeInvalidResumeToken) {
		return fmt.Errorf("%s: %w: %w", doing, err, source.ErrGap)
	}
	return conn.Fault(doing, err)
}

// lostTime is how long lost waits for a change stream to open.
const lostTime = 5 * time.Second

// lost tells why the log can no longer be read from a time, "" if it can: it opens a change stream there and closes it.
func lost(ctx context.Context, cfg *conn.Config, client *mongo.Client, from oplog.Time) (why string, err error) {
	now, err := oplog.Now(ctx, client)
	if err != nil {
		return "", err
	}
	if from > now {
		return fmt.Sprintf("the checkpoint %s is beyond the server's log, which ends at %s: the server was restored from an older state", from, now), nil
	}
	// Whether the position is there is looked at first. What takes longer is the search for an event.
	asking, cancel := context.WithTimeout(ctx, lostTime)
	defer cancel()
	changes, err := watch(asking, cfg, client, position{at: from + 1}, false)
	switch {
	case err == nil:
		_ = changes.Close(ctx) // it was opened only to see whether that works
		return "", nil
	case ended(asking) && !ended(ctx):
		return "", nil
	case conn.HasCode(err, conn.CodeTooLarge): // it works, but for a large event
		return "", nil
	}
	if err = readError("read the log from "+from.String(), err); errors.Is(err, source.ErrGap) {
		return fmt.Sprintf("the oplog does not reach back to the checkpoint %s any more", from), nil
	}
	return "", err
}

// lostAnew tells that the log was begun after a time, as that of a server is that was restored from a copy of its files as another
// replica set; "" if it was not, or where the user may not see it. A change stream opens in such a log all the same: the server
// takes it that nothing can have come before a set was made.
func lostAnew(ctx context.Context, client *mongo.Client, from oplog.Time) (why string, err error) {
	first, err := oplog.First(ctx, client)
	switch {
	case conn.HasCode(err, conn.CodeUnauthorized), errors.Is(err, mongo.ErrNoDocuments):
		return "", nil
	case err != nil:
		return "", conn.Fault("look where the log begins", err)
	case first > from:
		return fmt.Sprintf("the oplog begins at %s, after the checkpoint %s: it was rolled over, or the server restored as another replica set", first, from), nil
	}
	return "", nil
}

const (
	// serverBatch is how many events one answer of the server holds at most. They have at most 16 MiB together.
	serverBatch = 2000
	// maxAwait is how long the server waits for events before it answers that there are none. An event ends the wait, so this is
	// only how soon barriers and progress are noticed.
	maxAwait = 300 * time.Millisecond
)
