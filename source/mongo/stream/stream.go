package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// Run implements source.Source. The driver resumes the change stream by itself where a connection is lost or the primary
// changes, without a gap and without repeating anything; what it cannot mend is returned.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	if s.err != nil {
		return s.err
	}
	from, err := oplog.ParsePlace(start.From)
	if err != nil {
		return fmt.Errorf("start at the checkpoint: %w", err)
	}
	if from.Ended {
		return fmt.Errorf("read the log from %s: a collection was dropped there: %w", start.From, source.ErrGap)
	}
	var refused error
	err = s.run(ctx, from.At, start, func(ctx context.Context, b *source.Batch) error {
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

// ended reports whether a context is at its end. The driver gives up a moment before a deadline that leaves no time for an
// answer.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) < deadlineMargin
}

// deadlineMargin is more than an answer takes.
const deadlineMargin = 100 * time.Millisecond

func (s *Source) run(ctx context.Context, from oplog.Time, start source.Start, emit source.Emit) (err error) {
	client, err := s.cfg.Connect()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Disconnect(ctx, client)) }()
	defer s.forget()
	h, err := conn.Greet(ctx, client)
	if err != nil {
		return err
	}
	if err := h.Usable(); err != nil {
		return err
	}
	missing := catalog.Existing(ctx, &s.cfg, client)
	if missing != nil && !errors.Is(missing, source.ErrStop) {
		return missing
	}
	now, err := oplog.Now(ctx, client)
	if err != nil {
		return err
	}
	st := &stream{
		cfg: &s.cfg, source: s, client: client, start: start, emit: emit, missing: missing, missingAt: now,
		single:     !h.Sharded() && h.Wire < conn.WireVersion80,
		oneShard:   !h.Sharded(),
		dec:        document.Decoder{MaxMessage: s.cfg.MaxMessage},
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

// A streamTable is a table, and how its documents are read.
type streamTable struct {
	database, name []byte
	ns             namespace // as the server writes it
	table          *outbox.Table
	plan           *document.Plan
}

func newStreamTable(t *outbox.Table) (streamTable, error) {
	ns, err := bson.Marshal(bson.D{{Key: "db", Value: t.Schema}, {Key: "coll", Value: t.Name}})
	if err != nil {
		return streamTable{}, fmt.Errorf("name the collection %s: %w", t, err)
	}
	return streamTable{database: []byte(t.Schema), name: []byte(t.Name), ns: ns, table: t, plan: document.NewPlan(t)}, nil
}

// A stream is one Run once it is connected. It belongs to one goroutine.
type stream struct {
	cfg    *conn.Config
	source *Source
	client *mongo.Client
	feed   *feed
	// token is the place behind the last answer that was taken whole; nil if none is known. More: events of the present answer
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
	missingAt oplog.Time
	// slim: the events leave large documents out, until one was passed. From is where the stream was opened, and first the token that
	// it had then.
	slim  bool
	from  position
	first bson.Raw

	dec  document.Decoder
	at   oplog.Time // of the last event
	next uint32     // N of the next event at that time
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
		at, err := oplog.TokenTime(st.token)
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
	case !st.slim && conn.HasCode(err, conn.CodeTooLarge):
		st.slim = true
		return st.reopen(ctx)
	case st.from.token != nil && bytes.Equal(st.token, st.first) && conn.HasCode(err, conn.CodeInvalidResumeToken):
		st.feed.close(ctx)
		return st.watch(ctx, st.from)
	}
	return readError("read the log", err)
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
	changes, err := watch(ctx, st.cfg, st.client, from, st.slim)
	if err != nil && !st.slim && conn.HasCode(err, conn.CodeTooLarge) {
		st.slim = true
		changes, err = watch(ctx, st.cfg, st.client, from, true)
	}
	if err != nil {
		return readError("read the log", err)
	}
	st.follow(ctx, changes)
	if st.slim {
		st.cfg.Logger.Warn("an event is too large for the change stream: reading its document from the table", "after", st.done.String())
	}
	return nil
}
