// Package outboxpgx writes messages to an outbox table of Postgres through pgx, in the transaction of the business change:
//
//	w, err := outboxpgx.New(ctx, pool, table, outbox.Options{}) // once, at the start
//	…
//	id, err := w.Write(ctx, tx, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: "42", Payload: payload})
//
// All ways of executing statements that pgx knows will do, also those for a pooler between application and server.
package outboxpgx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
)

// Tx is a transaction: a pgx.Tx, a *pgx.Conn in which BEGIN was executed, or a wrapper such as sqlc's DBTX. If it has SendBatch,
// all messages of a call take one round trip. A pool, and a connection without a transaction, are refused.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Writer writes to one table. It may be used concurrently, with a transaction each.
type Writer struct{ in *outbox.Insert }

// New looks up the table's columns, through a pool, a connection or anything else that has Query, and makes a writer for it. Make
// it once, when the application starts, and anew when the table has changed.
func New(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, t outbox.Table, o outbox.Options) (*Writer, error) {
	query, args := outbox.Postgres.Catalog(&t)
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", t.Name, err)
	}
	catalog, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
		texts, places := make([]string, outbox.Postgres.CatalogColumns()), make([]any, outbox.Postgres.CatalogColumns())
		for i := range texts {
			places[i] = &texts[i]
		}
		return texts, row.Scan(places...)
	})
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", t.Name, err)
	}
	in, err := outbox.NewInsert(outbox.Postgres, t, catalog, o)
	if err != nil {
		return nil, err
	}
	return &Writer{in}, nil
}

// Write writes a message in the transaction, and returns its id. A *outbox.DraftError says what the message cannot be
// written for, and a *outbox.DuplicateError that it was written before (unless Draft.Once): after both, the
// transaction can go on, with nothing written. Any other error has ended it, unless outbox.Options.Savepoint is set.
func (w *Writer) Write(ctx context.Context, tx Tx, d outbox.Draft) (id string, err error) {
	written, err := w.WriteAll(ctx, tx, []outbox.Draft{d})
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// WriteAll writes messages in their order, all of them or, with an error as of Write, none. It takes one round trip, unless
// outbox.Options.Savepoint is set, or tx shows neither its connection nor a Commit.
func (w *Writer) WriteAll(ctx context.Context, tx Tx, drafts []outbox.Draft) ([]outbox.Written, error) {
	if outside(tx) {
		return nil, fmt.Errorf("write to table %s: %w", w.in.Table().Name, outbox.ErrNoTransaction)
	}
	rows, err := w.in.Rows(drafts)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if err := begun(ctx, tx); err != nil {
		return nil, fmt.Errorf("write to table %s: %w", w.in.Table().Name, err)
	}
	r := writing{Writer: w, tx: tx}
	// pgx prepares and encodes a whole batch before the savepoint in it is executed, and closes the connection where a value cannot be
	// encoded. So a savepoint that is to guard against all errors goes by itself, and the statements after it.
	if !w.in.Options().Savepoint {
		r.batcher, _ = tx.(batcher)
	}
	if r.batcher == nil {
		r.statements = w.in.Statements(rows)
	} else {
		// In a batch one row a statement costs little, and gives pgx few texts to prepare and to keep.
		for i := range rows {
			r.statements = append(r.statements, w.in.Statement(rows[i:i+1]))
		}
	}
	r.guarded = w.in.Options().Savepoint || len(rows) > 1 && slices.ContainsFunc(rows, (*outbox.Row).Conflicts)
	err = r.execute(ctx)
	if r.guarded {
		err = r.release(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return r.written, nil
}

// A batcher sends several statements in one round trip.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// A writing is one call of WriteAll.
type writing struct {
	*Writer
	tx         Tx
	batcher    batcher // nil where tx is none, or must not be one
	statements []outbox.Statement
	guarded    bool
	written    []outbox.Written
}

const savepoint = "tailbox_write"

// A result is what became of a statement: the ids that it returned, or how many rows it wrote.
type result struct {
	ids []string
	n   int
}

func (r *writing) execute(ctx context.Context) error {
	results, err := r.send(ctx)
	if err != nil {
		return err
	}
	for i, st := range r.statements {
		if err := r.settle(ctx, st, results[i]); err != nil {
			return err
		}
	}
	if r.in.Options().DeleteAtOnce {
		return r.erase(ctx)
	}
	return nil
}

// send executes the savepoint and the statements, in one round trip where the transaction can.
func (r *writing) send(ctx context.Context) ([]result, error) {
	if r.batcher == nil || len(r.statements) == 1 && !r.guarded {
		return r.oneByOne(ctx)
	}
	var b pgx.Batch
	if r.guarded {
		b.Queue("SAVEPOINT " + savepoint)
	}
	for _, st := range r.statements {
		b.Queue(st.SQL, st.Args...)
	}
	answers := r.batcher.SendBatch(ctx, &b)
	results, err := r.read(answers)
	if err = errors.Join(err, answers.Close()); err != nil {
		return nil, r.failed(err)
	}
	return results, nil
}

func (r *writing) read(answers pgx.BatchResults) ([]result, error) {
	if r.guarded {
		if _, err := answers.Exec(); err != nil {
			r.guarded = false
			return nil, fmt.Errorf("make a savepoint: %w", err)
		}
	}
	list := make([]result, len(r.statements))
	for i, st := range r.statements {
		var err error
		if st.Returns {
			list[i].ids, err = r.ids(answers.Query())
		} else {
			var tag pgconn.CommandTag
			tag, err = answers.Exec()
			list[i].n = int(tag.RowsAffected())
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// oneByOne is send without a batch.
func (r *writing) oneByOne(ctx context.Context) ([]result, error) {
	if r.guarded {
		if _, err := r.tx.Exec(ctx, "SAVEPOINT "+savepoint); err != nil {
			r.guarded = false
			return nil, fmt.Errorf("make a savepoint: %w", err)
		}
	}
	list := make([]result, len(r.statements))
	for i, st := range r.statements {
		var err error
		if list[i], err = r.one(ctx, st); err != nil {
			return nil, r.failed(err)
		}
	}
	return list, nil
}

// one executes a statement.
func (r *writing) one(ctx context.Context, st outbox.Statement) (result, error) {
	if st.Returns {
		ids, err := r.ids(r.tx.Query(ctx, st.SQL, st.Args...))
		return result{ids: ids}, err
	}
	tag, err := r.tx.Exec(ctx, st.SQL, st.Args...)
	return result{n: int(tag.RowsAffected())}, err
}

// ids reads those that a statement returned.
func (r *writing) ids(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// release ends the savepoint, and undoes what was done since where that has failed.
func (r *writing) release(ctx context.Context, failed error) error {
	// The transaction must be usable even if the caller's time for writing is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if failed != nil {
		if _, err := r.tx.Exec(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); err != nil {
			return errors.Join(failed, fmt.Errorf("roll back to the savepoint: %w", err))
		}
	}
	if _, err := r.tx.Exec(ctx, "RELEASE SAVEPOINT "+savepoint); err != nil {
		return errors.Join(failed, fmt.Errorf("release the savepoint: %w", err))
	}
	return failed
}

func (r *writing) failed(err error) error {
	return fmt.Errorf("write to table %s: %w", r.in.Table().Name, err)
}
