package store

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/store"
)

// Settle makes outcomes durable in one transaction. It takes two round trips, and two more where deliveries are parked.
//
// Rows whose transaction is in the log and not in the table yet are locked by it: the first try waits for them, where the
// server tells when they are free. Applications may lock rows of their table for longer. A settlement does not wait for
// them: it begins anew, passes over locked rows (FOR UPDATE SKIP LOCKED), and reports them as invisible, because they are
// there and nothing was done about them. What is passed over without being there is asked for once more, alone.
func (s *Store) Settle(ctx context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if len(in.Park)+len(in.Changes)+len(in.Rows) == 0 {
		return store.SettleCheckpoint(ctx, in, s.Save)
	}
	a, err := s.settle(ctx, in, nil, nil)
	if err != nil {
		return nil, err
	}
	a.Out.Awaited, err = s.awaited(ctx, a.lockedTables)
	return a.Out, err
}

// settle is Settle, which also deals with the rows of unfinished messages, or carries out a request: then inside runs within
// the transaction, and adds the messages and lanes that it has touched to the attempt. It runs again where the transaction
// does.
func (s *Store) settle(ctx context.Context, in *checkpoint.Settlement, unfinished []store.MessageKey,
	inside func(context.Context, *attempt) error,
) (*attempt, error) {
	verdicts, replanned := make(verdicts), false
	var unfed error
	met := 0
	for try := 1; ; {
		a := &attempt{Attempt: store.NewAttempt(in, unfinished), s: s, passLocked: s.skipLocked, verdicts: verdicts, inside: inside,
			lockedTables: s.tablesLocked(), unfed: unfed}
		err := a.run(ctx)
		if err == nil {
			s.skipLocked = a.passLocked && (a.metLocked || len(a.lockedTables) > 0)
			s.feedback.report.Settled()
			return a, nil
		}
		if rerr := s.Rollback(ctx); rerr != nil {
			return nil, server.Fault("settle", errors.Join(err, rerr))
		}
		var unjudged *unjudgedRows
		if errors.As(err, &unjudged) {
			if err := s.judge(ctx, unjudged, verdicts); err != nil {
				return nil, err
			}
			continue // each row is judged once
		}
		if why := a.blame(err, &met); why != nil {
			unfed = why
			continue
		}
		switch {
		case server.Stale(err) && !replanned:
			replanned = true
			found, err := usertable.ResolveAll(ctx, s.Session)
			if err != nil {
				return nil, err
			}
			s.tables = found
			continue
		case server.Code(err) == server.CodeNoSuchTable && try < store.SettleTries:
			if err := store.AwaitTable(ctx); err != nil {
				return nil, err
			}
		case !server.Passing(err) || try == store.SettleTries:
			return nil, server.Fault("settle", err)
		case server.Code(err) == server.CodeLockWait:
			if err := s.findLocked(ctx); err != nil {
				return nil, err
			}
		}
		s.skipLocked = true
		try++
	}
}

// tablesLocked are the tables that are taken to be locked as a whole.
func (s *Store) tablesLocked() map[string]bool {
	locked := make(map[string]bool)
	for name, until := range s.lockedTables {
		if time.Now().Before(until) {
			locked[name] = true
		} else {
			delete(s.lockedTables, name)
		}
	}
	return locked
}

// findLocked finds the tables that are locked as a whole (LOCK TABLES, ALTER TABLE).
func (s *Store) findLocked(ctx context.Context) error {
	for _, t := range s.tables.Order {
		if _, known := s.lockedTables[t.String()]; known || !t.Written() {
			continue
		}
		b := s.Batch()
		b.Exec("SELECT 1 FROM " + t.SQL + " WHERE FALSE FOR UPDATE")
		switch err := s.Send(ctx, b); {
		case err == nil:
		case server.Code(err) == server.CodeLockWait:
			s.lockedTables[t.String()] = time.Now().Add(store.LockedFor)
		default:
			return server.Fault("look whether table "+t.String()+" is locked", err)
		}
	}
	return nil
}

// An attempt is one transaction of a settlement.
type attempt struct {
	store.Attempt
	s      *Store
	inside func(context.Context, *attempt) error
	// passLocked: locked rows are passed over, and lockedTables altogether. Verdicts are what is known of rows that were
	// passed over.
	passLocked   bool
	lockedTables map[string]bool
	verdicts     verdicts
	// fed: business rows were told. Unfed is why they are not.
	fed   bool
	unfed error

	now       *time.Time // of the server
	known     map[checkpoint.Key]*parkedBefore
	metLocked bool
}

func (a *attempt) run(ctx context.Context) error {
	a.known = make(map[checkpoint.Key]*parkedBefore)
	b := a.s.Batch()
	a.now = a.s.Begin(b)
	if err := a.change(ctx, b); err != nil {
		return err
	}
	if err := a.dealWithRows(ctx, b); err != nil {
		return err
	}
	if err := a.feedBack(ctx); err != nil {
		return err
	}
	return a.commit(ctx)
}

// change parks, changes what is parked, and carries out a request. What it has queued goes with what follows.
func (a *attempt) change(ctx context.Context, b *session.Batch) error {
	if len(a.In.Park)+len(a.In.Changes) > 0 {
		a.queueKnown(b)
		if err := a.s.Send(ctx, b); err != nil {
			return err
		}
		if err := a.queueParks(ctx, b); err != nil {
			return err
		}
		if err := a.queueChanges(ctx, b); err != nil {
			return err
		}
	}
	if a.inside != nil {
		if err := a.s.Send(ctx, b); err != nil {
			return err
		}
		if err := a.inside(ctx, a); err != nil {
			return err
		}
	}
	a.Messages.Collect(a.In, a.Unfinished)
	return nil
}

// dealWithRows deals with users' rows: those of messages without parked deliveries, then, when it is known what is parked
// of the others, theirs.
func (a *attempt) dealWithRows(ctx context.Context, b *session.Batch) error {
	plain := a.plainRows()
	a.s.QueueHeadsOf(b, a.Lanes.Asked(a.s.Sinks), a.Lanes.Heads)
	a.queueLookup(b)
	if err := a.doPlain(ctx, b, plain); err != nil {
		return err
	}
	return a.doKnown(ctx, b, a.messageRows())
}

// commit is the last round trip: what follows from the rows, the checkpoint, and COMMIT.
func (a *attempt) commit(ctx context.Context) error {
	b := a.s.Batch()
	a.queueTimes(b)
	a.queueCleanup(b)
	a.queueFailures(b)
	c := a.Checkpoint()
	if c != nil {
		a.s.queueCheckpoint(b, c)
	} else if a.inside == nil && (a.s.Unclean || a.s.Started) {
		b.Exec(settleStart, a.s.Config.Pipeline)
	}
	b.Exec("COMMIT")
	if err := a.s.Send(ctx, b); err != nil {
		return err
	}
	a.Committed(a.s, c, a.inside != nil)
	return nil
}
