package setup

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// Example is a message as a row of the table makes it, whichever it is; nil if the table is empty.
func Example(ctx context.Context, cfg server.Config, t *outbox.Table) (m *outbox.Message, err error) {
	s, err := cfg.Connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	info, err := catalog.Describe(ctx, s, t)
	if err != nil || info == nil {
		return nil, err
	}
	r, err := catalog.NewReader(info, cfg.MaxMessage)
	if err != nil {
		return nil, err
	}
	res, err := s.Exec(ctx, "SELECT "+r.SelectList("t")+" FROM "+r.From()+" t LIMIT 1")
	if err != nil || len(res.Values) == 0 {
		return nil, err
	}
	return r.Message(res.Values[0])
}
