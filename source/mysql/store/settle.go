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
	"github.com/tailbox/tailbox/source/store/relational"
)

// A settler implements relational.Settler.
//
// A settlement takes two round trips, and two more where deliveries are parked.
//
// Rows whose transaction is in the log and not in the table yet are locked by it: the first try waits for them, where the
// server tells when they are free. What is passed over without being there is asked for once more, alone.
type settler struct {
	*Store
	verdicts verdicts // what is known of rows that were passed over
	met      int      // how often others were in the way after business rows had been told
}

// Settler implements relational.Database.
func (s *Store) Settler(context.Context) (relational.Settler, error) {
	return &settler{Store: s, verdicts: make(verdicts)}, nil
}

// Attempt implements relational.Settler.
func (s *settler) Attempt(ctx context.Context, of *relational.Attempt) error {
	of.LockedTables = s.tablesLocked()
	a := &attempt{Attempt: of, s: s.Store, verdicts: s.verdicts, known: make(map[checkpoint.Key]*parkedBefore)}
	return a.run(ctx)
}

// Trouble implements relational.Settler.
func (s *settler) Trouble(a *relational.Attempt, err error) relational.Trouble {
	var unjudged *unjudgedRows
	feedback := s.blame(a, err)
	code := server.Code(err)
	return relational.Trouble{Rows: errors.As(err, &unjudged), Feedback: feedback, Stale: server.Stale(err) && !feedback,
		NoTable: code == server.CodeNoSuchTable, Passing: server.Passing(err), LockWait: code == server.CodeLockWait}
}

// blame reports whether feedback may be why a transaction failed. The first time that others were in the way, it is taken for chance.
func (s *settler) blame(a *relational.Attempt, err error) bool {
	if !a.Fed || server.Answer(err) == nil {
		return false
	}
	if server.Passing(err) {
		s.met++
		return s.met >= 2
	}
	return true
}

// FindRows implements relational.Settler.
func (s *settler) FindRows(ctx context.Context, err error) error {
	var unjudged *unjudgedRows
	errors.As(err, &unjudged)
	return s.judge(ctx, unjudged, s.verdicts)
}

// Replan implements relational.Settler.
func (s *settler) Replan(ctx context.Context) error {
	found, err := usertable.ResolveAll(ctx, s.Session)
	if err == nil {
		s.tables = found
	}
	return err
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

// FindLocked implements relational.Settler: it finds what LOCK TABLES or ALTER TABLE has locked.
func (s *settler) FindLocked(ctx context.Context, _ *relational.Attempt) error {
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
	*relational.Attempt
	s        *Store
	verdicts verdicts
	now      *time.Time // of the server
	known    map[checkpoint.Key]*parkedBefore
	// changes counts the changes by lane, and parks what is parked.
	changes, parks map[checkpoint.Lane]int
}

func (a *attempt) run(ctx context.Context) error {
	b := a.s.Batch()
	a.now = a.s.Begin(b)
	if err := a.change(ctx, b); err != nil {
		return err
	}
	if err := a.dealWithRows(ctx, b); err != nil {
		return err
	}
	if err := a.s.FeedBack(ctx, a.Attempt, a); err != nil {
		return err
	}
	return a.commit(ctx)
}

// change parks, changes what is parked, and carries out a request. What it has queued goes with what follows.
func (a *attempt) change(ctx context.Context, b *session.Batch) error {
	if len(a.In.Park)+len(a.In.Changes) > 0 {
		a.countLanes()
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
	if a.Request != nil {
		if err := a.s.Send(ctx, b); err != nil {
			return err
		}
		if err := a.Request(ctx); err != nil {
			return err
		}
	}
	a.Messages.Collect(a.In, a.Unfinished)
	return nil
}

// dealWithRows deals with users' rows: those of messages without parked deliveries, then, when it is known what is parked
// of the others, theirs.
func (a *attempt) dealWithRows(ctx context.Context, b *session.Batch) error {
	plain := a.workOf(a.PlainRows(a.s.Tables()))
	a.s.QueueHeadsOf(b, a.Lanes.Asked(a.s.Sinks), a.Lanes.Heads)
	a.queueLookup(b)
	if err := a.doPlain(ctx, b, plain); err != nil {
		return err
	}
	always := func(uint64) bool { return true }
	return a.doKnown(ctx, b, a.workOf(a.MessageRows(a.s.Tables(), always)))
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
	} else if a.Request == nil && (a.s.Unclean || a.s.Started) {
		b.Exec(settleStart, a.s.Config.Pipeline)
	}
	b.Exec("COMMIT")
	if err := a.s.Send(ctx, b); err != nil {
		return err
	}
	a.Committed(a.s, c, a.Request != nil)
	return nil
}
