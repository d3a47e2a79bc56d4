package store

import (
	"cmp"
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Operator is what operators see of a pipeline, and ask for.
func Operator(cfg conn.Config) operate.Operator {
	return operate.Operator{
		Read: func(ctx context.Context) (operate.Reader, error) {
			s, err := OpenReader(ctx, cfg)
			return reader{s}, err
		},
		Open: func(ctx context.Context) (checkpoint.Store, error) { return Open(ctx, cfg) },
	}
}

// A reader implements operate.Reader: a store that has no lease.
type reader struct{ *Store }

// Begin implements operate.Reader. The driver finds by itself whether a connection is gone.
func (s reader) Begin(ctx context.Context) (context.Context, error) {
	s.Forget()
	return s.lease.In(ctx), nil
}

// Leave implements operate.Reader.
func (s reader) Leave(ctx context.Context) error { return s.Close(ctx) }

// Ask implements operate.Reader.
func (s reader) Ask(ctx context.Context, r *checkpoint.Request, by string) (int64, error) {
	asked := *r
	asked.By = by
	if by == "" {
		who, err := conn.ReadRights(ctx, s.client)
		if err != nil {
			return 0, conn.Fault("look who asks", err)
		}
		asked.By = cmp.Or(who.User, "unknown") // without authentication nothing tells
	}
	return s.requests.ask(ctx, &asked)
}

// Asked implements operate.Reader.
func (s reader) Asked(ctx context.Context, before int64, limit int, whole bool) ([]store.Asked, error) {
	return s.requests.asked(ctx, before, limit, whole)
}
