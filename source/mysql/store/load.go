package store

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store/migration"
)

const (
	// countStart counts the start as unclean. The epoch fences whoever held the lock before.
	countStart = `
INSERT INTO {checkpoint} (pipeline, schema_version, unclean_starts, lease_epoch) VALUES (?, ?, 1, 1)
ON DUPLICATE KEY UPDATE unclean_starts = unclean_starts + 1, lease_epoch = lease_epoch + 1, updated_at = UTC_TIMESTAMP(6)`

	// acceptedGap finds the requests that accept the gap behind the present checkpoint. Those for another one are about a gap
	// that is over, and say nothing about this one.
	acceptedGap = `
SELECT COALESCE(MAX(id), 0) FROM {request} WHERE pipeline = ? AND done_at IS NULL AND verb = 'accept-gap'
	AND ` + requestFrom + ` = (SELECT CAST(c.resume AS BINARY) FROM {checkpoint} c WHERE c.pipeline = ?)`

	// blockedLanes names the lanes with blocking deliveries, from the index alone.
	blockedLanes = `
SELECT DISTINCT sink, message_group FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1
ORDER BY sink, message_group`

	// parkedSinks names the sinks with parked deliveries. Those that were dropped, or delivered but for their row, do not count.
	parkedSinks = `
SELECT DISTINCT sink FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1
UNION SELECT a.sink FROM (SELECT DISTINCT sink FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 0) a
WHERE EXISTS (SELECT 1 FROM {parked} p WHERE p.pipeline = ? AND p.blocks = 0 AND p.sink = a.sink AND p.state NOT IN ('dropped', 'delivered'))
ORDER BY 1`
)

// queueSinks asks for the sinks with parked deliveries.
func (s *Store) queueSinks(b *session.Batch, on func(sink string)) {
	p := s.Config.Pipeline
	b.Each(func(r session.Row) error {
		on(r.Text(0))
		return nil
	}, parkedSinks, p, p, p)
}

// CountStart implements relational.State.
func (s *Store) CountStart(ctx context.Context) (*checkpoint.Loaded, error) {
	found, err := s.readStart(ctx)
	if err != nil {
		return nil, err
	}
	out := &checkpoint.Loaded{Checkpoint: found.Checkpoint, Started: found.started, UncleanStarts: found.Unclean - 1}
	b := s.Batch()
	b.Each(func(r session.Row) error {
		out.Blocked = append(out.Blocked, checkpoint.Lane{Sink: r.Text(0), Group: r.Text(1)})
		return nil
	}, blockedLanes, s.Config.Pipeline)
	s.queueSinks(b, func(sink string) { out.ParkedSinks = append(out.ParkedSinks, sink) })
	b.Each(func(r session.Row) error {
		s.Gap = r.Num(0)
		return nil
	}, acceptedGap, s.Config.Pipeline, s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("load state", err)
	}
	return out, nil
}

// SourceID implements relational.State.
func (s *Store) SourceID(ctx context.Context) (string, error) { return server.SourceID(ctx, s.Conn) }

// readStart counts the start, and reads the pipeline's row, which it makes where there is none.
func (s *Store) readStart(ctx context.Context) (out CheckpointRow, err error) {
	b := s.Batch()
	s.Begin(b)
	b.Exec(countStart, s.Config.Pipeline, migration.Version)
	b.Each(func(r session.Row) (err error) {
		out, err = ReadCheckpoint(r)
		return err
	}, "SELECT "+CheckpointColumns+" FROM {checkpoint} WHERE pipeline = ?", s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return out, server.Fault("load state", errors.Join(err, s.Rollback(ctx)))
	}
	b.Exec("COMMIT")
	if err := s.Send(ctx, b); err != nil {
		return out, server.Fault("load state", err)
	}
	s.Epoch = out.epoch
	return out, nil
}

// RecallParked implements relational.State.
func (s *Store) RecallParked(ctx context.Context) error {
	b := s.Batch()
	s.queueSinks(b, func(sink string) { s.Sinks[sink] = true })
	b.Each(func(session.Row) error {
		s.Unfinished = true
		return nil
	}, `SELECT 1 FROM {parked} WHERE pipeline = ? AND unfinished = 1 LIMIT 1`, s.Config.Pipeline)
	return s.Send(ctx, b)
}
