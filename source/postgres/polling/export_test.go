package polling

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/session"
)

// What tests outside of the package need of its inside.

// OpenTable opens a session for polling, and looks the table up.
func OpenTable(ctx context.Context, cfg *session.Config) (*pgx.Conn, *table, error) {
	t, err := open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return t.conn, t, nil
}

// Statements are those that list numbers and that read rows.
func (t *table) Statements() (numbers, rows string) { return t.numbersSQL, t.rowsSQL }
