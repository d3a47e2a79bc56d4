package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
)

// Example is a message as a row of the table makes it, whichever it is; nil if the table is empty.
func (cfg Config) Example(ctx context.Context, t *outbox.Table) (m *outbox.Message, err error) {
	conn, err := cfg.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()
	r, err := newRowReader(ctx, conn.PgConn(), t, cfg.MaxMessage)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT "+r.list("t")+" FROM "+r.from()+" AS t LIMIT 1", r.formats(0))
	if err != nil {
		return nil, err
	}
	m, err = pgx.CollectOneRow(rows, func(pgx.CollectableRow) (*outbox.Message, error) { return r.message(rows) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return m, err
}
