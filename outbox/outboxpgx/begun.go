package outboxpgx

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
)

// connOf is the connection that tx shows, or nil.
func connOf(tx Tx) *pgx.Conn {
	switch v := tx.(type) {
	case *pgx.Conn:
		return v
	case interface{ Conn() *pgx.Conn }:
		return v.Conn()
	}
	return nil
}

// outside reports whether what is written would be committed by itself: through nothing, a *pgxpool.Pool, or a connection that says so.
func outside(tx Tx) bool {
	if _, isPool := tx.(interface{ Reset() }); isPool || tx == nil {
		return true
	}
	conn := connOf(tx)
	return conn != nil && conn.PgConn().TxStatus() == 'I'
}

// noTransaction is the state of what is possible in a transaction only.
const noTransaction = "25P01"

// begun makes sure that there is a transaction. A wrapper that shows neither its connection nor a Commit may be one around a pool: there
// the server refuses to make a savepoint.
func begun(ctx context.Context, tx Tx) error {
	if _, commits := tx.(interface{ Commit(context.Context) error }); commits || connOf(tx) != nil {
		return nil
	}
	_, err := tx.Exec(ctx, "SAVEPOINT tailbox_begun")
	if err == nil {
		_, err = tx.Exec(ctx, "RELEASE SAVEPOINT tailbox_begun")
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Code == noTransaction {
		return outbox.ErrNoTransaction
	}
	if err != nil {
		return fmt.Errorf("look for a transaction: %w", err)
	}
	return nil
}
