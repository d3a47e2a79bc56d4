package usertable

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
)

// WordFaults tells which words the status column cannot hold: they are no values of its type, or it would change them. columnType is
// that of the column with its length, as format_type says; "" where there is none.
func WordFaults(ctx context.Context, conn *pgx.Conn, t *outbox.Table, columnType string) ([]string, error) {
	if columnType == "" {
		return nil, nil
	}
	words := t.Words
	if words == (outbox.Words{}) {
		words = outbox.DefaultWords()
	}
	if columnType == "boolean" {
		return []string{fmt.Sprintf("status column %s is a boolean, which cannot tell pending, delivered and dead rows apart: leave it out (columns: {status: null}), "+
			"and name a column delivered_at, or choose on_delivered: delete or keep; feedback can write the boolean", t.Columns.Status)}, nil
	}
	var faults []string
	told := map[string]bool{}
	for i, word := range append(words.List(), t.AlsoPending...) {
		name := outbox.WordNames()[0]
		if i < len(outbox.WordNames()) {
			name = outbox.WordNames()[i]
		}
		if told[word] {
			continue
		}
		told[word] = true
		fix := fmt.Sprintf("set words.%s under the table in source.tables to a value of that type", name)
		var back string
		err := conn.QueryRow(ctx, "SELECT ($1::text)::"+columnType+"::text", word).Scan(&back)
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && (refused.Code[:2] == "22" || refused.Code[:2] == "23"): // no such value
			faults = append(faults, fmt.Sprintf("status column %s is of type %s, which has no value %q for %s messages: %s",
				t.Columns.Status, columnType, word, name, fix))
		case err != nil:
			return nil, err
		case back != word:
			faults = append(faults, fmt.Sprintf("status column %s is of type %s, which makes %q of the word %q for %s messages: %s",
				t.Columns.Status, columnType, back, word, name, fix))
		}
	}
	return faults, nil
}
