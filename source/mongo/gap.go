package mongo

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	mongostore "github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Gap reports whether the next start would have to establish a new position, or to sweep rows that no sweep has gone through to the end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func (cfg Config) Gap(ctx context.Context) (gap *operate.Gap, err error) {
	own, err := conn.Config(cfg).Resolved()
	if err != nil {
		return nil, err
	}
	s, err := mongostore.OpenReader(ctx, own)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if gap, err = operate.FindGap(ctx, s.SavedCheckpoint, func(ctx context.Context, id string, from source.Resume) (*source.Examined, error) {
		return stream.Examine(ctx, &own, id, from)
	}); err != nil {
		return nil, err
	}
	return operate.JudgeGap(gap, own.Tables, func(t *outbox.Table) (name, fix string, err error) {
		_, fix = catalog.PendingRows(&own, t, source.Known{})
		return t.String(), fix, nil
	})
}
