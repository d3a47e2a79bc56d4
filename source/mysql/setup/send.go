package setup

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// Send writes a message in a transaction of its own, as an application would, and returns its id.
func Send(ctx context.Context, cfg server.Config, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	s, err := cfg.Connect(ctx, cfg.URL)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	query, args := outbox.MySQL.Catalog(t)
	catalog, err := s.Texts(ctx, query, args...)
	if err != nil {
		return "", fmt.Errorf("look up table %s: %w", quote.Table(t), err)
	}
	in, err := outbox.NewInsert(outbox.MySQL, *t, catalog, o)
	if err != nil {
		return "", err
	}
	row, err := in.Row(d)
	if err != nil {
		return "", err
	}
	st := in.Statement([]*outbox.Row{row})
	result, err := s.Exec(ctx, st.SQL, st.Args...)
	switch {
	case server.Code(err) == server.CodeDuplicateKey:
		return firstMessage(ctx, s, in, row, err)
	case err != nil:
		return "", fmt.Errorf("write to table %s: %w", quote.Table(t), err)
	case row.ID == "":
		return strconv.FormatUint(result.InsertId, 10), nil
	}
	return row.ID, nil
}

// firstMessage is the id of the message that made another one a duplicate.
func firstMessage(ctx context.Context, s *server.Conn, in *outbox.Insert, row *outbox.Row, failed error) (string, error) {
	for _, l := range in.Lookups(row) {
		rows, err := s.Texts(ctx, l.SQL, l.Args...)
		if err != nil {
			return "", fmt.Errorf("look for the first message with %s %q: %w", l.Column, l.Value, err)
		}
		if len(rows) == 0 {
			continue
		}
		if id := in.ReadID(rows[0][0]); row.Once() && l.Column == in.KeyColumn() {
			return id, nil
		}
		return "", in.Duplicate(l, in.ReadID(rows[0][0]), 0)
	}
	return "", fmt.Errorf("write to table %s: %w", quote.Table(in.Table()), failed)
}
