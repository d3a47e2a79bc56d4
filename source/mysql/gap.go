package mysql

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A Gap is a checkpoint behind which the log cannot be read on, as it is seen now.
type Gap = store.Gap

// Gap tells whether the next start would have to establish a new position, or to sweep rows that no sweep has gone through to the end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func (cfg Config) Gap(ctx context.Context) (gap *Gap, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	examine := cfg.examine
	if cfg.Poll {
		examine = cfg.examinePoll
	}
	if gap, err = store.FindGap(ctx, s.savedCheckpoint, examine); err != nil {
		return nil, err
	}
	return store.JudgeGap(gap, cfg.Tables, func(t *outbox.Table) (name, cure string, err error) {
		info, err := describeTable(ctx, s.sess, t)
		if err != nil {
			return "", "", err
		}
		_, cure = cfg.pendingRows(info, source.Known{})
		return info.String(), cure, nil
	})
}

// savedCheckpoint reads the checkpoint; nil where none was saved.
func (s *stateStore) savedCheckpoint(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var found checkpointRow
	b := s.batch()
	b.each(func(r row) (err error) {
		found, err = readCheckpoint(r)
		return err
	}, "SELECT "+checkpointColumns+" FROM {checkpoint} WHERE pipeline = ?", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return nil, s.fault("read the checkpoint", err)
	}
	return found.checkpoint, nil
}
