// Package outboxgorm writes messages to an outbox table of Postgres, MySQL or MariaDB through gorm, in the transaction of the
// business change:
//
//	w, err := outboxgorm.New(db, table, outbox.Options{}) // once, at the start
//	…
//	db.Transaction(func(tx *gorm.DB) error {
//		…
//		_, err := w.Write(tx, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: "42", Payload: payload})
//		return err
//	})
//
// It is a Go module of its own, so that nobody depends on gorm who does not use it.
package outboxgorm

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxsql"
)

// A Writer writes to one table. It may be used concurrently, with a transaction each.
type Writer struct {
	sql  *outboxsql.Writer
	name string
}

// New looks up the table's columns, and makes a writer for it. Make it once, when the application starts, and anew when the table has
// changed.
func New(db *gorm.DB, t outbox.Table, o outbox.Options) (*Writer, error) {
	dialect := outbox.Dialect(db.Name())
	if dialect != outbox.Postgres && dialect != outbox.MySQL {
		return nil, fmt.Errorf("write to table %s: gorm's dialect is %q: there are writers for %s and %s (also MariaDB)", t.Name, dialect, outbox.Postgres, outbox.MySQL)
	}
	w, err := outboxsql.New(contextOf(db), traced{db, db.Statement.ConnPool}, dialect, t, o)
	if err != nil {
		return nil, err
	}
	return &Writer{w, t.Name}, nil
}

// Write writes a message in the transaction, under its context, and returns its id. A *outbox.DraftError says what the message cannot be
// written for, and a *outbox.DuplicateError that it was written before (unless Draft.Once): after both, the
// transaction can go on, with nothing written. On Postgres any other error has ended it, unless outbox.Options.Savepoint is set.
func (w *Writer) Write(tx *gorm.DB, d outbox.Draft) (id string, err error) {
	written, err := w.WriteAll(tx, []outbox.Draft{d})
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// WriteAll writes messages in their order, all of them or, with an error as of Write, none.
func (w *Writer) WriteAll(tx *gorm.DB, drafts []outbox.Draft) ([]outbox.Written, error) {
	if tx.Error != nil {
		return nil, fmt.Errorf("write to table %s: the transaction has failed before: %w", w.name, tx.Error)
	}
	if tx.DryRun {
		return nil, fmt.Errorf("write to table %s: the session is a dry run: %w", w.name, gorm.ErrDryRunModeUnsupported)
	}
	pool := tx.Statement.ConnPool
	committer, ok := pool.(gorm.TxCommitter)
	if !ok {
		return nil, fmt.Errorf("write to table %s: %w", w.name, outbox.ErrNoTransaction)
	}
	// Statements of many rows would fill gorm's cache of prepared ones, and savepoints cannot be prepared in MySQL.
	if prepared, ok := pool.(*gorm.PreparedStmtTX); ok {
		pool = prepared.Tx
	}
	// The committer shows that it is a transaction, which the writer would ask the database for otherwise.
	return w.sql.WriteAll(contextOf(tx), struct {
		traced
		gorm.TxCommitter
	}{traced{tx, pool}, committer}, drafts)
}

func contextOf(db *gorm.DB) context.Context {
	if ctx := db.Statement.Context; ctx != nil {
		return ctx
	}
	return context.Background()
}

// traced shows statements to gorm's logger as gorm's own are shown, but for their values, which stay out of logs.
type traced struct {
	db   *gorm.DB
	pool gorm.ConnPool
}

func (t traced) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	begin := time.Now()
	result, err := t.pool.ExecContext(ctx, query, args...)
	var n int64
	if err == nil {
		var unknown error
		if n, unknown = result.RowsAffected(); unknown != nil {
			n = -1
		}
	}
	t.db.Logger.Trace(ctx, begin, func() (string, int64) { return query, n }, err)
	return result, err
}

func (t traced) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	begin := time.Now()
	rows, err := t.pool.QueryContext(ctx, query, args...)
	t.db.Logger.Trace(ctx, begin, func() (string, int64) { return query, -1 }, err)
	return rows, err
}

// A Transactor makes a business change and its messages one transaction.
type Transactor struct {
	writer  *Writer
	db      *gorm.DB
	options *sql.TxOptions
}

// Transactor makes transactions of the database whose messages the writer writes. Options may be nil.
func (w *Writer) Transactor(db *gorm.DB, options *sql.TxOptions) *Transactor {
	return &Transactor{w, db, options}
}

// Do runs f in a transaction, writes the messages that f returns, and commits. An error of f, of writing or of the commit rolls
// it back; so does a panic of f, which goes on.
func (t *Transactor) Do(ctx context.Context, f func(ctx context.Context, tx *gorm.DB) ([]outbox.Draft, error)) (written []outbox.Written, err error) {
	var options []*sql.TxOptions
	if t.options != nil {
		options = append(options, t.options)
	}
	err = t.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		drafts, err := f(ctx, tx)
		if err != nil {
			return err
		}
		written, err = t.writer.WriteAll(tx, drafts)
		return err
	}, options...)
	if err != nil {
		return nil, err
	}
	return written, nil
}

// Retryable reports whether a transaction that failed can be done again.
func (t *Transactor) Retryable(err error) bool { return Retryable(err) }

// Retryable reports whether a transaction failed only because another one ran beside it, so that all of it can be done again.
func Retryable(err error) bool { return outboxsql.Retryable(err) }
