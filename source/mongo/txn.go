package mongo

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	transientLabel = "TransientTransactionError"
	unknownLabel   = "UnknownTransactionCommitResult"

	// A transaction that met another one is tried again after firstPause, which doubles up to longestPause.
	firstPause   = 2 * time.Millisecond
	longestPause = 100 * time.Millisecond
	// commitTries bounds how often a commit is sent again whose answer was lost. Committing again is safe: the server
	// knows the transaction by its number.
	commitTries = 8
)

// begin starts a transaction that sees everything up to a time.
func (s *stateStore) begin(after opTime) error {
	if after > 0 {
		at := after.timestamp()
		if err := s.session.AdvanceOperationTime(&at); err != nil {
			return err
		}
	}
	return s.session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()))
}

// commit makes a transaction durable at a majority. An error with transientLabel means that nothing of it was done.
func (s *stateStore) commit(ctx context.Context) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := s.session.CommitTransaction(ctx)
		if err == nil || !hasLabel(err, unknownLabel) || hasLabel(err, transientLabel) || try == commitTries {
			return err
		}
		if err := sleep(ctx, &pause); err != nil {
			return err
		}
	}
}

// abort ends a transaction that failed. Where the server cannot be told, it ends with the session, or when the next
// transaction of the session begins.
func (s *stateStore) abort(ctx context.Context) error {
	err := s.session.AbortTransaction(ctx)
	if errors.Is(err, mongo.ErrClientDisconnected) || hasLabel(err, transientLabel) {
		return nil
	}
	return err
}

// sleep pauses, and doubles the pause.
func sleep(ctx context.Context, pause *time.Duration) error {
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

// proveLease changes the lease, as the last command of every transaction: the transaction is void if another relay has it.
// set is what else changes in the pipeline's document.
func (s *stateStore) proveLease(ctx context.Context, set bson.D) error {
	set = append(set, bson.E{Key: "lease_expires_at", Value: leaseUntil()}, bson.E{Key: "updated_at", Value: "$$NOW"})
	res, err := s.checkpoints.UpdateOne(ctx, s.heldFilter(), bson.A{bson.D{{Key: "$set", Value: set}}})
	if err != nil {
		return err
	}
	if res.MatchedCount == 0 {
		return errLeaseLost
	}
	return nil
}

// literal keeps a value from being read as an expression.
func literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }
