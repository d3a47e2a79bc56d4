// Package outboxsql writes messages to an outbox table of Postgres, MySQL or MariaDB through database/sql, in the
// transaction of the business change:
//
//	w, err := outboxsql.New(ctx, db, outbox.Postgres, table, outbox.Options{}) // once, at the start
//	…
//	id, err := w.Write(ctx, tx, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: "42", Payload: payload})
//
// It imports no driver. Any driver of the three databases will do whose transactions are *sql.Tx, or have its ExecContext and QueryContext.
package outboxsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// Tx is a transaction: a *sql.Tx, a *sqlx.Tx, or anything else that has Commit and Rollback as they do. What has not, such as a *sql.Conn in which
// BEGIN was executed, or a wrapper, costs two further round trips a call, which find out whether a transaction was begun. A pool is refused,
// and so is a connection or a wrapper without a transaction: what is written through them would be committed by itself.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// A Writer writes to one table. It may be used concurrently, with a transaction each.
type Writer struct {
	in      *outbox.Insert
	dialect outbox.Dialect
}

// New looks up the table's columns, through a *sql.DB or anything else that has QueryContext, and makes a writer for it. Make it
// once, when the application starts, and anew when the table has changed.
func New(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, d outbox.Dialect, t outbox.Table, o outbox.Options) (*Writer, error) {
	query, args := d.Catalog(&t)
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", t.Name, err)
	}
	var catalog [][]string
	err = scan(rows, d.CatalogColumns(), func(texts []string) { catalog = append(catalog, texts) })
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", t.Name, err)
	}
	in, err := outbox.NewInsert(d, t, catalog, o)
	if err != nil {
		return nil, err
	}
	return &Writer{in, d}, nil
}

// scan reads rows of n texts, and closes them.
func scan(rows *sql.Rows, n int, each func(texts []string)) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		texts, places := make([]string, n), make([]any, n)
		for i := range texts {
			places[i] = &texts[i]
		}
		if err := rows.Scan(places...); err != nil {
			return err
		}
		each(texts)
	}
	return rows.Err()
}

// Write writes a message in the transaction, and returns its id. A *outbox.DraftError says what the message cannot be
// written for, and a *outbox.DuplicateError that it was written before (unless Draft.Once): after both, the
// transaction can go on, with nothing written. On Postgres any other error has ended it, unless outbox.Options.Savepoint is set.
func (w *Writer) Write(ctx context.Context, tx Tx, d outbox.Draft) (id string, err error) {
	written, err := w.WriteAll(ctx, tx, []outbox.Draft{d})
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// WriteAll writes messages in their order, all of them or, with an error as of Write, none. Ids are made by the writer, and all
// messages written with one statement, unless the id column is a number or a text that the database fills in: that takes a statement each.
func (w *Writer) WriteAll(ctx context.Context, tx Tx, drafts []outbox.Draft) (written []outbox.Written, err error) {
	if pool(tx) {
		return nil, w.outside()
	}
	rows, err := w.in.Rows(drafts)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if err := w.begun(ctx, tx); err != nil {
		return nil, err
	}
	statements := w.in.Statements(rows)
	if !w.guarded(statements) {
		return w.execute(ctx, tx, statements)
	}
	release, err := w.savepoint(ctx, tx)
	if err != nil {
		return nil, err
	}
	written, err = w.execute(ctx, tx, statements)
	if err := release(err); err != nil {
		return nil, err
	}
	return written, nil
}

// guarded reports whether it takes a savepoint to leave nothing behind when writing fails. If it does not, one statement writes all or
// nothing.
func (w *Writer) guarded(statements []outbox.Statement) bool {
	o := w.in.Options()
	if len(statements) > 1 || o.DeleteAtOnce || o.Savepoint && w.dialect == outbox.Postgres {
		return true
	}
	rows := statements[0].Rows
	return len(rows) > 1 && slices.ContainsFunc(rows, (*outbox.Row).Conflicts)
}

// savepoint begins to guard; release ends it, and undoes what was done where that has failed.
func (w *Writer) savepoint(ctx context.Context, tx Tx) (release func(error) error, err error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT tailbox_write"); err != nil {
		return nil, fmt.Errorf("make a savepoint: %w", err)
	}
	return func(failed error) error {
		// The transaction must be usable even if the caller's time for writing is over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if failed != nil {
			if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT tailbox_write"); err != nil {
				return errors.Join(failed, fmt.Errorf("roll back to the savepoint: %w", err))
			}
		}
		if _, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT tailbox_write"); err != nil {
			return errors.Join(failed, fmt.Errorf("release the savepoint: %w", err))
		}
		return failed
	}, nil
}

// A writing is one call of WriteAll.
type writing struct {
	*Writer
	tx      Tx
	written []outbox.Written
}

func (w *Writer) execute(ctx context.Context, tx Tx, statements []outbox.Statement) ([]outbox.Written, error) {
	r := writing{Writer: w, tx: tx}
	for _, st := range statements {
		before := len(r.written)
		var err error
		if w.dialect == outbox.MySQL {
			err = r.mysql(ctx, st)
		} else {
			err = r.postgres(ctx, st)
		}
		if err != nil {
			return nil, err
		}
		if w.in.Options().DeleteAtOnce {
			if err := r.erase(ctx, r.written[before:]); err != nil {
				return nil, err
			}
		}
	}
	return r.written, nil
}

func (r *writing) add(id string) { r.written = append(r.written, outbox.Written{ID: id}) }

func (r *writing) failed(err error) error {
	return fmt.Errorf("write to table %s: %w", r.in.Table().Name, err)
}

// erase deletes what was written.
func (r *writing) erase(ctx context.Context, written []outbox.Written) error {
	var ids []string
	for _, w := range written {
		if !w.Duplicate {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	query, args, err := r.in.Erase(ids)
	if err != nil {
		return err
	}
	if _, err := r.tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("delete from table %s what was written: %w", r.in.Table().Name, err)
	}
	return nil
}

// first finds the row that made another one a duplicate; ok is false if there is none any more.
func (r *writing) first(ctx context.Context, row *outbox.Row) (l outbox.Lookup, id string, ok bool, err error) {
	for _, l := range r.in.Lookups(row) {
		rows, err := r.tx.QueryContext(ctx, l.SQL, l.Args...)
		if err == nil {
			err = scan(rows, 1, func(texts []string) { id, ok = r.in.ReadID(texts[0]), true })
		}
		if err != nil {
			return l, "", false, fmt.Errorf("look for the first message with %s %q: %w", l.Column, l.Value, err)
		}
		if ok {
			return l, id, true, nil
		}
	}
	return outbox.Lookup{}, "", false, nil
}

// duplicate notes a row that was found to be one.
func (r *writing) duplicate(row *outbox.Row, l outbox.Lookup, first string) error {
	if !row.Once() || l.Column != r.in.KeyColumn() {
		return r.in.Duplicate(l, first, len(r.written))
	}
	r.written = append(r.written, outbox.Written{ID: first, Duplicate: true})
	return nil
}
