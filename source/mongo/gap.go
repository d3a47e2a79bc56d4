package mongo

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// Gap tells whether the next start would have to establish a new position, or to sweep rows that no sweep has gone through to the end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func (cfg Config) Gap(ctx context.Context) (gap *store.Gap, err error) {
	s, err := openReader(ctx, conn.Config(cfg))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if gap, err = store.FindGap(ctx, s.savedCheckpoint, func(ctx context.Context, id string, from source.Resume) (*source.Examined, error) {
		return examine(ctx, &s.cfg, id, from)
	}); err != nil {
		return nil, err
	}
	return store.JudgeGap(gap, s.cfg.Tables, func(t *outbox.Table) (name, cure string, err error) {
		_, cure = catalog.PendingRows(&s.cfg, t, source.Known{})
		return t.String(), cure, nil
	})
}
