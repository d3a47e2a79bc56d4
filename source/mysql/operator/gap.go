package operator

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/mysql/stream"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Gap reports whether the next start would have to establish a new position, or to sweep rows that no sweep has gone through to the end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func Gap(ctx context.Context, cfg server.Config) (gap *operate.Gap, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Conn.Close(ctx)) }()
	examiner := stream.Examine
	if cfg.Poll {
		examiner = polling.Examine
	}
	if gap, err = operate.FindGap(ctx, func(ctx context.Context) (*checkpoint.Checkpoint, error) { return savedCheckpoint(ctx, s) },
		func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
			return examiner(ctx, &cfg, sourceID, from)
		}); err != nil {
		return nil, err
	}
	return operate.JudgeGap(gap, cfg.Tables, func(t *outbox.Table) (name, fix string, err error) {
		info, err := catalog.Describe(ctx, s.Conn, t)
		if err != nil {
			return "", "", err
		}
		_, fix = info.PendingRows(cfg.Start, source.Known{})
		return info.String(), fix, nil
	})
}

// savedCheckpoint reads the checkpoint; nil if none was saved.
func savedCheckpoint(ctx context.Context, s *mystore.Store) (*checkpoint.Checkpoint, error) {
	var found mystore.CheckpointRow
	b := s.Batch()
	b.Each(func(r session.Row) (err error) {
		found, err = mystore.ReadCheckpoint(r)
		return err
	}, "SELECT "+mystore.CheckpointColumns+" FROM {checkpoint} WHERE pipeline = ?", s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("read the checkpoint", err)
	}
	return found.Checkpoint, nil
}
