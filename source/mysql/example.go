package mysql

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/outbox"
)

// Example is a message as a row of the table makes it, whichever it is; nil if the table is empty.
func Example(ctx context.Context, cfg config, t *outbox.Table) (m *outbox.Message, err error) {
	s, err := cfg.connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	info, err := describeTable(ctx, s, t)
	if err != nil || info == nil {
		return nil, err
	}
	r, err := rowReaderOf(info, cfg.MaxMessage)
	if err != nil {
		return nil, err
	}
	res, err := s.exec(ctx, "SELECT "+r.list("t")+" FROM "+r.from()+" t LIMIT 1")
	if err != nil || len(res.Values) == 0 {
		return nil, err
	}
	return r.message(res.Values[0])
}
