package mysql

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
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
func (s *stateStore) queueCheckpoint(b *batch, c *checkpoint.Checkpoint) {
	var above any
	if len(c.SettledAbove) > 0 {
		above = string(store.AppendRanges(nil, c.SettledAbove))
	}
	if c.Log != s.Log && s.Gap != 0 { // before the checkpoint that it compares with is replaced
		b.exec(acceptGap, `{"changed": 1, "note": "the gap was accepted"}`, s.cfg.Pipeline, s.Gap, s.cfg.Pipeline)
	}
	args := []any{c.SourceID, string(c.Resume), c.Log, c.LastCommit, above, c.SweepPending, s.cfg.Pipeline}
	if s.epoch < 0 {
		b.exec(firstCheckpoint, append(args, store.SchemaVersion)...)
		return
	}
	b.exec(saveCheckpoint, args...)
}

// Saved notes what a committed checkpoint means for the session.
func (s *stateStore) Saved(c *checkpoint.Checkpoint) {
	s.epoch = max(s.epoch, 0)
	s.Memory.Saved(c)
}

// Save writes a checkpoint without outcomes.
func (s *stateStore) Save(ctx context.Context, c *checkpoint.Checkpoint) error {
	if err := s.inTx(ctx, func(b *batch) { s.queueCheckpoint(b, c) }); err != nil {
		return storeFault("save checkpoint", err)
	}
	s.Saved(c)
	return nil
}

// Starting records the position that a cautious start is about to decode.
func (s *stateStore) Starting(ctx context.Context, suspect checkpoint.Suspect) error {
	err := s.inTx(ctx, func(b *batch) {
		b.exec(`UPDATE {checkpoint} SET started = NULLIF(?, ''), updated_at = UTC_TIMESTAMP(6) WHERE pipeline = ?`, suspect.String(), s.cfg.Pipeline)
	})
	if err != nil {
		return storeFault("record the position about to be decoded", err)
	}
	s.Started = suspect != (checkpoint.Suspect{})
	return nil
}

// checkpointColumns are what checkpointRow reads.
const checkpointColumns = `source_id, resume, log, last_commit, settled_above, sweep_pending, started, unclean_starts, lease_epoch`

// checkpointRow is a row of tailbox_checkpoint.
type checkpointRow struct {
	checkpoint *checkpoint.Checkpoint // nil where none was saved yet
	started    checkpoint.Suspect
	unclean    int
	epoch      int64
}

func readCheckpoint(r row) (out checkpointRow, err error) {
	if !r.null(1) {
		c := &checkpoint.Checkpoint{SourceID: r.text(0), Resume: source.Resume(r.text(1)), Log: uint32(r.unsigned(2)),
			LastCommit: r.unsigned(3), SweepPending: r.bool(5)}
		if c.SettledAbove, err = store.ParseRanges(r.text(4)); err != nil {
			return out, fmt.Errorf("%w: load state: %w", source.ErrStop, err)
		}
		out.checkpoint = c
	}
	if text := r.text(6); text != "" {
		if out.started, err = checkpoint.ParseSuspect(text); err != nil {
			return out, fmt.Errorf("%w: load state: started: %w", source.ErrStop, err)
		}
	}
	out.unclean, out.epoch = int(r.num(7)), r.num(8)
	return out, nil
}
