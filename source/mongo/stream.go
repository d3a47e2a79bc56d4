package mongo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
)

const (
	// serverBatch is how many events one answer of the server holds at most. They have at most 16 MiB together.
	serverBatch = 2000
	// maxAwait is how long the server waits for events before it answers that there are none. An event ends the wait, so this is
	// only how soon barriers and progress are noticed.
	maxAwait = 300 * time.Millisecond
)

// Run implements source.Source. The driver resumes the change stream by itself where a connection is lost or the primary
// changes, without a gap and without repeating anything; what it cannot mend is returned.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	if s.err != nil {
		return s.err
	}
	from, err := parsePlace(start.From)
	if err != nil {
		return fmt.Errorf("start at the checkpoint: %w", err)
	}
	if from.ended {
		return fmt.Errorf("read the log from %s: a collection was dropped there: %w", start.From, source.ErrGap)
	}
	var refused error
	err = s.run(ctx, from.at, start, func(ctx context.Context, b *source.Batch) error {
		refused = emit(ctx, b)
		return refused
	})
	switch {
	case refused != nil && !(ctx.Err() != nil && errors.Is(refused, ctx.Err())):
		return refused
	case ended(ctx):
		return nil // whatever the end of the context broke
	}
	return err
}

// ended tells whether a context is at its end. The driver gives up a moment before a deadline that leaves no time for an
// answer.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) < deadlineMargin
}

// deadlineMargin is more than an answer takes.
const deadlineMargin = 100 * time.Millisecond

func (s *Source) run(ctx context.Context, from opTime, start source.Start, emit source.Emit) (err error) {
	client, err := s.cfg.connect()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disconnect(ctx, client)) }()
	defer s.forget()
	h, err := greet(ctx, client)
	if err != nil {
		return err
	}
	if err := h.usable(); err != nil {
		return err
	}
	missing := s.cfg.existing(ctx, client)
	if missing != nil && !errors.Is(missing, source.ErrStop) {
		return missing
	}
	now, err := clusterTime(ctx, client)
	if err != nil {
		return err
	}
	st := &stream{
		cfg: &s.cfg, source: s, client: client, start: start, emit: emit, missing: missing, missingAt: now,
		single:     !h.sharded() && h.Wire < wireVersion80,
		oneShard:   !h.sharded(),
		dec:        decoder{maxMessage: s.cfg.MaxMessage},
		batchState: batchState{done: from, reported: from},
	}
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		streamed, err := newStreamTable(t)
		if err != nil {
			return err
		}
		st.tables = append(st.tables, streamed)
	}
	if err := st.watch(ctx, position{at: from + 1}); err != nil {
		return err
	}
	defer func() { st.feed.close(ctx) }() // the last one
	start.Begun()
	s.cfg.Logger.Info("reading the log", "from", from.String())
	return st.read(ctx)
}

// A position is where a change stream begins: with the first event at or after a time, or right behind a token.
type position struct {
	at    opTime
	token bson.Raw
}

// watch opens a change stream. Slim leaves large documents out of the events: an event may not be larger than 16 MiB, and
// a document that is nearly so makes one.
func (c *Config) watch(ctx context.Context, client *mongo.Client, from position, slim bool) (*mongo.ChangeStream, error) {
	opts := options.ChangeStream().SetBatchSize(serverBatch).SetMaxAwaitTime(maxAwait)
	if from.token != nil {
		opts.SetStartAfter(from.token)
	} else {
		at := from.at.timestamp()
		opts.SetStartAtOperationTime(&at)
	}
	pipeline, database := c.pipeline(slim)
	switch {
	case len(c.Tables) == 1:
		return client.Database(c.Tables[0].Schema).Collection(c.Tables[0].Name).Watch(ctx, pipeline, opts)
	case database != "":
		return client.Database(database).Watch(ctx, pipeline, opts)
	}
	return client.Watch(ctx, pipeline, opts)
}

// slimAbove is the size from which slim events leave the document out.
const slimAbove = 15 << 20

// pipeline lets inserts pass, and what ends a collection. Database is the one that all tables lie in; "" = several. It
// filters only by what can be looked up in the oplog's own entries, so that the server leaves the others out early.
func (c *Config) pipeline(slim bool) (stages bson.A, database string) {
	ends := bson.A{"drop", "rename", "dropDatabase", "invalidate"}
	match := bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: append(bson.A{"insert"}, ends...)}}}}
	database = c.Tables[0].Schema
	if len(c.Tables) > 1 {
		var names bson.A
		for i := range c.Tables {
			t := &c.Tables[i]
			names = append(names, bson.D{{Key: "db", Value: t.Schema}, {Key: "coll", Value: t.Name}})
			if t.Schema != database {
				database = ""
			}
		}
		match = bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "operationType", Value: "insert"}, {Key: "ns", Value: bson.D{{Key: "$in", Value: names}}}},
			bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: ends}}}},
		}}}
	}
	stages = bson.A{bson.D{{Key: "$match", Value: match}}}
	if slim {
		large := bson.D{{Key: "$gt", Value: bson.A{bson.D{{Key: "$bsonSize", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$fullDocument", bson.D{}}}}}}, slimAbove}}}
		stages = append(stages, bson.D{{Key: "$set", Value: bson.D{{Key: "fullDocument", Value: bson.D{{Key: "$cond",
			Value: bson.A{large, "$$REMOVE", "$fullDocument"}}}}}}})
	}
	return stages, database
}

// streamError gives a server's error its meaning: what ends a stream for good is a lost position.
func (c *Config) streamError(doing string, err error) error {
	if hasCode(err, codeHistoryLost, codeChangeStreamFatal, codeInvalidResumeToken) {
		return fmt.Errorf("%s: %w: %w", doing, err, source.ErrGap)
	}
	return fault(doing, err)
}

// lostTime is how long lost waits for a change stream to open.
const lostTime = 5 * time.Second

// lost tells why the log can no longer be read from a time, "" if it can: it opens a change stream there and closes it.
func (c *Config) lost(ctx context.Context, client *mongo.Client, from opTime) (why string, err error) {
	now, err := clusterTime(ctx, client)
	if err != nil {
		return "", err
	}
	if from > now {
		return fmt.Sprintf("the checkpoint %s is beyond the server's log, which ends at %s: the server was restored from an older state", from, now), nil
	}
	// Whether the position is there is looked at first. What takes longer is the search for an event.
	asking, cancel := context.WithTimeout(ctx, lostTime)
	defer cancel()
	changes, err := c.watch(asking, client, position{at: from + 1}, false)
	switch {
	case err == nil:
		_ = changes.Close(ctx) // it was opened only to see whether that works
		return "", nil
	case ended(asking) && !ended(ctx):
		return "", nil
	case hasCode(err, codeTooLarge): // it works, but for a large event
		return "", nil
	}
	if err = c.streamError("read the log from "+from.String(), err); errors.Is(err, source.ErrGap) {
		return fmt.Sprintf("the oplog does not reach back to the checkpoint %s any more", from), nil
	}
	return "", err
}

// lostAnew tells that the log was begun after a time, as that of a server is that was restored from a copy of its files as another
// replica set; "" if it was not, or where the user may not see it. A change stream opens in such a log all the same: the server
// takes it that nothing can have come before a set was made.
func lostAnew(ctx context.Context, client *mongo.Client, from opTime) (why string, err error) {
	first, err := oplogEnd(ctx, client, 1)
	switch {
	case hasCode(err, codeUnauthorized), errors.Is(err, mongo.ErrNoDocuments):
		return "", nil
	case err != nil:
		return "", fault("look where the log begins", err)
	case first > from:
		return fmt.Sprintf("the oplog begins at %s, after the checkpoint %s: it was rolled over, or the server restored as another replica set", first, from), nil
	}
	return "", nil
}

// clusterTime is the end of the log, as the primary knows it.
func clusterTime(ctx context.Context, client *mongo.Client) (opTime, error) {
	var reply struct {
		OperationTime bson.Timestamp `bson:"operationTime"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Decode(&reply); err != nil {
		return 0, fault("ask for the server's time", err)
	}
	return opTimeOf(reply.OperationTime.T, reply.OperationTime.I), nil
}

// A streamTable is a table, and how its documents are read.
type streamTable struct {
	database, name []byte
	ns             namespace // as the server writes it
	table          *outbox.Table
	plan           *plan
}

func newStreamTable(t *outbox.Table) (streamTable, error) {
	ns, err := bson.Marshal(bson.D{{Key: "db", Value: t.Schema}, {Key: "coll", Value: t.Name}})
	if err != nil {
		return streamTable{}, fmt.Errorf("name the collection %s: %w", t, err)
	}
	return streamTable{database: []byte(t.Schema), name: []byte(t.Name), ns: ns, table: t, plan: newPlan(t)}, nil
}

// A stream is one Run once it is connected. It belongs to one goroutine.
type stream struct {
	cfg    *Config
	source *Source
	client *mongo.Client
	feed   *feed
	// token is the place behind the last answer that was taken whole; nil where none is known. More: events of the present answer
	// follow the one that is handled.
	token  bson.Raw
	more   bool
	start  source.Start
	emit   source.Emit
	tables []streamTable
	// single: an event that is part of no transaction is alone at its cluster time.
	single   bool
	oneShard bool
	// missing: a collection does not exist at missingAt. What the log holds until then is read nevertheless.
	missing   error
	missingAt opTime
	// slim: the events leave large documents out, until one was passed. From is where the stream was opened, and first the token that
	// it had then.
	slim  bool
	from  position
	first bson.Raw

	dec  decoder
	at   opTime // of the last event
	next uint32 // N of the next event at that time
	batchState
	lastEmitted time.Time
}

// read is the loop: take what the server has sent, emit what is complete before it is waited for.
func (st *stream) read(ctx context.Context) error {
	if err := st.pause(ctx); err != nil {
		return err
	}
	for {
		p, err := st.feed.next(ctx)
		if err != nil {
			return err
		}
		if p.last {
			st.token = p.token
		}
		switch {
		case p.err != nil:
			err = st.mend(ctx, p.err)
		case p.over:
			err = errors.New("read the log: the server ended the change stream")
		case len(p.events) == 0 && st.open && st.oneShard:
			// The server had nothing more, so it has unwound the transaction to its end. The shards of a cluster may be at
			// different places; there a token of a later time says so.
			st.complete(st.at)
		default:
			err = st.events(ctx, &p)
		}
		if err == nil && p.last {
			err = st.pause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (st *stream) events(ctx context.Context, p *part) error {
	for i, raw := range p.events {
		st.more = !p.last || i+1 < len(p.events)
		if err := st.event(ctx, raw); err != nil {
			return err
		}
	}
	return nil
}

// pause is called at the end of each of the server's answers: nothing that is complete is held back.
func (st *stream) pause(ctx context.Context) error {
	if st.token != nil {
		at, err := tokenTime(st.token)
		if err != nil {
			return err
		}
		// Everything before the token's time was returned; of the very time perhaps not all.
		if at > 0 && at-1 > st.done && (!st.open || at > st.at) {
			st.complete(at - 1)
		}
	}
	if err := st.flush(ctx); err != nil {
		return err
	}
	if st.source.barriers.Waiting() {
		if err := st.passBarriers(ctx); err != nil {
			return err
		}
	}
	if st.missing != nil && st.done >= st.missingAt {
		if err := st.look(ctx); err != nil || st.missing == nil {
			return err // an application has made it anew
		}
		return fmt.Errorf("read the log: %w", st.missing)
	}
	if st.done > st.reported && (st.owed || time.Since(st.lastEmitted) > batches.ProgressTime) && !st.open {
		return st.progress(ctx)
	}
	return nil
}

// mend goes on behind an event that is too large, and returns all other errors. Behind the end of a change stream, where another one was
// opened and nothing came since, the driver cannot resume: the server takes such a token only for a new one.
func (st *stream) mend(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
	case !st.slim && hasCode(err, codeTooLarge):
		st.slim = true
		return st.reopen(ctx)
	case st.from.token != nil && bytes.Equal(st.token, st.first) && hasCode(err, codeInvalidResumeToken):
		st.feed.close(ctx)
		return st.watch(ctx, st.from)
	}
	return st.cfg.streamError("read the log", err)
}

// reopen goes on at the same place.
func (st *stream) reopen(ctx context.Context) error {
	from := position{token: st.token}
	if from.token == nil {
		from = st.from
	}
	st.feed.close(ctx)
	return st.watch(ctx, from)
}

// follow begins to read a change stream that was opened.
func (st *stream) follow(ctx context.Context, changes *mongo.ChangeStream) {
	st.token = changes.ResumeToken()
	st.first = st.token
	st.feed = newFeed(ctx, changes)
}

// watch opens the change stream. Where even its first events are too large, it leaves out large documents.
func (st *stream) watch(ctx context.Context, from position) error {
	st.from = from
	changes, err := st.cfg.watch(ctx, st.client, from, st.slim)
	if err != nil && !st.slim && hasCode(err, codeTooLarge) {
		st.slim = true
		changes, err = st.cfg.watch(ctx, st.client, from, true)
	}
	if err != nil {
		return st.cfg.streamError("read the log", err)
	}
	st.follow(ctx, changes)
	if st.slim {
		st.cfg.Logger.Warn("an event is too large for the change stream: reading its document from the table", "after", st.done.String())
	}
	return nil
}
