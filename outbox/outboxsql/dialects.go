package outboxsql

import (
	"context"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
)

// postgres executes a statement that leaves duplicates out.
func (r *writing) postgres(ctx context.Context, st outbox.Statement) error {
	there := map[string]bool{}
	var n int64
	if st.Returns {
		rows, err := r.tx.QueryContext(ctx, st.SQL, st.Args...)
		if err == nil {
			err = scan(rows, 1, func(texts []string) { there[r.in.ReadID(texts[0])] = true })
		}
		if err != nil {
			return r.failed(err)
		}
		n = int64(len(there))
	} else {
		result, err := r.tx.ExecContext(ctx, st.SQL, st.Args...)
		if err != nil {
			return r.failed(err)
		}
		if n, err = result.RowsAffected(); err != nil {
			return r.failed(err)
		}
	}
	if len(st.Rows) == 1 && n == 1 {
		id := st.Rows[0].ID
		for made := range there {
			id = made
		}
		r.add(id)
		return nil
	}
	for _, row := range st.Rows {
		switch {
		case int(n) == len(st.Rows) || there[row.ID]:
			r.add(row.ID)
		default:
			if err := r.missing(ctx, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing deals with a row that was not written: it is a duplicate, or was one of a row that is gone by now.
func (r *writing) missing(ctx context.Context, row *outbox.Row) error {
	l, first, ok, err := r.first(ctx, row)
	switch {
	case err != nil:
		return err
	case ok:
		return r.duplicate(row, l, first)
	}
	st := r.in.Statement([]*outbox.Row{row})
	if st.Returns {
		id, n := "", 0
		rows, err := r.tx.QueryContext(ctx, st.SQL, st.Args...)
		if err == nil {
			err = scan(rows, 1, func(texts []string) { id, n = r.in.ReadID(texts[0]), n+1 })
		}
		if err != nil || n != 1 {
			return r.failed(r.orSuppressed(err))
		}
		r.add(id)
		return nil
	}
	result, err := r.tx.ExecContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return r.failed(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return r.failed(r.orSuppressed(err))
	}
	r.add(row.ID)
	return nil
}

func (r *writing) orSuppressed(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the database left the row out, and no row has its id or idempotency key: look for a trigger or rule that suppresses it, " +
		"or for another unique index")
}

// mysql executes a statement that fails where one of its rows is a duplicate. Only the statement is undone then, not the transaction.
func (r *writing) mysql(ctx context.Context, st outbox.Statement) error {
	result, err := r.tx.ExecContext(ctx, st.SQL, st.Args...)
	// If no row can be a duplicate, another unique index was broken, and nothing would undo what rows written one by one leave behind.
	if err != nil && isDuplicate(err) && slices.ContainsFunc(st.Rows, (*outbox.Row).Conflicts) {
		return r.mysqlDuplicate(ctx, st, err)
	}
	if err != nil {
		return r.failed(err)
	}
	n, err := result.RowsAffected()
	if err != nil || int(n) != len(st.Rows) {
		return r.failed(r.orSuppressed(err))
	}
	if st.Rows[0].ID == "" {
		id, err := result.LastInsertId()
		if err != nil {
			return r.failed(err)
		}
		r.add(fmt.Sprint(id))
		return nil
	}
	for _, row := range st.Rows {
		r.add(row.ID)
	}
	return nil
}

// mysqlDuplicate finds out which of the rows are duplicates, and writes the others.
func (r *writing) mysqlDuplicate(ctx context.Context, st outbox.Statement, failed error) error {
	if len(st.Rows) > 1 {
		for _, row := range st.Rows {
			if err := r.mysql(ctx, r.in.Statement([]*outbox.Row{row})); err != nil {
				return err
			}
		}
		return nil
	}
	row := st.Rows[0]
	l, first, ok, err := r.first(ctx, row)
	switch {
	case err != nil:
		return err
	case ok:
		return r.duplicate(row, l, first)
	}
	return r.failed(failed) // another unique index, or a row that is gone by now
}
