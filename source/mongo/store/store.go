// Package store keeps the relay's state in the collections tailbox_*, and deals with the documents of the outbox whose messages are
// settled. What becomes of a message is decided in the package of the same name that all databases share; here are MongoDB's commands.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/store"
)

// operationTime bounds one method of the store: a majority that does not answer, or a server that hangs, ends the session.
// It is less than the minute after which the server ends a transaction.
const operationTime = 50 * time.Second

// A Store implements checkpoint.Store. Each file is one part of it: Load is in load.go, Settle in settle.go and those named for its steps,
// Requests in requests.go. The collections that it uses have types of their own, and so has each of its readers.
type Store struct {
	cfg    conn.Config
	client *mongo.Client
	lease  *lease.Session // every command of the store is one of this session; without a lease it only looks, or asks
	closed bool
	// migration is the last one that was run on the collections.
	migration int

	checkpoints *mongo.Collection
	parked      parkedCollection
	requests    requestCollection
	tables      userTables

	store.Memory
	parkedReader
	pendingReader
	feedback teller
}

var _ checkpoint.Store = (*Store)(nil)

// Open opens a session with the database of the pipeline, and takes the pipeline's lease. It fails with
// checkpoint.ErrLocked while another relay holds it, and with checkpoint.ErrNoTables before `tailbox init`.
func Open(ctx context.Context, cfg conn.Config) (checkpoint.Store, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := catalog.Existing(ctx, &s.cfg, s.client); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func open(ctx context.Context, cfg conn.Config) (*Store, error) {
	s, err := OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	s.feedback, err = s.newFeedback()
	if err == nil {
		err = s.indexed(ctx)
	}
	if err == nil {
		err = s.lease.Take(ctx, s.migration)
	}
	if err == nil {
		err = s.Remember(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// OpenReader opens a store that only looks, or writes requests: it has no lease.
func OpenReader(ctx context.Context, cfg conn.Config) (*Store, error) {
	cfg, err := cfg.Resolved()
	if err != nil {
		return nil, err
	}
	client, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, client: client, Memory: store.NewMemory()}
	s.Finisher = store.Finisher{Logger: cfg.Logger, Settle: s.settleUnfinished}
	own := client.Database(cfg.Schema)
	s.checkpoints = own.Collection(catalog.Checkpoints)
	s.parked = parkedCollection{own.Collection(catalog.Parked), cfg.Pipeline}
	s.requests = requestCollection{own.Collection(catalog.Requests), cfg.Pipeline}
	s.tables = userTables{client, &s.cfg}
	s.parkedReader = parkedReader{s.tables, s.parked, s.Sinks}
	s.pendingReader = pendingReader{s.tables, s.parked, s.requests, s.Sinks}
	err = s.look(ctx)
	if err == nil {
		err = s.current(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// look looks at the server, and whether the relay's collections are there.
func (s *Store) look(ctx context.Context) error {
	h, err := conn.Greet(ctx, s.client)
	if err != nil {
		return err
	}
	if err := h.Usable(); err != nil {
		return err
	}
	names, err := s.client.Database(s.cfg.Schema).ListCollectionNames(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in",
		Value: bson.A{catalog.Checkpoints, catalog.Parked, catalog.Requests}}}}})
	if err != nil {
		return conn.Fault("look for the relay's collections", err)
	}
	if len(names) < 3 {
		return fmt.Errorf("%w: database %q: %w", source.ErrStop, s.cfg.Schema, checkpoint.ErrNoTables)
	}
	s.lease, err = lease.Start(s.client, &s.cfg)
	return err
}

// indexed looks whether the indexes are there that queries name.
func (s *Store) indexed(ctx context.Context) error {
	for _, c := range catalog.Own(&s.cfg) {
		missing, err := c.MissingIndexes(ctx, s.client)
		if err != nil {
			return err
		}
		for _, x := range missing {
			if x.Named {
				return fmt.Errorf("%w: collection %s has no index %s: run tailbox init", source.ErrStop, &c, x.Name)
			}
		}
	}
	return nil
}

// limited is the context of one method: with the session and a limit. Before the first command the lease is proved anew, if
// that is due.
func (s *Store) limited(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	ctx = s.lease.In(ctx)
	if err := s.lease.Keep(ctx); err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, cancel, nil
}

// Ping proves that the lease is held, and makes it last longer.
func (s *Store) Ping(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	return s.lease.Renew(ctx)
}

// Epoch counts the holders of the lease. The store is the holder as long as the pipeline's document has this one; 0 = it never was.
func (s *Store) Epoch() int64 { return s.lease.Epoch }

// Close gives the lease back and ends the session. A start that settled nothing is taken back: an end by Close is a clean one.
func (s *Store) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.lease != nil {
		last, cancel := context.WithTimeout(ctx, source.CloseTime)
		defer cancel()
		if s.lease.Running() {
			err = s.lease.Abort(last)
		}
		var set bson.D
		if s.Unclean || s.Started {
			set = bson.D{{Key: "unclean_starts", Value: s.UncleanBefore}, {Key: "started", Value: ""}}
		}
		err = errors.Join(err, s.lease.Release(last, set))
		s.lease.End(last)
	}
	return errors.Join(err, conn.Disconnect(ctx, s.client))
}

// current refuses collections that lack migrations, and collections that mean something else.
func (s *Store) current(ctx context.Context) error {
	state, err := catalog.SchemaOf(ctx, &s.cfg, s.client)
	if err != nil {
		return err
	}
	if err := state.Refusal(catalog.Known()); err != nil {
		return fmt.Errorf("%w: database %q: %w", source.ErrStop, s.cfg.Schema, err)
	}
	s.migration = state.Migration
	return nil
}
