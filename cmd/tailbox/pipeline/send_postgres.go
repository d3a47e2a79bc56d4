package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
)

// sendPostgres writes the message in a transaction of its own.
func sendPostgres(ctx context.Context, url string, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	w, err := outboxpgx.New(ctx, conn, *t, o)
	if err != nil {
		return "", err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		id, err = w.Write(ctx, tx, d)
		return err
	})
	return id, err
}
