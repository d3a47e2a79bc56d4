package outboxsql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// pool reports whether what is written would be committed by itself, whatever else is done: nothing, a *sql.DB, or what embeds one.
func pool(tx Tx) bool {
	_, is := tx.(interface{ Stats() sql.DBStats })
	return is || tx == nil
}

// begun makes sure that there is a transaction. What can be committed and rolled back is one. A connection, or a wrapper around a transaction,
// a connection or a pool, does not say what it is in; so the database is asked, with a savepoint. Outside of a transaction Postgres
// refuses to make one, and MySQL and MariaDB make none, which they tell when it is to be released.
func (w *Writer) begun(ctx context.Context, tx Tx) error {
	if _, is := tx.(interface {
		Commit() error
		Rollback() error
	}); is {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SAVEPOINT tailbox_begun")
	if err == nil {
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT tailbox_begun")
	}
	if err == nil {
		return nil
	}
	if state, number := code(err); state == noTransaction || number == mysqlNoSavepoint {
		return w.outside()
	}
	return fmt.Errorf("write to table %s: look for a transaction: %w", w.in.Table().Name, err)
}

func (w *Writer) outside() error {
	return fmt.Errorf("write to table %s: %w", w.in.Table().Name, outbox.ErrNoTransaction)
}
