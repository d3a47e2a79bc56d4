package outboxsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// A Transactor makes a business change and its messages one transaction.
type Transactor struct {
	writer  *Writer
	db      *sql.DB
	options *sql.TxOptions
}

// Transactor makes transactions of the database whose messages the writer writes. Options may be nil.
func (w *Writer) Transactor(db *sql.DB, options *sql.TxOptions) *Transactor {
	return &Transactor{w, db, options}
}

// Do runs f in a transaction, writes the messages that f returns, and commits. An error of f, of writing or of the commit rolls
// it back; so does a panic of f, which goes on.
func (t *Transactor) Do(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) ([]outbox.Draft, error)) (written []outbox.Written, err error) {
	tx, err := t.db.BeginTx(ctx, t.options)
	if err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		if failed := tx.Rollback(); failed != nil && !errors.Is(failed, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("roll back: %w", failed))
		}
	}()
	drafts, err := f(ctx, tx)
	if err != nil {
		return nil, err
	}
	if written, err = t.writer.WriteAll(ctx, tx, drafts); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	committed = true
	return written, nil
}

// Retryable reports whether a transaction that failed can be done again.
func (t *Transactor) Retryable(err error) bool { return Retryable(err) }
