package relational

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// An Attempt is one transaction of a settlement.
type Attempt struct {
	store.Attempt
	// Request carries a request out inside the transaction; nil if there is none.
	Request func(context.Context) error
	// SkipLocked: rows that others have locked are passed over, and LockedTables altogether. MetLocked: some rows were.
	SkipLocked   bool
	LockedTables map[string]bool
	MetLocked    bool
	// Fed: business rows were told. Unfed is why they are not.
	Fed   bool
	Unfed error
}

// A Settler carries out one settlement: it runs transactions, and says what their errors mean.
type Settler interface {
	// Attempt runs a transaction from its beginning to its commit.
	Attempt(ctx context.Context, a *Attempt) error
	// Rollback ends a transaction that failed, so that the session can be used again.
	Rollback(ctx context.Context) error
	// Trouble says what the error of an attempt means.
	Trouble(a *Attempt, err error) Trouble
	// FindRows lets the next attempt tell which rows are missing.
	FindRows(ctx context.Context, err error) error
	// Replan looks the tables up again.
	Replan(ctx context.Context) error
	// FindLocked finds out which tables others have locked as a whole, after an attempt that waited for a lock in vain.
	FindLocked(ctx context.Context, a *Attempt) error
}

// A Trouble is what an attempt's error means. If none is set, the next attempt would fail, too.
type Trouble struct {
	// Rows: some rows were not there, and the transaction could not find out why. This is reported at most once for each row.
	Rows bool
	// Stale: a statement was prepared before its table was altered.
	Stale bool
	// Feedback: what business rows were told may be why.
	Feedback bool
	// NoTable: a table does not exist. It may be in the middle of being replaced.
	NoTable bool
	// Passing: others are the cause. LockWait: one of them held a lock for longer than this session waits.
	Passing, LockWait bool
}

// A step is what follows a failed attempt.
type step int

const (
	giveUp step = iota
	findRows
	replan
	leaveFeedback
	// After the following steps, attempts pass over locked rows.
	awaitTable
	findLocked
	skipLocked
)

// settleTries bounds how often a settlement is begun anew because of what others do to its rows and tables.
const settleTries = 8

// pause waits before a settlement looks again for a table that does not exist. Together its pauses take source.AwayFor at most.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(source.AwayFor / settleTries):
		return nil
	}
}

// A plan decides what follows failed attempts of one settlement.
type plan struct {
	tries     int // that failed because of others
	replanned bool
	unfed     bool
}

// after decides what follows an attempt.
func (p *plan) after(t Trouble) step {
	switch {
	case t.Rows:
		return findRows
	case t.Stale && !p.replanned:
		p.replanned = true
		return replan
	case t.Feedback && !p.unfed:
		p.unfed = true
		return leaveFeedback
	case !t.NoTable && !t.Passing:
		return giveUp
	}
	p.tries++
	switch {
	case p.tries == settleTries:
		return giveUp
	case t.NoTable:
		return awaitTable
	case t.LockWait:
		return findLocked
	}
	return skipLocked
}

// settle settles, deals with the rows of unfinished messages, and carries a request out, in one transaction. If that fails because of others,
// it begins anew.
//
// Applications may lock rows of their table. A settlement does not wait long for them: it begins anew, passes over locked rows
// (FOR UPDATE SKIP LOCKED), and reports them as invisible, because they are there and nothing was done about them.
func (c *Core) settle(ctx context.Context, in *checkpoint.Settlement, unfinished []store.MessageKey, request func(context.Context, store.Effects) error,
) (*Attempt, error) {
	s, err := c.db.Settler(ctx)
	if err != nil {
		return nil, err
	}
	var p plan
	var unfed error
	for {
		a := &Attempt{Attempt: store.NewAttempt(in, unfinished), SkipLocked: c.SkipLocked, Unfed: unfed}
		if request != nil {
			a.Request = func(ctx context.Context) error { return request(ctx, effects{c.db, c, a}) }
		}
		err := s.Attempt(ctx, a)
		if err == nil {
			if c.report != nil {
				c.report.Settled()
			}
			c.SkipLocked = a.SkipLocked && (a.MetLocked || len(a.LockedTables) > 0)
			return a, nil
		}
		if rerr := s.Rollback(ctx); rerr != nil {
			return nil, c.db.Fault("settle", errors.Join(err, rerr))
		}
		switch p.after(s.Trouble(a, err)) {
		case findRows:
			err = s.FindRows(ctx, err)
		case replan:
			err = s.Replan(ctx)
		case leaveFeedback:
			unfed, err = err, nil
		case awaitTable:
			c.SkipLocked, err = true, pause(ctx)
		case findLocked:
			c.SkipLocked, err = true, s.FindLocked(ctx, a)
		case skipLocked:
			c.SkipLocked, err = true, nil
		default:
			err = c.db.Fault("settle", err)
		}
		if err != nil {
			return nil, err
		}
	}
}
