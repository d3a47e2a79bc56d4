package mysql

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
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

// Due implements checkpoint.Store.
func (s *stateStore) Due(ctx context.Context, q *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	if err := s.Finish(ctx, s.unfinishedMessages); err != nil {
		return nil, 0, err
	}
	sinks := s.WithParked(q.Sinks)
	if len(sinks) == 0 {
		b := s.batch()
		s.queueProof(b)
		if err := s.send(ctx, b); err != nil {
			return nil, 0, storeFault("look for due deliveries", err)
		}
	}
	return store.Due(ctx, s, s.tables.configured(), sinks, q)
}

// DueRefs implements store.ParkedReader.
func (s *stateStore) DueRefs(ctx context.Context, part store.DuePart, sinks []string, window int) ([][]store.ParkedRef, time.Duration, error) {
	due, next := make([][]store.ParkedRef, len(sinks)), time.Duration(-1)
	b := s.batch()
	s.queueProof(b)
	for _, sink := range sinks {
		// Each statement has its own time: what becomes due between two must be in one of them.
		b.each(func(r row) error {
			if d := time.Duration(r.num(0)) * time.Microsecond; next < 0 || d < next {
				next = d
			}
			return nil
		}, nextDue, s.cfg.Pipeline, sink)
	}
	for i, sink := range sinks {
		b.each(func(r row) (err error) {
			ref := store.ParkedRef{Key: checkpoint.Key{Sink: sink, Table: r.text(0), ID: r.text(1)}, Bytes: int(r.num(2)), Priority: int32(r.num(4)), Position: r.text(6)}
			if ref.Next, err = r.time(3); err == nil {
				ref.TriedAt, err = r.time(5)
			}
			due[i] = append(due[i], ref)
			return err
		}, dueParked(part), s.cfg.Pipeline, sink, window)
	}
	if err := s.send(ctx, b); err != nil {
		return nil, 0, storeFault("look for due deliveries", err)
	}
	return due, next, nil
}

// Whole implements store.ParkedReader.
func (s *stateStore) Whole(ctx context.Context, refs []store.ParkedRef) ([]checkpoint.Parked, error) {
	keys := make([]checkpoint.Key, len(refs))
	for i := range refs {
		keys[i] = refs[i].Key
	}
	ps, err := s.readKeys(ctx, keys)
	if err != nil {
		return nil, storeFault("read deliveries", err)
	}
	return ps, nil
}

// settleUnfinished deals with the rows of messages.
func (s *stateStore) settleUnfinished(ctx context.Context, keys []store.MessageKey) error {
	_, err := s.settle(ctx, &checkpoint.Settlement{}, keys, nil)
	return err
}

// unfinishedMessages names messages whose row has still to be dealt with.
func (s *stateStore) unfinishedMessages(ctx context.Context, limit int) (keys []store.MessageKey, err error) {
	b := s.batch()
	b.each(func(r row) error {
		keys = append(keys, store.MessageKey{Table: r.text(0), ID: r.text(1)})
		return nil
	}, `SELECT DISTINCT source_table, message_id FROM (SELECT source_table, message_id FROM {parked} FORCE INDEX (tailbox_parked_unfinished)
		WHERE pipeline = ? AND unfinished = 1 LIMIT ?) u`, s.cfg.Pipeline, limit)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("look for unfinished messages", err)
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

// Page implements checkpoint.Store.
func (s *stateStore) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	return store.Page(ctx, s, lane, s.Holds.Has(lane), after, limit, bytes)
}

// LaneRefs implements store.ParkedReader.
func (s *stateStore) LaneRefs(ctx context.Context, lane checkpoint.Lane, after string, limit int) (refs []store.ParkedRef, unrouted string, err error) {
	b := s.batch()
	if lane.Sink != "" {
		b.each(func(r row) error {
			unrouted = r.text(0)
			return nil
		}, unroutedHead, s.cfg.Pipeline, bin(lane.Group))
	}
	b.each(func(r row) error {
		refs = append(refs, store.ParkedRef{Key: checkpoint.Key{Sink: lane.Sink, Table: r.text(0), ID: r.text(1)}, Dead: r.bool(2), Position: r.text(3), Bytes: int(r.num(4))})
		return nil
	}, pageKeys, s.cfg.Pipeline, lane.Sink, bin(lane.Group), after, limit)
	if err := s.send(ctx, b); err != nil {
		return nil, "", storeFault("read a lane", err)
	}
	return refs, unrouted, nil
}
