package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// Settle makes outcomes durable in one transaction. It takes two round trips, and two more where deliveries are parked.
//
// Rows whose transaction is in the log and not in the table yet are locked by it: the first try waits for them, where the
// server tells when they are free. Applications may lock rows of their table for longer. A settlement does not wait for
// them: it begins anew, passes over locked rows (FOR UPDATE SKIP LOCKED), and reports them as invisible, because they are
// there and nothing was done about them. What is passed over without being there is asked for once more, alone.
func (s *stateStore) Settle(ctx context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if len(in.Park)+len(in.Changes)+len(in.Rows) == 0 {
		return store.SettleCheckpoint(ctx, in, s.Save)
	}
	a, err := s.settle(ctx, in, nil, nil)
	if err != nil {
		return nil, err
	}
	a.out.Awaited, err = s.awaited(ctx, a.lockedTables)
	return a.out, err
}

// settle is Settle, which also deals with the rows of unfinished messages, or carries out a request: then inside runs within
// the transaction, and adds the messages and lanes that it has touched to the attempt. It runs again where the transaction
// does.
func (s *stateStore) settle(ctx context.Context, in *checkpoint.Settlement, unfinished []store.MessageKey,
	inside func(context.Context, *attempt) error,
) (*attempt, error) {
	verdicts, replanned := make(verdicts), false
	var unfed error
	met := 0
	for try := 1; ; {
		a := &attempt{s: s, in: in, unfinished: unfinished, passLocked: s.cautious, verdicts: verdicts, inside: inside,
			lockedTables: s.tablesLocked(), unfed: unfed}
		err := a.run(ctx)
		if err == nil {
			s.cautious = a.passLocked && (a.metLocked || len(a.lockedTables) > 0)
			s.feedback.report.Settled()
			return a, nil
		}
		if rerr := s.rollback(ctx); rerr != nil {
			return nil, s.fault("settle", errors.Join(err, rerr))
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
		case staleTable(err) && !replanned:
			replanned = true
			if err := s.resolveTables(ctx); err != nil {
				return nil, err
			}
			continue
		case errorCode(err) == errNoSuchTable && try < store.SettleTries:
			if err := store.AwaitTable(ctx); err != nil {
				return nil, err
			}
		case !passingTrouble(err) || try == store.SettleTries:
			return nil, s.fault("settle", err)
		case errorCode(err) == errLockWait:
			if err := s.findLocked(ctx); err != nil {
				return nil, err
			}
		}
		s.cautious = true
		try++
	}
}

// tablesLocked are the tables that are taken to be locked as a whole.
func (s *stateStore) tablesLocked() map[string]bool {
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
func (s *stateStore) findLocked(ctx context.Context) error {
	for _, t := range s.tables.order {
		if _, known := s.lockedTables[t.String()]; known || !t.written() {
			continue
		}
		b := s.batch()
		b.exec("SELECT 1 FROM " + t.sql + " WHERE FALSE FOR UPDATE")
		switch err := s.send(ctx, b); {
		case err == nil:
		case errorCode(err) == errLockWait:
			s.lockedTables[t.String()] = time.Now().Add(store.LockedFor)
		default:
			return s.fault("look whether table "+t.String()+" is locked", err)
		}
	}
	return nil
}

// An attempt is one transaction of a settlement.
type attempt struct {
	s          *stateStore
	in         *checkpoint.Settlement
	unfinished []store.MessageKey
	inside     func(context.Context, *attempt) error
	// passLocked: locked rows are passed over, and lockedTables altogether. Verdicts are what is known of rows that were
	// passed over.
	passLocked   bool
	lockedTables map[string]bool
	verdicts     verdicts
	// fed: business rows were told. Unfed is why they are not.
	fed   bool
	unfed error

	out     *checkpoint.Settled
	now     *time.Time // of the server
	known   map[checkpoint.Key]*parkedBefore
	msgs    store.Messages
	altered []*checkpoint.Change // changes that did not remove a delivery
	// superseded are deliveries that became dead because newer ones were parked, or an operator skipped them.
	superseded []checkpoint.Key
	lanes      store.LaneSet
	changed    map[checkpoint.Lane]int // Changes by lane, without those of deliveries that are lanes of their own
	states     []store.LaneState
	skipped    map[int]bool // indexes of Rows that are not visible, or locked
	metLocked  bool
	// was are the first deliveries of lanes before this settlement, heads those after it. wanted are the times that
	// deliveries get if they turn out to be the first.
	was, heads map[checkpoint.Lane]*laneHead
	wanted     map[checkpoint.Key]time.Duration
}

func (a *attempt) run(ctx context.Context) error {
	a.out = &checkpoint.Settled{}
	a.skipped = make(map[int]bool)
	a.changed = make(map[checkpoint.Lane]int)
	a.known = make(map[checkpoint.Key]*parkedBefore)
	a.was, a.heads = make(map[checkpoint.Lane]*laneHead), make(map[checkpoint.Lane]*laneHead)
	a.wanted = make(map[checkpoint.Key]time.Duration)
	b := a.s.batch()
	a.now = a.s.begin(b)
	if err := a.change(ctx, b); err != nil {
		return err
	}
	if err := a.dealWithRows(ctx, b); err != nil {
		return err
	}
	if err := a.feedBack(ctx); err != nil {
		return err
	}
	if err := a.commit(ctx); err != nil {
		return err
	}
	store.Report(a.out, a.lanes.Order, a.states, a.changed, a.s.held)
	return nil
}

// change parks, changes what is parked, and carries out a request. What it has queued goes with what follows.
func (a *attempt) change(ctx context.Context, b *batch) error {
	if len(a.in.Park)+len(a.in.Changes) > 0 {
		a.queueKnown(b)
		if err := a.s.send(ctx, b); err != nil {
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
		if err := a.s.send(ctx, b); err != nil {
			return err
		}
		if err := a.inside(ctx, a); err != nil {
			return err
		}
	}
	a.msgs.Collect(a.in, a.unfinished)
	return nil
}

// dealWithRows deals with users' rows: those of messages without parked deliveries, then, when it is known what is parked
// of the others, theirs.
func (a *attempt) dealWithRows(ctx context.Context, b *batch) error {
	plain := a.plainRows()
	a.queueLanes(b)
	a.queueLookup(b)
	if err := a.doPlain(ctx, b, plain); err != nil {
		return err
	}
	return a.doKnown(ctx, b, a.messageRows())
}

// commit is the last round trip: what follows from the rows, the checkpoint, and COMMIT.
func (a *attempt) commit(ctx context.Context) error {
	b := a.s.batch()
	a.queueHeads(b)
	a.queueCleanup(b)
	a.queueFailures(b)
	for i := range a.in.Rows {
		if a.skipped[i] {
			a.out.Invisible = append(a.out.Invisible, i)
		}
	}
	var c *checkpoint.Checkpoint
	if a.in.Checkpoint != nil {
		c = a.in.Checkpoint(a.out.Invisible)
	}
	if c != nil {
		a.s.queueCheckpoint(b, c)
	} else if a.inside == nil && (a.s.unclean || a.s.started) {
		b.exec(settleStart, a.s.cfg.Pipeline)
	}
	b.exec("COMMIT")
	if err := a.s.send(ctx, b); err != nil {
		return err
	}
	if a.inside == nil {
		a.s.settledOnce()
	}
	if c != nil {
		a.s.saved(c)
		a.out.Saved = true
	}
	return nil
}
