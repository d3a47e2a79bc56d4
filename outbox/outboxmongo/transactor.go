package outboxmongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
)

// A Transactor makes a business change and its messages one transaction.
type Transactor struct {
	writer  *Writer
	client  *mongo.Client
	options *options.TransactionOptionsBuilder
}

// Transactor makes transactions of the client whose messages the writer writes. Options may be nil.
func (w *Writer) Transactor(client *mongo.Client, o *options.TransactionOptionsBuilder) *Transactor {
	return &Transactor{w, client, o}
}

// patience is how long a commit is repeated whose answer is lost.
const patience = time.Minute

// Do runs f in a transaction, writes the messages that f returns, and commits. An error of f or of writing aborts it; so does a
// panic of f, which goes on. The session is in f's context. A conflict with another transaction is for the caller to retry; a commit
// whose answer was lost is committed again, which does it once.
func (t *Transactor) Do(ctx context.Context, f func(ctx context.Context, session *mongo.Session) ([]outbox.Draft, error)) ([]outbox.Written, error) {
	session, err := t.client.StartSession()
	if err != nil {
		return nil, fmt.Errorf("start a session: %w", err)
	}
	// It aborts a transaction that is not committed, also after the context's end.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	defer session.EndSession(last)
	var opts []options.Lister[options.TransactionOptions]
	if t.options != nil {
		opts = append(opts, t.options)
	}
	if err := session.StartTransaction(opts...); err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	inside := mongo.NewSessionContext(ctx, session)
	drafts, err := f(inside, session)
	if err != nil {
		return nil, err
	}
	written, err := t.writer.WriteAll(inside, drafts)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); ; {
		err := session.CommitTransaction(ctx)
		if err == nil {
			return written, nil
		}
		if ctx.Err() != nil || time.Since(start) > patience || !labelled(err, "UnknownTransactionCommitResult") {
			return nil, fmt.Errorf("commit: %w", err)
		}
	}
}

// Retryable reports whether a transaction that failed can be done again.
func (t *Transactor) Retryable(err error) bool { return Retryable(err) }

// Retryable reports whether a transaction failed only because another one ran beside it, or its primary is gone, so that all of it can
// be done again.
func Retryable(err error) bool { return labelled(err, "TransientTransactionError") }

func labelled(err error, label string) bool {
	e, ok := errors.AsType[mongo.LabeledError](err)
	return ok && e.HasErrorLabel(label)
}
