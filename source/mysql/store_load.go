package mysql

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
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
func (s *stateStore) queueSinks(b *batch, on func(sink string)) {
	p := s.cfg.Pipeline
	b.each(func(r row) error {
		on(r.text(0))
		return nil
	}, parkedSinks, p, p, p)
}

// Load reads the state, and counts the start as unclean until something is settled.
func (s *stateStore) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	found, err := s.countStart(ctx)
	if err != nil {
		return nil, err
	}
	out := &checkpoint.Loaded{Checkpoint: found.checkpoint, Started: found.started, UncleanStarts: found.unclean - 1}
	b := s.batch()
	b.each(func(r row) error {
		out.Blocked = append(out.Blocked, checkpoint.Lane{Sink: r.text(0), Group: r.text(1)})
		return nil
	}, blockedLanes, s.cfg.Pipeline)
	s.queueSinks(b, func(sink string) { out.ParkedSinks = append(out.ParkedSinks, sink) })
	b.each(func(r row) error {
		s.Gap = r.num(0)
		return nil
	}, acceptedGap, s.cfg.Pipeline, s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("load state", err)
	}
	force, err := s.inForce(ctx)
	if err != nil {
		return nil, err
	}
	s.Loaded(out, force)
	if out.SourceID, err = sourceID(ctx, s.sess); err != nil {
		return nil, storeFault("name the server", err)
	}
	return out, nil
}

// countStart counts the start, and reads the pipeline's row, which it makes where there is none.
func (s *stateStore) countStart(ctx context.Context) (out checkpointRow, err error) {
	b := s.batch()
	s.begin(b)
	b.exec(countStart, s.cfg.Pipeline, store.SchemaVersion)
	b.each(func(r row) (err error) {
		out, err = readCheckpoint(r)
		return err
	}, "SELECT "+checkpointColumns+" FROM {checkpoint} WHERE pipeline = ?", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return out, storeFault("load state", errors.Join(err, s.rollback(ctx)))
	}
	b.exec("COMMIT")
	if err := s.send(ctx, b); err != nil {
		return out, storeFault("load state", err)
	}
	s.epoch = out.epoch
	return out, nil
}

// Remember implements store.Reader.
func (s *stateStore) Remember(ctx context.Context) error {
	b := s.batch()
	s.queueSinks(b, func(sink string) { s.Sinks[sink] = true })
	b.each(func(row) error {
		s.Unfinished = true
		return nil
	}, `SELECT 1 FROM {parked} WHERE pipeline = ? AND unfinished = 1 LIMIT 1`, s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return storeFault("load state", err)
	}
	force, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	s.Holds = force.Held()
	return nil
}
