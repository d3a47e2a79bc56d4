package mysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// A Gap is a checkpoint behind which the log cannot be read on, as it is seen now.
type Gap = sqlstore.Gap

// gapTries bounds how often a checkpoint that moves meanwhile is looked at again.
const gapTries = 5

// FindGap tells whether the next start would have to establish a new position, or to repeat a sweep that did not end; nil
// where it goes on from the checkpoint. It changes nothing. Without a checkpoint it is an error: there is nothing to accept.
func FindGap(ctx context.Context, cfg Config) (gap *Gap, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	c, err := s.savedCheckpoint(ctx)
	for range gapTries {
		if err != nil {
			return nil, err
		}
		if c == nil {
			return nil, errors.New("there is no checkpoint yet, so nothing can be missing: run tailbox init")
		}
		found, err := cfg.examine(ctx, c.SourceID, c.Resume)
		switch {
		case err != nil:
			return nil, fmt.Errorf("examine the log: %w", err)
		case found.Lost != "":
			gap = &Gap{From: c.Resume, Why: found.Lost}
		case c.SweepPending:
			gap = &Gap{From: c.Resume, Why: "the last sweep of pending rows did not end"}
		default:
			return nil, nil
		}
		// A relay that runs moves both, and what was read first looks lost.
		again, err := s.savedCheckpoint(ctx)
		if err != nil {
			return nil, err
		}
		if again != nil && again.Resume == c.Resume {
			return gap, nil
		}
		c = again
	}
	return nil, nil // a checkpoint that moves all the time has no gap behind it
}

// savedCheckpoint reads the checkpoint; nil where none was saved.
func (s *store) savedCheckpoint(ctx context.Context) (*checkpoint.Checkpoint, error) {
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
