package store

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/migration"
)

const (
	// saveCheckpoint writes a checkpoint, and with it that the start was a clean one. The row is there since Load; else
	// firstCheckpoint makes it.
	saveCheckpoint = `
UPDATE {checkpoint} SET source_id = ?, resume = ?, log = ?, last_commit = ?, settled_above = ?, sweep_pending = ?, started = NULL,
	unclean_starts = 0, updated_at = UTC_TIMESTAMP(6)
WHERE pipeline = ?`
	firstCheckpoint = `INSERT INTO {checkpoint} (source_id, resume, log, last_commit, settled_above, sweep_pending, pipeline, schema_version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

	// settleStart records that something was settled, without a checkpoint.
	settleStart = `UPDATE {checkpoint} SET started = NULL, unclean_starts = 0, updated_at = UTC_TIMESTAMP(6) WHERE pipeline = ?`

	// acceptGap closes the requests to accept a gap that a newly established position has used up. Those made after the start
	// looked for them are left, and so are those for another checkpoint: nobody has acted on them.
	acceptGap = `
UPDATE {request} SET done_at = UTC_TIMESTAMP(6), result = ?
WHERE pipeline = ? AND verb = 'accept-gap' AND done_at IS NULL AND id <= ?
	AND ` + requestFrom + ` = (SELECT CAST(c.resume AS BINARY) FROM {checkpoint} c WHERE c.pipeline = ?)`

	// requestFrom is the checkpoint that a request names.
	requestFrom = `CAST(JSON_UNQUOTE(JSON_EXTRACT(selection, '$.from')) AS BINARY)`
)

// queueCheckpoint adds a checkpoint to a batch.
func (s *Store) queueCheckpoint(b *session.Batch, c *checkpoint.Checkpoint) {
	if c.Log != s.Log && s.Gap != 0 { // before the checkpoint that it compares with is replaced
		b.Exec(acceptGap, `{"changed": 1, "note": "the gap was accepted"}`, s.Config.Pipeline, s.Gap, s.Config.Pipeline)
	}
	args := []any{c.SourceID, string(c.Resume), c.Log, c.LastCommit, store.RangesColumn(c.SettledAbove), c.SweepPending, s.Config.Pipeline}
	if s.Epoch < 0 {
		b.Exec(firstCheckpoint, append(args, migration.Version)...)
		return
	}
	b.Exec(saveCheckpoint, args...)
}

// Saved implements relational.State.
func (s *Store) Saved(c *checkpoint.Checkpoint) {
	s.Epoch = max(s.Epoch, 0)
	s.Core.Saved(c)
}

// WriteCheckpoint implements relational.State.
func (s *Store) WriteCheckpoint(ctx context.Context, c *checkpoint.Checkpoint) error {
	return s.InTx(ctx, func(b *session.Batch) { s.queueCheckpoint(b, c) })
}

// WriteStarted implements relational.State.
func (s *Store) WriteStarted(ctx context.Context, candidate string) error {
	return s.InTx(ctx, func(b *session.Batch) {
		b.Exec(`UPDATE {checkpoint} SET started = NULLIF(?, ''), updated_at = UTC_TIMESTAMP(6) WHERE pipeline = ?`, candidate, s.Config.Pipeline)
	})
}

// CheckpointColumns are what CheckpointRow reads.
const CheckpointColumns = `source_id, resume, log, last_commit, settled_above, sweep_pending, started, unclean_starts, lease_epoch`

// CheckpointRow is a row of tailbox_checkpoint.
type CheckpointRow struct {
	Checkpoint *checkpoint.Checkpoint // nil if none was saved yet
	started    checkpoint.CrashCandidate
	Unclean    int
	epoch      int64
}

// ReadCheckpoint reads a row of CheckpointColumns.
func ReadCheckpoint(r session.Row) (out CheckpointRow, err error) {
	if !r.Null(1) {
		c := &checkpoint.Checkpoint{SourceID: r.Text(0), Resume: source.Resume(r.Text(1)), Log: uint32(r.Unsigned(2)),
			LastCommit: r.Unsigned(3), SweepPending: r.Bool(5)}
		if c.SettledAbove, err = store.ParseRanges(r.Text(4)); err != nil {
			return out, fmt.Errorf("%w: load state: %w", source.ErrStop, err)
		}
		out.Checkpoint = c
	}
	if text := r.Text(6); text != "" {
		if out.started, err = checkpoint.ParseCrashCandidate(text); err != nil {
			return out, fmt.Errorf("%w: load state: started: %w", source.ErrStop, err)
		}
	}
	out.Unclean, out.epoch = int(r.Num(7)), r.Num(8)
	return out, nil
}
