package usertable

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// WordFaults tells which words the status column cannot hold: they are no values of its type, or it would change them. columnType is
// that of the column with its length, as format_type says; "" if there is none.
func WordFaults(ctx context.Context, conn *pgx.Conn, t *outbox.Table, columnType string) ([]string, error) {
	if columnType == "" {
		return nil, nil
	}
	if columnType == "boolean" {
		return []string{fmt.Sprintf("status column %s is a boolean, which cannot tell pending, delivered and dead rows apart: leave it out (columns: {status: null}), "+
			"and name a column delivered_at, or choose on_delivered: delete or keep; feedback can write the boolean", t.Columns.Status)}, nil
	}
	var faults []string
	for _, w := range columns.StatusWords(t) {
		var back string
		err := conn.QueryRow(ctx, "SELECT ($1::text)::"+columnType+"::text", w.Word).Scan(&back)
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && (refused.Code[:2] == "22" || refused.Code[:2] == "23"): // no such value
			faults = append(faults, w.Fault(t, columnType, fmt.Sprintf("has no value %q", w.Word)))
		case err != nil:
			return nil, err
		case back != w.Word:
			faults = append(faults, w.Fault(t, columnType, fmt.Sprintf("makes %q of the word %q", back, w.Word)))
		}
	}
	return faults, nil
}
