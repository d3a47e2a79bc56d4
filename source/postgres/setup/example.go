package setup

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// Example returns the message that some row of the table makes; nil if the table is empty.
func Example(ctx context.Context, cfg session.Config, t *outbox.Table) (m *outbox.Message, err error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	r, err := catalog.NewRowReader(ctx, conn.PgConn(), t, cfg.MaxMessage)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT "+r.List("t")+" FROM "+r.From()+" AS t LIMIT 1", r.Formats(0))
	if err != nil {
		return nil, err
	}
	m, err = pgx.CollectOneRow(rows, func(pgx.CollectableRow) (*outbox.Message, error) { return r.Message(rows) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return m, err
}
