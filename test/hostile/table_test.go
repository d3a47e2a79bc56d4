package hostile

import (
	"context"
	"testing"

	"github.com/tailbox/tailbox/test/e2e"
)

// A table is an outbox table of the shape tailbox, with all of its columns, as wide as its database allows.
type table interface {
	// options are what the bed needs to make it.
	options() e2e.Options
	// open connects to the table of a bed, as an application.
	open(tb testing.TB, b *e2e.Bed)
	// insert writes a row in a transaction of its own. The error is the database's, which has not written it.
	insert(ctx context.Context, row *Row) error
	// parked lists what is in tailbox_parked.
	parked(ctx context.Context) ([]parked, error)
}

// parked is a row of tailbox_parked.
type parked struct{ id, group, state, class, reason string }

func newTable(kind string) table {
	switch kind {
	case "postgres":
		return &postgresTable{}
	case "mongodb":
		return &mongoTable{}
	}
	return &mySQLTable{kind: kind}
}

// column is the value of a text part; nil = NULL.
func (row *Row) column(part string) any {
	if text, set := row.Text[part]; set {
		return text
	}
	return nil
}
