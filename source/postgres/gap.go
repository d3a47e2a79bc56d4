package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

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
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	examine := func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
		if _, err := s.claimSlot(ctx); err != nil {
			return nil, err
		}
		return cfg.examine(ctx, sourceID, from, &witness{})
	}
	if cfg.Poll {
		examine = func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
			return cfg.examinePoll(ctx, sourceID, from, &witness{})
		}
	}
	if gap, err = store.FindGap(ctx, s.savedCheckpoint, examine); err != nil {
		return nil, err
	}
	gap, err = store.JudgeGap(gap, cfg.Tables, func(t *outbox.Table) (name, cure string, err error) {
		info, err := describeTable(ctx, s.conn.PgConn(), t)
		if err != nil {
			return "", "", err
		}
		_, cure = cfg.pendingRows(info, source.Known{})
		return info.String(), cure, nil
	})
	if gap != nil && !gap.Unswept && cfg.Messages != "" {
		gap.Unjudged = append(gap.Unjudged, "source.messages")
	}
	return gap, err
}

// savedCheckpoint reads the checkpoint; nil where none was saved.
func (s *stateStore) savedCheckpoint(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var row checkpointRow
	err := s.conn.QueryRow(ctx, s.q(`SELECT source_id, resume, log, last_commit, sweep_pending FROM {checkpoint} WHERE pipeline = $1`),
		s.cfg.Pipeline).Scan(&row.sourceID, &row.resume, &row.log, &row.lastCommit, &row.sweepPending)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fault("read the checkpoint", err)
	}
	return row.checkpoint()
}
