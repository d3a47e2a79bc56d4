package lease

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

const (
	unknownLabel = "UnknownTransactionCommitResult"

	// FirstPause is how long a transaction waits that met another one, before it is tried again. The pause doubles up to longestPause.
	FirstPause   = 2 * time.Millisecond
	longestPause = 100 * time.Millisecond
	// commitTries bounds how often a commit is sent again whose answer was lost. Committing again is safe: the server
	// knows the transaction by its number.
	commitTries = 8
)

// Begin starts a transaction that sees everything up to a time.
func (s *Session) Begin(after oplog.Time) error {
	if after > 0 {
		at := after.Timestamp()
		if err := s.session.AdvanceOperationTime(&at); err != nil {
			return err
		}
	}
	return s.session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()))
}

// Commit makes a transaction durable at a majority. An error with TransientLabel means that nothing of it was done.
func (s *Session) Commit(ctx context.Context) error {
	pause := FirstPause
	for try := 1; ; try++ {
		err := s.session.CommitTransaction(ctx)
		if err == nil || !conn.HasLabel(err, unknownLabel) || conn.HasLabel(err, conn.TransientLabel) || try == commitTries {
			return err
		}
		if err := Sleep(ctx, &pause); err != nil {
			return err
		}
	}
}

// Abort ends a transaction that failed. If the server cannot be told, it ends with the session, or when the next
// transaction of the session begins.
func (s *Session) Abort(ctx context.Context) error {
	err := s.session.AbortTransaction(ctx)
	if errors.Is(err, mongo.ErrClientDisconnected) || conn.HasLabel(err, conn.TransientLabel) {
		return nil
	}
	return err
}

// Running reports whether a transaction was begun that has not ended.
func (s *Session) Running() bool { return s.session.TransactionRunning() }

// Sleep pauses, and doubles the pause.
func Sleep(ctx context.Context, pause *time.Duration) error {
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(2**pause, longestPause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Prove changes the lease, as the last command of every transaction: the transaction is void if another relay has it.
// set is what else changes in the pipeline's document.
func (s *Session) Prove(ctx context.Context, set bson.D) error {
	set = append(set, bson.E{Key: "lease_expires_at", Value: until()}, bson.E{Key: "updated_at", Value: "$$NOW"})
	res, err := s.checkpoints.UpdateOne(ctx, s.Held(), bson.A{bson.D{{Key: "$set", Value: set}}})
	if err != nil {
		return err
	}
	if res.MatchedCount == 0 {
		return ErrLost
	}
	return nil
}
