package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/relational"
)

// errMiscounted begins a settlement anew because not all rows were there, and nothing told which.
var errMiscounted = errors.New("some rows were not there")

// errMoved begins a settlement anew because another session changed a row while a statement waited for it.
var errMoved = errors.New("some rows were changed meanwhile")

// Settle makes outcomes durable in one transaction. It takes two round trips, and a third where deliveries are parked.
func (s *Store) Settle(ctx context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	return s.Core.Settle(ctx, fitSettlement(s.encoding, in))
}

// Awaited implements relational.Database. A lock on a partition counts.
func (s *Store) Awaited(ctx context.Context, locked map[string]bool) (yes bool, err error) {
	if len(locked) == 0 {
		return false, nil
	}
	var names []string
	for _, t := range s.tables.Order {
		if locked[t.String()] {
			names = append(names, t.SQL)
		}
	}
	err = s.Conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks l, unnest($1::text[]) n WHERE l.locktype = 'relation' AND NOT l.granted
		AND l.mode = 'AccessExclusiveLock' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (l.relation = to_regclass(n) OR l.relation IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(n))))`, names).Scan(&yes)
	if err != nil {
		return false, s.Fault("look who waits for a table", err)
	}
	return yes, nil
}

// A settler implements relational.Settler.
type settler struct {
	*Store
	// locked are the tables that others have locked as a whole. lockWait sets the lock_timeout of attempts that pass over locked rows.
	locked   map[string]bool
	lockWait string
}

// Settler implements relational.Database.
func (s *Store) Settler(ctx context.Context) (relational.Settler, error) {
	locked, err := s.locks.still(ctx, s.tables.Order)
	return &settler{s, locked, shortWait}, err
}

// Attempt implements relational.Settler.
func (s *settler) Attempt(ctx context.Context, of *relational.Attempt) error {
	of.LockedTables = s.locked
	a := &attempt{Attempt: of, s: s.Store, named: of.SkipLocked || s.named, lockWait: s.lockWait}
	if err := a.run(ctx); err != nil {
		return err
	}
	s.named, s.locks.found = a.missed, s.locked
	return nil
}

// Rollback implements relational.Settler.
func (s *settler) Rollback(ctx context.Context) error { return s.rollback(ctx) }

// Trouble implements relational.Settler.
func (s *settler) Trouble(a *relational.Attempt, err error) relational.Trouble {
	state := pgerr.State(err)
	return relational.Trouble{Rows: errors.Is(err, errMiscounted), Stale: pgerr.StalePlan(err), Feedback: a.Fed && state != "" && !pgerr.Passing(err),
		NoTable: state == pgerr.NoSuchTable, Passing: pgerr.Passing(err) || errors.Is(err, errMoved), LockWait: state == pgerr.LockNotAvailable}
}

// FindRows implements relational.Settler: the next statements name the rows that they find.
func (s *settler) FindRows(context.Context, error) error {
	s.named = true
	return nil
}

// Replan implements relational.Settler: it forgets prepared statements and looks the tables up again. Whoever altered one table may be at the
// next one.
func (s *settler) Replan(ctx context.Context) (err error) {
	if err := s.Conn.DeallocateAll(ctx); err != nil {
		return s.Fault("forget prepared statements", err)
	}
	if s.tables, err = usertable.ResolveAll(ctx, s.Conn, &s.Cfg); err != nil {
		return err
	}
	clear(s.prepared.of)
	s.SkipLocked = true
	return nil
}

// FindLocked implements relational.Settler.
func (s *settler) FindLocked(ctx context.Context, a *relational.Attempt) error {
	found, err := s.lockedMore(ctx)
	if err != nil {
		return err
	}
	if !s.locks.requests && len(s.Failures()) > 0 { // failures of feedback are written to the table of requests
		if err := s.locks.lookAtRequests(ctx, s.Names.Request); err != nil {
			return err
		}
	}
	if a.SkipLocked && !found {
		s.lockWait = longWait // it is one of our own tables, which we cannot pass over
	}
	return nil
}

// lockedMore adds the tables that are locked as a whole (ALTER TABLE, TRUNCATE, VACUUM FULL), and tells whether there are new ones.
func (s *settler) lockedMore(ctx context.Context) (found bool, err error) {
	for _, t := range s.tables.Order {
		if !t.Written() || s.locked[t.String()] {
			continue
		}
		switch err := s.locks.try(ctx, t.SQL); {
		case err == nil:
		case pgerr.State(err) == pgerr.LockNotAvailable:
			s.locked[t.String()], found = true, true
		default:
			return false, s.Fault("look whether table "+t.String()+" is locked", err)
		}
	}
	return found, nil
}

// An attempt is one transaction of a settlement.
type attempt struct {
	*relational.Attempt
	s *Store
	// named: statements tell which rows were there, in place of how many. Missed: a row was not there.
	named, missed bool
	lockWait      string
	// rolePath: statements run with the role's search path, not the session's. touched: statements have written to users' tables with it.
	rolePath, touched bool

	snap  snapshot
	work  []*rowWork         // plain rows, then those of messages
	super []store.MessageKey // messages of which deliveries became dead because newer ones were parked
	now   time.Time          // of the server, once lanes were looked at
}

// Values of lock_timeout while locked rows are passed over: shortWait soon finds a table that is locked as a whole.
const (
	shortWait = "SET LOCAL lock_timeout = '50ms'"
	longWait  = "SET LOCAL lock_timeout = '2s'"
)

func (a *attempt) run(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	if err := a.dealWithRows(ctx); err != nil {
		return err
	}
	if err := a.s.FeedBack(ctx, a.Attempt, a); err != nil {
		return err
	}
	return a.commit(ctx)
}

// begin is the first round trip: parks, changes, the rows of messages without parked deliveries, and a look at what is
// parked of the others.
func (a *attempt) begin(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	if a.SkipLocked {
		b.Queue(a.lockWait)
	}
	b, err := a.queueParks(ctx, b)
	if err != nil {
		return err
	}
	a.queueChanges(b)
	if super := store.Superseding(a.Altered); len(super.Order) > 0 || a.Request != nil {
		a.queueSupersede(b, &super)
		if err := a.s.send(ctx, b); err != nil {
			return err
		}
		b = &pgx.Batch{}
	}
	if a.Request != nil {
		if err := a.Request(ctx); err != nil {
			return err
		}
	}
	a.Messages.Collect(a.In, a.Unfinished)
	for _, key := range a.super {
		a.Messages.Of(key)
	}
	a.queueLanes(b)
	a.queueLookup(b)
	rows := &pgx.Batch{}
	if err := a.queueRows(rows, a.PlainRows(a.s.Tables())); err != nil {
		return err
	}
	// The snapshot is taken before the statements about rows. If they miss a row whose transaction is visible in the snapshot, the row is gone,
	// because they could have seen it.
	var text string
	b.Queue("SELECT pg_current_snapshot()::text").QueryRow(func(r pgx.Row) error { return r.Scan(&text) })
	a.queueTouching(b, rows)
	if err := a.s.send(ctx, b); err != nil {
		return err
	}
	a.snap, err = parseSnapshot(text)
	return err
}

// dealWithRows is the round trip for rows of messages with parked deliveries, and finds out about rows that were not there.
func (a *attempt) dealWithRows(ctx context.Context) error {
	if err := a.queueMessages(ctx); err != nil {
		return err
	}
	return a.judgeMissing(ctx)
}

// queueTouching adds statements that write to users' tables, whose triggers have the role's path.
func (a *attempt) queueTouching(b, rows *pgx.Batch) {
	if rows.Len() == 0 {
		return
	}
	if !a.rolePath {
		b.Queue(a.s.path.Set())
	}
	b.QueuedQueries = append(b.QueuedQueries, rows.QueuedQueries...)
	a.rolePath, a.touched = true, true
}

// queuePinned adds what brings the session's path back.
func (a *attempt) queuePinned(b *pgx.Batch) {
	if a.rolePath {
		b.Queue(session.PinPathLocal)
	}
	a.rolePath = false
}

// commit is the last round trip: what follows from the rows, the checkpoint, and COMMIT. Deferred triggers run with the role's path. A change of the
// path costs the server as much as a row, so if only the checkpoint follows, it is saved under the role's path.
func (a *attempt) commit(ctx context.Context) error {
	follows := &pgx.Batch{}
	a.queueTimes(follows)
	a.queueCleanup(follows)
	a.queueFailures(follows)
	c := a.Checkpoint()
	b := &pgx.Batch{}
	if follows.Len() > 0 || c != nil && !a.s.onlySaves(c) {
		a.queuePinned(b)
	}
	b.QueuedQueries = append(b.QueuedQueries, follows.QueuedQueries...)
	if c != nil {
		a.s.queueCheckpoint(b, c)
	} else if a.Request == nil && (a.s.Unclean || a.s.Started) {
		b.Queue(a.s.SQL(settleStart), a.s.Cfg.Pipeline)
	}
	if a.touched && !a.rolePath {
		b.Queue(a.s.path.Set())
	}
	b.Queue("COMMIT")
	if err := a.s.send(ctx, b); err != nil {
		return err
	}
	a.Committed(a.s, c, a.Request != nil)
	return nil
}
