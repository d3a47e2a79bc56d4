package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/migration"
	"github.com/tailbox/tailbox/source/store/report"
)

// saveCheckpoint writes a checkpoint, and records that the start was a clean one. It means the same under any search path. Unsigned numbers are
// stored in the bits of a bigint.
const saveCheckpoint = `
INSERT INTO {checkpoint} AS c (pipeline, source_id, resume, log, last_commit, settled_above, sweep_pending, schema_version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (pipeline) DO UPDATE SET source_id = excluded.source_id, resume = excluded.resume, log = excluded.log,
	last_commit = excluded.last_commit, settled_above = excluded.settled_above, sweep_pending = excluded.sweep_pending,
	started = NULL, unclean_starts = 0, updated_at = pg_catalog.now()`

// settleStart records that something was settled, without a checkpoint. It means the same under any search path.
const settleStart = `UPDATE {checkpoint} SET started = NULL, unclean_starts = 0, updated_at = pg_catalog.now() WHERE pipeline OPERATOR(pg_catalog.=) $1`

// acceptGap closes the requests to accept a gap that a newly established position has used up. It leaves requests that were made after this start
// read them (id above $2), and requests for another checkpoint: nobody has acted on either.
const acceptGap = `
UPDATE {request} r SET done_at = now(), result = json_build_object('changed', 1, 'note', 'the gap was accepted')
WHERE r.pipeline = $1 AND r.verb = 'accept-gap' AND r.done_at IS NULL AND r.id <= $2
	AND r.selection ->> 'from' = (SELECT c.resume FROM {checkpoint} c WHERE c.pipeline = $1)`

// onlySaves reports whether queueCheckpoint adds saveCheckpoint alone.
func (s *Store) onlySaves(c *checkpoint.Checkpoint) bool {
	return (c.Log == s.Log || s.Gap == 0) && !s.taking
}

// queueCheckpoint adds a checkpoint to a batch.
func (s *Store) queueCheckpoint(b *pgx.Batch, c *checkpoint.Checkpoint) {
	if c.Log != s.Log && s.Gap != 0 {
		b.Queue(s.SQL(acceptGap), s.Cfg.Pipeline, s.Gap) // before the checkpoint that it compares with is replaced
	}
	b.Queue(s.SQL(saveCheckpoint), s.Cfg.Pipeline, c.SourceID, string(c.Resume), int64(c.Log), int64(c.LastCommit),
		store.RangesColumn(c.SettledAbove), c.SweepPending, migration.Version)
	if s.taking {
		b.Queue(s.SQL(`UPDATE {checkpoint} SET slot = $2 WHERE pipeline = $1`), s.Cfg.Pipeline, s.Cfg.Slot)
	}
}

// Saved implements relational.State.
func (s *Store) Saved(c *checkpoint.Checkpoint) {
	s.taking = false
	s.Core.Saved(c)
}

// WriteCheckpoint implements relational.State.
func (s *Store) WriteCheckpoint(ctx context.Context, c *checkpoint.Checkpoint) error {
	b := &pgx.Batch{}
	s.queueCheckpoint(b, c) // statements of one batch are one transaction
	return s.send(ctx, b)
}

// WriteStarted implements relational.State.
func (s *Store) WriteStarted(ctx context.Context, candidate string) error {
	_, err := s.Conn.Exec(ctx, s.SQL(`UPDATE {checkpoint} SET started = nullif($2, ''), updated_at = now() WHERE pipeline = $1`),
		s.Cfg.Pipeline, candidate)
	return err
}

// checkpointRow is a row of tailbox_checkpoint.
type checkpointRow struct {
	sourceID, resume, settledAbove, started *string
	log, lastCommit                         int64
	sweepPending                            bool
	unclean                                 int
}

// checkpoint is the row's checkpoint; nil if none was saved yet.
func (r *checkpointRow) checkpoint() (*checkpoint.Checkpoint, error) {
	if r.resume == nil {
		return nil, nil
	}
	above, err := store.ParseRanges(orEmpty(r.settledAbove))
	if err != nil {
		return nil, err
	}
	return &checkpoint.Checkpoint{SourceID: orEmpty(r.sourceID), Resume: source.Resume(*r.resume), Log: uint32(r.log),
		LastCommit: uint64(r.lastCommit), SettledAbove: above, SweepPending: r.sweepPending}, nil
}

// orEmpty is the text of a column that may be NULL.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Positioned reports whether the pipeline ever had a position.
func (s *Store) Positioned(ctx context.Context) (have bool, err error) {
	err = s.Conn.QueryRow(ctx, s.SQL("SELECT EXISTS (SELECT FROM {checkpoint} WHERE pipeline = $1 AND resume IS NOT NULL)"), s.Cfg.Pipeline).Scan(&have)
	return have, err
}

// SavedCheckpoint reads the checkpoint; nil if none was saved.
func (s *Store) SavedCheckpoint(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var row checkpointRow
	err := s.Conn.QueryRow(ctx, s.SQL(`SELECT source_id, resume, log, last_commit, sweep_pending FROM {checkpoint} WHERE pipeline = $1`),
		s.Cfg.Pipeline).Scan(&row.sourceID, &row.resume, &row.log, &row.lastCommit, &row.sweepPending)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.Fault("read the checkpoint", err)
	}
	return row.checkpoint()
}

// CheckpointReport reads the checkpoint as a report shows it; nil if none was saved.
func (s *Store) CheckpointReport(ctx context.Context) (*report.Checkpoint, error) {
	var row checkpointRow
	var savedAt time.Time
	var age float64
	err := s.Conn.QueryRow(ctx, s.SQL(`SELECT source_id, resume, settled_above::text, log, sweep_pending, unclean_starts, updated_at,
		extract(epoch FROM now() - updated_at)::float8 FROM {checkpoint} WHERE pipeline = $1`), s.Cfg.Pipeline).
		Scan(&row.sourceID, &row.resume, &row.settledAbove, &row.log, &row.sweepPending, &row.unclean, &savedAt, &age)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.Fault("read the checkpoint", err)
	}
	saved, err := row.checkpoint()
	if err != nil {
		return nil, err
	}
	return report.OfCheckpoint(saved, row.unclean, savedAt, age), nil
}
