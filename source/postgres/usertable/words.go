package usertable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/store"
)

// WordFaults tells which words the status column cannot hold: they are no values of its type, or it would change them. columnType is
// that of the column with its length, as format_type says; "" if there is none.
func WordFaults(ctx context.Context, conn *pgx.Conn, t *outbox.Table, columnType string) ([]string, error) {
	if columnType == "" {
		return nil, nil
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
	if columnType == "boolean" && len(faults) > 0 {
		return []string{fmt.Sprintf("status column %s is a boolean: set words to {pending: false, retrying: false, waiting: false, dead: false, delivered: true}, and if another column "+
			"shows dead rows, set that one under set.dead; or leave the status out (columns: {status: null}), and name a column delivered_at, or choose on_delivered: delete or keep",
			t.Columns.Status)}, nil
	}
	return faults, nil
}

// settable returns an error if a column that a state sets is missing, or cannot hold the value.
func (t *Table) settable(ctx context.Context, conn *pgx.Conn) error {
	for i := range t.Set {
		v := &t.Set[i]
		key := "set." + v.State + "." + v.Column
		columnType, ok := t.Types[v.Column]
		switch {
		case !ok:
			return &store.UnsupportedError{What: fmt.Sprintf("table %s has no column %q, which %s names", t, v.Column, key), Fix: "correct source.tables"}
		case v.Null && t.required[v.Column]:
			return &store.UnsupportedError{What: fmt.Sprintf("column %s of table %s cannot be NULL, but %s is null", v.Column, t, key), Fix: "give another value"}
		case v.Null || v.Now && strings.HasPrefix(columnType, "timestamp"):
			continue
		case v.Now && t.Bases[v.Column] != "date" && !strings.HasPrefix(t.Bases[v.Column], "timestamp"):
			return &store.UnsupportedError{What: fmt.Sprintf("column %s of table %s, of type %s, is not a time, but %s is now", v.Column, t, columnType, key), Fix: "name a column of type timestamptz, or give a value"}
		}
		_, err := conn.Exec(ctx, "SELECT "+t.setValue(v))
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused):
			return &store.UnsupportedError{What: fmt.Sprintf("column %s of table %s, of type %s, cannot hold the value of %s: %s", v.Column, t, columnType, key, refused.Message), Fix: "correct source.tables"}
		case err != nil:
			return pgerr.Fault("look at columns of table "+t.String(), err)
		}
	}
	return nil
}
