package store

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/source/store"
)

// settleTries bounds how often a settlement is begun anew because of other transactions.
const settleTries = 10

// Settle makes outcomes durable in one transaction. The common one, without parked deliveries, is a command for each table,
// one for the lease with the checkpoint, and the commit.
//
// Applications may have documents of their table changed in an open transaction; a write to such a document ends ours. Then
// it is found out which ones these are, the settlement begins anew without them, and reports them as invisible, because they
// are there and nothing was done about them. Otherwise none is: what the change stream shows is committed by a majority, and the
// transaction's snapshot is one after it.
func (s *Store) Settle(ctx context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if len(in.Park)+len(in.Changes)+len(in.Rows) == 0 {
		return store.SettleCheckpoint(ctx, in, s.Save)
	}
	a, err := s.settle(ctx, in, nil, nil)
	if err != nil {
		return nil, err
	}
	return a.Out, nil
}

// settle is Settle, which also deals with the documents of unfinished messages, or carries out a request: then inside runs
// within the transaction, and adds the messages and lanes that it has touched to the attempt. It runs again where the
// transaction does.
func (s *Store) settle(ctx context.Context, in *checkpoint.Settlement, unfinished []store.MessageKey,
	inside func(context.Context, *attempt) error,
) (*attempt, error) {
	locked := make(map[store.MessageKey]bool)
	pause := lease.FirstPause
	untold := &untold{}
	for try := 1; ; try++ {
		a := &attempt{Attempt: store.NewAttempt(in, unfinished), s: s, inside: inside, locked: locked, untold: untold}
		sent := time.Now()
		err := a.run(ctx)
		if err == nil {
			s.lease.Proved(sent)
			s.feedback.report.Settled()
			return a, nil
		}
		if s.lease.Running() {
			if aerr := s.lease.Abort(ctx); aerr != nil {
				return nil, conn.Fault("settle", errors.Join(err, aerr))
			}
		}
		if untold.blame(err) {
			if err := lease.Sleep(ctx, &pause); err != nil {
				return nil, err
			}
			try--
			continue
		}
		if !conn.HasLabel(err, conn.TransientLabel) || try == settleTries {
			return nil, conn.Fault("settle", err)
		}
		if err := lease.Sleep(ctx, &pause); err != nil {
			return nil, err
		}
		if !conn.HasCode(err, conn.CodeWriteConflict, conn.CodeLockTimeout) {
			continue
		}
		if try >= settleTries/2 {
			// Others are faster than we can look: all documents of the application wait for the next settlement.
			lockAll(a.work, locked)
			continue
		}
		if err := s.findLocked(ctx, a.work, locked); err != nil {
			return nil, conn.Fault("look for locked documents", err)
		}
	}
}

// An attempt is one transaction of a settlement.
//
// Nobody but the lease's holder changes tailbox_parked, and the transaction is a snapshot. So what is parked of the messages in
// question is read once, changed in memory, and written as a whole.
type attempt struct {
	store.Attempt
	s      *Store
	inside func(context.Context, *attempt) error
	locked map[store.MessageKey]bool // documents of the user's that others have locked

	now    time.Time           // by the server's clock, once it was asked for
	parks  []checkpoint.Parked // in.Park, each with an identity of its own
	msgs   map[store.MessageKey]*settled
	order  []*settled
	writes writes
	work   []*rowWork
	untold *untold // what business documents are not told
}

func (a *attempt) run(ctx context.Context) error {
	a.msgs = make(map[store.MessageKey]*settled)
	if len(a.In.Park)+len(a.In.Changes) > 0 || a.inside != nil {
		var err error
		if a.now, err = conn.Now(ctx, a.s.client); err != nil {
			return err
		}
	}
	if err := a.s.lease.Begin(a.after()); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{a.change, a.rows, a.feedBack, a.cleanUp, a.putLanesInOrder, a.finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// after is the highest time of a transaction whose rows are settled.
func (a *attempt) after() oplog.Time {
	var at oplog.Time
	for i := range a.In.Rows {
		if r := &a.In.Rows[i]; r.Txn != 0 {
			at = max(at, oplog.Time(r.Position.Commit))
		}
	}
	return at
}

// change parks deliveries and alters those that are parked.
func (a *attempt) change(ctx context.Context) error {
	a.collectMessages()
	if err := a.readViews(ctx); err != nil {
		return err
	}
	a.parks = store.OwnIDs(a.In.Park, true, func(k checkpoint.Key) store.Place {
		if v := a.known(store.KeyOfMessage(k)).at(k.Sink); v != nil {
			return store.Place{Position: v.Position, Detached: v.Detached()}
		}
		return store.Place{}
	})
	for i := range a.parks {
		a.known(store.KeyOfMessage(a.parks[i].Key()))
	}
	if err := a.readViews(ctx); err != nil {
		return err
	}
	if err := a.park(ctx); err != nil {
		return err
	}
	a.applyChanges()
	if err := a.supersede(ctx); err != nil {
		return err
	}
	if a.inside == nil {
		return nil
	}
	if err := a.inside(ctx, a); err != nil {
		return err
	}
	return a.readViews(ctx)
}

// finish is the end of the transaction: the checkpoint, the lease, and the commit.
func (a *attempt) finish(ctx context.Context) error {
	s := a.s
	c := a.Checkpoint()
	var set bson.D
	switch {
	case c != nil:
		if c.Log != s.Log && s.Gap != 0 {
			if err := s.acceptGap(ctx); err != nil {
				return err
			}
		}
		set = checkpointFields(c)
	case a.inside == nil && (s.Unclean || s.Started):
		set = cleanFields()
	}
	if err := s.lease.Prove(ctx, set); err != nil {
		return err
	}
	if err := s.lease.Commit(ctx); err != nil {
		return err
	}
	a.Committed(s, c, a.inside != nil)
	return nil
}
