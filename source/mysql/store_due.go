package mysql

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// dueBytes bounds the payloads of one answer of Due, shared by the sinks; the first delivery of each is always in it.
	dueBytes = 16 << 20
	// unfinishedChunk is how many unfinished messages are tried at once.
	unfinishedChunk = 500
)

const (
	// dueColumns are what is read of what is due at a sink, without payloads. Followers in a lane have no time, so it costs by lanes.
	dueColumns = "SELECT source_table, message_id, payload_bytes, next_attempt_at, priority, COALESCE(tried_at, ''), position FROM {parked} FORCE INDEX "
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

// A dueKey is a delivery that is due.
type dueKey struct {
	checkpoint.Key
	bytes    int
	at       string // sorts, as the two others do
	tried    string
	position string
	priority int64
}

// Due returns the first deliveries of lanes that are due, and how long until the next one is. Where the limit (or 16 MiB of
// payloads) cut the answer short, the next one is due at once: 1 ms.
func (s *stateStore) Due(ctx context.Context, sinks []string, limit int, probe bool) ([]checkpoint.Parked, time.Duration, error) {
	if err := s.finish(ctx); err != nil {
		return nil, 0, err
	}
	// Whoever holds the lock knows which sinks have parked deliveries.
	sinks = slices.DeleteFunc(slices.Clone(sinks), func(name string) bool { return !s.sinks[name] })
	next := time.Duration(-1)
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
	ps, cut, err := store.Due(limit, probe, func(part store.DuePart, limit int) (ps []checkpoint.Parked, cut bool, err error) {
		ps, cut, err = s.dueOf(ctx, b, part, sinks, limit)
		b = s.batch()
		return ps, cut, err
	})
	if err != nil {
		return nil, 0, s.fault("look for due deliveries", err)
	}
	ps, again, err := s.complete(ctx, ps, false)
	return ps, store.NextLook(cut, again, next), err
}

// dueOf reads a part of what is due, at the end of a batch.
func (s *stateStore) dueOf(ctx context.Context, b *batch, part store.DuePart, sinks []string, limit int) (ps []checkpoint.Parked, cut bool, err error) {
	due := make([][]dueKey, len(sinks))
	window := part.Window(s.tables.configured(), limit)
	for i, sink := range sinks {
		b.each(func(r row) error {
			due[i] = append(due[i], dueKey{checkpoint.Key{Sink: sink, Table: r.text(0), ID: r.text(1)}, int(r.num(2)), r.text(3), r.text(5), r.text(6), r.num(4)})
			return nil
		}, dueParked(part), s.cfg.Pipeline, sink, window)
	}
	if err := s.send(ctx, b); err != nil {
		return nil, false, err
	}
	for i := range due {
		slices.SortStableFunc(due[i], func(a, b dueKey) int {
			switch part {
			case store.Tried:
				return cmp.Or(cmp.Compare(a.tried, b.tried), cmp.Compare(a.at, b.at), cmp.Compare(a.position, b.position))
			case store.Untried:
				return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.at, b.at), cmp.Compare(a.position, b.position))
			}
			return cmp.Compare(b.priority, a.priority)
		})
	}
	keys, cut := fairShare(due, limit)
	ps = make([]checkpoint.Parked, 0, len(keys))
	if err := s.readKeys(ctx, keys, func(p checkpoint.Parked, _ row) error {
		ps = append(ps, p)
		return nil
	}); err != nil {
		return nil, false, err
	}
	if part == store.Tried {
		store.Arrange(ps, keys)
		return ps, cut, nil
	}
	slices.SortFunc(ps, func(a, b checkpoint.Parked) int {
		return cmp.Or(cmp.Compare(b.Message.Priority, a.Message.Priority), a.Message.Position.Compare(b.Message.Position), cmp.Compare(a.RowID(), b.RowID()), cmp.Compare(a.Sink, b.Sink))
	})
	return ps, cut, nil
}

// fairShare picks deliveries by turns: one with many due lanes, or large messages, does not hide another's sink, not even
// while what it gets again and again is in flight. Cut: some are left out, or may be.
func fairShare(due [][]dueKey, limit int) (keys []checkpoint.Key, cut bool) {
	share := dueBytes / max(len(due), 1)
	bytes := make([]int, len(due))
	for turn := 0; ; turn++ {
		var round []int
		for i := range due {
			if turn < len(due[i]) {
				round = append(round, i)
			}
		}
		if len(round) == 0 {
			return keys, cut || len(keys) == limit
		}
		slices.SortStableFunc(round, func(a, b int) int { return cmp.Compare(due[a][turn].at, due[b][turn].at) })
		for _, i := range round {
			switch {
			case len(keys) == limit:
				return keys, true
			case bytes[i] >= share:
				cut = true
				continue
			}
			bytes[i] += due[i][turn].bytes
			keys = append(keys, due[i][turn].Key)
		}
	}
}

// settleUnfinished deals with the rows of messages.
func (s *stateStore) settleUnfinished(ctx context.Context, keys []store.MessageKey) error {
	_, err := s.settle(ctx, &checkpoint.Settlement{}, keys, nil)
	return err
}

// finish tries again to deal with rows that were locked, or that the database refused to change, when their message was settled.
func (s *stateStore) finish(ctx context.Context) error {
	if !s.unfinished || s.finisher.Rests() {
		return nil
	}
	var keys []store.MessageKey
	b := s.batch()
	b.each(func(r row) error {
		keys = append(keys, store.MessageKey{Table: r.text(0), ID: r.text(1)})
		return nil
	}, `SELECT DISTINCT source_table, message_id FROM (SELECT source_table, message_id FROM {parked} FORCE INDEX (tailbox_parked_unfinished)
		WHERE pipeline = ? AND unfinished = 1 LIMIT ?) u`, s.cfg.Pipeline, unfinishedChunk)
	if err := s.send(ctx, b); err != nil {
		return s.fault("look for unfinished messages", err)
	}
	s.unfinished = len(keys) == unfinishedChunk // settle says so if there are more
	if len(keys) == 0 {
		return nil
	}
	left, err := s.finisher.Finish(ctx, keys)
	s.unfinished = s.unfinished || left
	return err
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

// Page returns what is parked in a lane after a position, in order, up to the first delivery that waits for an operator: a dead
// one, one of its group at the sink ” or, where the lane is held, the first.
func (s *stateStore) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	if lane.Group == "" || limit <= 0 {
		return nil, false, nil
	}
	unrouted := ""
	var keys []checkpoint.Key
	seen, total, ended := 0, 0, s.held.Has(lane)
	b := s.batch()
	if lane.Sink != "" {
		b.each(func(r row) error {
			unrouted = r.text(0)
			return nil
		}, unroutedHead, s.cfg.Pipeline, bin(lane.Group))
	}
	b.each(func(r row) error {
		seen++
		size := int(r.num(4))
		ended = ended || r.bool(2) || unrouted != "" && unrouted < r.text(3) || len(keys) == limit || len(keys) > 0 && total+size > bytes
		if !ended {
			keys, total = append(keys, checkpoint.Key{Sink: lane.Sink, Table: r.text(0), ID: r.text(1)}), total+size
		}
		return nil
	}, pageKeys, s.cfg.Pipeline, lane.Sink, bin(lane.Group), after.String(), limit+1)
	if err := s.send(ctx, b); err != nil {
		return nil, false, s.fault("read a lane", err)
	}
	more := seen > len(keys)
	if len(keys) == 0 {
		return nil, more, nil
	}
	var page []checkpoint.Parked
	if err := s.readKeys(ctx, keys, func(p checkpoint.Parked, _ row) error {
		page = append(page, p)
		return nil
	}); err != nil {
		return nil, false, s.fault("read a lane", err)
	}
	slices.SortFunc(page, func(a, b checkpoint.Parked) int {
		return cmp.Or(a.Message.Position.Compare(b.Message.Position), cmp.Compare(a.RowID(), b.RowID()))
	})
	page, again, err := s.complete(ctx, page, true)
	return page, more || again > 0, err
}
