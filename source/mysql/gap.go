package mysql

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Gap tells whether the next start would have to establish a new position, or to sweep rows that no sweep has gone through to the end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func Gap(ctx context.Context, cfg config) (gap *store.Gap, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	examiner := examine
	if cfg.Poll {
		examiner = examinePoll
	}
	if gap, err = store.FindGap(ctx, func(ctx context.Context) (*checkpoint.Checkpoint, error) { return savedCheckpoint(ctx, s) },
		func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
			return examiner(ctx, &cfg, sourceID, from)
		}); err != nil {
		return nil, err
	}
	return store.JudgeGap(gap, cfg.Tables, func(t *outbox.Table) (name, cure string, err error) {
		info, err := describeTable(ctx, s.sess, t)
		if err != nil {
			return "", "", err
		}
		_, cure = info.pendingRows(cfg.Start, source.Known{})
		return info.String(), cure, nil
	})
}

// savedCheckpoint reads the checkpoint; nil where none was saved.
func savedCheckpoint(ctx context.Context, s *stateStore) (*checkpoint.Checkpoint, error) {
	var found checkpointRow
	b := s.batch()
	b.each(func(r row) (err error) {
		found, err = readCheckpoint(r)
		return err
	}, "SELECT "+checkpointColumns+" FROM {checkpoint} WHERE pipeline = ?", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("read the checkpoint", err)
	}
	return found.checkpoint, nil
}
