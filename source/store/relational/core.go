// Package relational is what the stores of Postgres and MySQL do alike: how a settlement goes on after an error, what happens to users' rows, and
// what a request of an operator does. The store of a database embeds a Core, and is its Database: it has the statements.
package relational

import (
	"context"
	"log/slog"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/feedback"
)

// A Database is what a Core needs of the store that embeds it.
type Database interface {
	store.Requests
	store.ParkedReader
	store.PendingReader
	Statements
	RowFinder
	State
	// Settler begins a settlement.
	Settler(ctx context.Context) (Settler, error)
	// Awaited reports whether somebody waits to lock one of the tables against all others. Locked are those that a settlement passed over.
	Awaited(ctx context.Context, locked map[string]bool) (bool, error)
	// Tables are those of the configuration, in its order.
	Tables() []Table
	// UnfinishedMessages names messages whose row has still to be dealt with, at most limit.
	UnfinishedMessages(ctx context.Context, limit int) ([]store.MessageKey, error)
	// Prove proves that the session lives, and holds the lock.
	Prove(ctx context.Context) error
	// Fault says what was done when an error came up.
	Fault(doing string, err error) error
}

// A Core is a store of a relational database, but for its statements.
type Core struct {
	store.Memory
	// SkipLocked: an application holds locks on rows that settlements wanted, so they pass over locked rows until there are none.
	SkipLocked bool

	db   Database
	log  *slog.Logger
	poll bool
	// statements of feedback; nil if the tables have none.
	statements feedback.Statements
	report     *feedback.Report
}

// Init makes it the core of a store that has read nothing yet. Poll: the table is read, not the log.
func (c *Core) Init(db Database, log *slog.Logger, poll bool) {
	c.Memory, c.db, c.log, c.poll = store.NewMemory(), db, log, poll
	c.Finisher = store.Finisher{Logger: log, Settle: c.settleUnfinished}
}

// Settle implements checkpoint.Store: it makes outcomes durable in one transaction.
func (c *Core) Settle(ctx context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if len(in.Park)+len(in.Changes)+len(in.Rows) == 0 {
		return store.SettleCheckpoint(ctx, in, c.Save)
	}
	a, err := c.settle(ctx, in, nil, nil)
	if err != nil {
		return nil, err
	}
	a.Out.Awaited, err = c.db.Awaited(ctx, a.LockedTables)
	return a.Out, err
}

// settleUnfinished deals with the rows of messages.
func (c *Core) settleUnfinished(ctx context.Context, keys []store.MessageKey) error {
	_, err := c.settle(ctx, &checkpoint.Settlement{}, keys, nil)
	return err
}

// Lanes implements checkpoint.Store.
func (c *Core) Lanes(ctx context.Context, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	return store.LanesOf(ctx, c.db, r, limit)
}

// Apply implements checkpoint.Store.
func (c *Core) Apply(ctx context.Context, r *checkpoint.Request, lanes []checkpoint.Lane) (*checkpoint.Applied, error) {
	return store.Apply(ctx, c.db, r, lanes)
}

// Transact implements store.Requests: a settlement of nothing, inside which the request takes effect.
func (c *Core) Transact(ctx context.Context, do func(context.Context, store.Effects) error) ([]checkpoint.Lane, []store.LaneState, error) {
	before := c.Holds
	a, err := c.settle(ctx, &checkpoint.Settlement{}, nil, do)
	if err != nil {
		c.Holds = before
		return nil, nil, err
	}
	return a.Lanes.Touched.Order, a.States, nil
}

// InForce reads what holds and pauses are in force.
func (c *Core) InForce(ctx context.Context) (store.Forces, error) {
	fs := make(store.Forces)
	if err := c.db.EachForce(ctx, fs.Read); err != nil {
		return nil, c.db.Fault("read holds and pauses", err)
	}
	return fs, nil
}
