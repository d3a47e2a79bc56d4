package outboxpgx

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
)

// errSuppressed: a row was not written, and nothing tells why.
var errSuppressed = errors.New("the database left the row out, and no row has its id or idempotency key: look for a trigger or rule that suppresses it, " +
	"or for another unique index")

// settle notes what became of the rows of a statement.
func (r *writing) settle(ctx context.Context, st outbox.Statement, got result) error {
	if len(st.Rows) == 1 && st.Returns && len(got.ids) == 1 {
		r.add(got.ids[0])
		return nil
	}
	for _, row := range st.Rows {
		if got.n == len(st.Rows) || slices.Contains(got.ids, row.ID) {
			r.add(row.ID)
			continue
		}
		if err := r.missing(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

func (r *writing) add(id string) { r.written = append(r.written, outbox.Written{ID: id}) }

// missing deals with a row that was not written: it is a duplicate, or was one of a row that is gone by now.
func (r *writing) missing(ctx context.Context, row *outbox.Row) error {
	for _, l := range r.in.Lookups(row) {
		found, err := r.ids(r.tx.Query(ctx, l.SQL, l.Args...))
		if err != nil {
			return fmt.Errorf("look for the first message with %s %q: %w", l.Column, l.Value, err)
		}
		if len(found) == 0 {
			continue
		}
		if !row.Once() || l.Column != r.in.KeyColumn() {
			return r.in.Duplicate(l, found[0], len(r.written))
		}
		r.written = append(r.written, outbox.Written{ID: found[0], Duplicate: true})
		return nil
	}
	got, err := r.one(ctx, r.in.Statement([]*outbox.Row{row}))
	switch {
	case err != nil:
		return r.failed(err)
	case len(got.ids) == 1:
		r.add(got.ids[0])
	case got.n == 1:
		r.add(row.ID)
	default:
		return r.failed(errSuppressed)
	}
	return nil
}

// erase deletes what was written.
func (r *writing) erase(ctx context.Context) error {
	var ids []string
	for _, w := range r.written {
		if !w.Duplicate {
			ids = append(ids, w.ID)
		}
	}
	for part := range slices.Chunk(ids, 1000) {
		sql, args, err := r.in.Erase(part)
		if err != nil {
			return err
		}
		if _, err := r.tx.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("delete from table %s what was written: %w", r.in.Table().Name, err)
		}
	}
	return nil
}

// A Transactor makes a business change and its messages one transaction.
type Transactor struct {
	writer  *Writer
	db      Beginner
	options pgx.TxOptions
}

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Transactor makes transactions of the database whose messages the writer writes.
func (w *Writer) Transactor(db Beginner, options pgx.TxOptions) *Transactor {
	return &Transactor{w, db, options}
}

// Do runs f in a transaction, writes the messages that f returns, and commits. An error of f, of writing or of the commit rolls
// it back; so does a panic of f, which goes on.
func (t *Transactor) Do(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) ([]outbox.Draft, error)) (written []outbox.Written, err error) {
	err = pgx.BeginTxFunc(ctx, t.db, t.options, func(tx pgx.Tx) error {
		drafts, err := f(ctx, tx)
		if err != nil {
			return err
		}
		written, err = t.writer.WriteAll(ctx, tx, drafts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// Retryable reports whether a transaction that failed can be done again.
func (t *Transactor) Retryable(err error) bool { return Retryable(err) }

// Retryable reports whether a transaction failed only because another one ran beside it, so that all of it can be done again: a
// serialization failure (40001) or a deadlock (40P01).
func Retryable(err error) bool {
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && (e.SQLState() == "40001" || e.SQLState() == "40P01")
}
