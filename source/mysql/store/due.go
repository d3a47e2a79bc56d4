package store

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// dueColumns are what is read of what is due at a sink, without payloads. Followers in a lane have no time, so it costs by lanes.
	dueColumns = "SELECT source_table, message_id, payload_bytes, next_attempt_at, priority, tried_at, position FROM {parked} FORCE INDEX "
	dueWhere   = " WHERE pipeline = ? AND sink = ? AND next_attempt_at <= UTC_TIMESTAMP(6)"
	dueOrder   = " ORDER BY next_attempt_at LIMIT ?"

	// nextDue is when the next one is due at a sink, in microseconds from now.
	nextDue = `
SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), next_attempt_at) FROM {parked} FORCE INDEX (tailbox_parked_due)
WHERE pipeline = ? AND sink = ? AND next_attempt_at > UTC_TIMESTAMP(6) ORDER BY next_attempt_at LIMIT 1`
)

// dueParked is the statement. What was never tried has an index of its own: it is found however many others are due before it.
func dueParked(part store.DuePart) string {
	switch part {
	case store.Untried:
		return dueColumns + "(tailbox_parked_untried)" + dueWhere + " AND tries = 0" + dueOrder
	case store.Tried:
		return dueColumns + "(tailbox_parked_due)" + dueWhere + " AND tries <> 0" + dueOrder
	}
	return dueColumns + "(tailbox_parked_due)" + dueWhere + dueOrder
}

// DueRefs implements store.ParkedReader.
func (s *Store) DueRefs(ctx context.Context, part store.DuePart, sinks []string, window int) ([][]store.ParkedRef, time.Duration, error) {
	due, next := make([][]store.ParkedRef, len(sinks)), time.Duration(-1)
	b := s.Batch()
	s.QueueProof(b)
	for _, sink := range sinks {
		// Each statement has its own time: what becomes due between two must be in one of them.
		b.Each(func(r session.Row) error {
			if d := time.Duration(r.Num(0)) * time.Microsecond; next < 0 || d < next {
				next = d
			}
			return nil
		}, nextDue, s.Config.Pipeline, sink)
	}
	for i, sink := range sinks {
		b.Each(func(r session.Row) (err error) {
			ref := store.ParkedRef{Key: checkpoint.Key{Sink: sink, Table: r.Text(0), ID: r.Text(1)}, Bytes: int(r.Num(2)), Priority: int32(r.Num(4)), Position: r.Text(6)}
			if ref.Next, err = r.Time(3); err == nil {
				ref.TriedAt, err = r.Time(5)
			}
			due[i] = append(due[i], ref)
			return err
		}, dueParked(part), s.Config.Pipeline, sink, window)
	}
	if err := s.Send(ctx, b); err != nil {
		return nil, 0, server.Fault("look for due deliveries", err)
	}
	return due, next, nil
}

// UnfinishedMessages implements relational.Database.
func (s *Store) UnfinishedMessages(ctx context.Context, limit int) (keys []store.MessageKey, err error) {
	b := s.Batch()
	b.Each(func(r session.Row) error {
		keys = append(keys, store.MessageKey{Table: r.Text(0), ID: r.Text(1)})
		return nil
	}, `SELECT DISTINCT source_table, message_id FROM (SELECT source_table, message_id FROM {parked} FORCE INDEX (tailbox_parked_unfinished)
		WHERE pipeline = ? AND unfinished = 1 LIMIT ?) u`, s.Config.Pipeline, limit)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("look for unfinished messages", err)
	}
	return keys, nil
}

const (
	// pageKeys reads a lane's deliveries after a position without their payloads.
	pageKeys = `
SELECT source_table, message_id, state = 'dead', position, payload_bytes FROM {parked} FORCE INDEX (tailbox_parked_lane)
WHERE pipeline = ? AND blocks = 1 AND sink = ? AND message_group = ? AND position > ? ORDER BY position LIMIT ?`

	// unroutedHead is where the sink '' holds a group up.
	unroutedHead = `
SELECT position FROM {parked} FORCE INDEX (tailbox_parked_lane)
WHERE pipeline = ? AND blocks = 1 AND sink = '' AND message_group = ? ORDER BY position LIMIT 1`
)

// LaneRefs implements store.ParkedReader.
func (s *Store) LaneRefs(ctx context.Context, lane checkpoint.Lane, after string, limit int) (refs []store.ParkedRef, unrouted string, err error) {
	b := s.Batch()
	if lane.Sink != "" {
		b.Each(func(r session.Row) error {
			unrouted = r.Text(0)
			return nil
		}, unroutedHead, s.Config.Pipeline, quote.Bin(lane.Group))
	}
	b.Each(func(r session.Row) error {
		refs = append(refs, store.ParkedRef{Key: checkpoint.Key{Sink: lane.Sink, Table: r.Text(0), ID: r.Text(1)}, Dead: r.Bool(2), Position: r.Text(3), Bytes: int(r.Num(4))})
		return nil
	}, pageKeys, s.Config.Pipeline, lane.Sink, quote.Bin(lane.Group), after, limit)
	if err := s.Send(ctx, b); err != nil {
		return nil, "", server.Fault("read a lane", err)
	}
	return refs, unrouted, nil
}
