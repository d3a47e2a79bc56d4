package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// The relay's own collections.
const (
	checkpointCollection = "tailbox_checkpoint"
	parkedCollection     = "tailbox_parked"
	requestCollection    = "tailbox_request"
)

// operationTime bounds one method of the store: a majority that does not answer, or a server that hangs, ends the session.
// It is less than the minute after which the server ends a transaction.
const operationTime = 50 * time.Second

// A stateStore implements checkpoint.Store. Its file names tell the parts: lease, txn, store_load, store_due, store_pending, settle,
// parked, requests.
type stateStore struct {
	cfg     Config
	client  *mongo.Client
	session *mongo.Session // every command of the store is one of this session
	closed  bool
	epoch   int64 // of the lease; 0 = a store that only looks, or asks
	// migration is the last one that was run on the collections.
	migration int
	renewed   time.Time // when the last command that proved the lease was sent
	database  *mongo.Database

	checkpoints, parked, requests *mongo.Collection

	store.Memory
	feedback feedback
}

var _ checkpoint.Store = (*stateStore)(nil)

// Open opens a session with the database of the pipeline, and takes the pipeline's lease. It fails with
// checkpoint.ErrLocked while another relay holds it, and with checkpoint.ErrNoTables before `tailbox init`.
func (cfg Config) Open(ctx context.Context) (checkpoint.Store, error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.existing(ctx, s.client); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func openStore(ctx context.Context, cfg Config) (*stateStore, error) {
	s, err := openReader(ctx, cfg)
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
		err = s.takeLease(ctx)
	}
	if err == nil {
		err = s.Remember(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// openReader opens a store that only looks, or writes requests: it has no lease.
func openReader(ctx context.Context, cfg Config) (*stateStore, error) {
	cfg, err := cfg.resolved()
	if err != nil {
		return nil, err
	}
	client, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	s := &stateStore{cfg: cfg, client: client, Memory: store.NewMemory()}
	s.Finisher = store.Finisher{Logger: cfg.Logger, Settle: s.settleUnfinished}
	s.database = client.Database(cfg.Schema)
	s.checkpoints, s.parked = s.database.Collection(checkpointCollection), s.database.Collection(parkedCollection)
	s.requests = s.database.Collection(requestCollection)
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
func (s *stateStore) look(ctx context.Context) error {
	h, err := greet(ctx, s.client)
	if err != nil {
		return err
	}
	if err := h.usable(); err != nil {
		return err
	}
	names, err := s.database.ListCollectionNames(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in",
		Value: bson.A{checkpointCollection, parkedCollection, requestCollection}}}}})
	if err != nil {
		return fault("look for the relay's collections", err)
	}
	if len(names) < 3 {
		return fmt.Errorf("%w: database %q: %w", source.ErrStop, s.cfg.Schema, checkpoint.ErrNoTables)
	}
	if s.session, err = s.client.StartSession(); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	return nil
}

// indexed looks whether the indexes are there that queries name.
func (s *stateStore) indexed(ctx context.Context) error {
	for _, c := range s.cfg.ownCollections() {
		missing, err := c.missingIndexes(ctx, s.client)
		if err != nil {
			return err
		}
		for _, x := range missing {
			if x.named {
				return fmt.Errorf("%w: collection %s has no index %s: run tailbox init", source.ErrStop, &c, x.name)
			}
		}
	}
	return nil
}

// in is the context with the store's session.
func (s *stateStore) in(ctx context.Context) context.Context {
	return mongo.NewSessionContext(ctx, s.session)
}

// limited is the context of one method: with the session and a limit. Before the first command the lease is proved anew, if
// that is due.
func (s *stateStore) limited(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	ctx = s.in(ctx)
	if s.epoch == 0 {
		return ctx, cancel, nil
	}
	if err := s.keep(ctx); err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, cancel, nil
}

// Ping proves that the lease is held, and makes it last longer.
func (s *stateStore) Ping(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	return s.renew(ctx)
}

// Close gives the lease back and ends the session.
func (s *stateStore) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.session != nil {
		last, cancel := context.WithTimeout(ctx, source.CloseTime)
		defer cancel()
		if s.session.TransactionRunning() {
			err = s.abort(last)
		}
		if s.epoch != 0 {
			err = errors.Join(err, s.release(s.in(last)))
		}
		s.session.EndSession(last)
	}
	return errors.Join(err, disconnect(ctx, s.client))
}

// table finds the table of a message; nil where it has left the configuration.
func (s *stateStore) table(name string) *outbox.Table { return s.cfg.tableNamed(name) }

// collection is the collection of a table.
func (s *stateStore) collection(t *outbox.Table) *mongo.Collection {
	return s.client.Database(t.Schema).Collection(t.Name)
}

// now is the server's time.
func (s *stateStore) now(ctx context.Context) (time.Time, error) {
	h, err := greet(ctx, s.client)
	if err != nil {
		return time.Time{}, err
	}
	return h.LocalTime.UTC(), nil
}
