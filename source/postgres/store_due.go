package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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

// dueSelect reads what is due. The index tailbox_parked_due holds one entry a lane, so the lanes that have waited longest
// are found without a look at what waits behind them. The limits are shared fairly among the sinks: one with many due lanes,
// or large messages, does not hide another's, not even while what it gets again and again is in flight. Of those that have waited
// longest, turn says which are taken first. The answer is in order.
func dueSelect(where, turn, order string) string {
	return `
WITH due AS MATERIALIZED (
	SELECT d.*, row_number() OVER (PARTITION BY d.sink ORDER BY ` + turn + `) AS turn
	FROM unnest($2::text[]) AS s (sink) CROSS JOIN LATERAL (
		SELECT p.sink, p.source_table, p.message_id, p.next_attempt_at, p.tried_at, p.position, p.priority, coalesce(octet_length(p.payload), 0) AS bytes
		FROM {parked} p WHERE p.pipeline = $1 AND p.sink = s.sink AND p.next_attempt_at <= now()` + where + `
		ORDER BY p.next_attempt_at LIMIT $5) d
), pick AS MATERIALIZED (
	SELECT sink, source_table, message_id, sum(bytes) OVER (PARTITION BY sink ORDER BY turn) - bytes AS before
	FROM due ORDER BY turn, priority DESC, next_attempt_at, message_id, source_table, sink LIMIT $3
)
SELECT ` + parkedColumns + `
FROM pick k CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = k.message_id
	AND q.source_table = k.source_table AND q.sink = k.sink OFFSET 0) p
WHERE k.before < $4 / greatest(cardinality($2::text[]), 1) ORDER BY ` + order + `, p.position, p.message_id, p.sink`
}

// dueParked is the statement. What was never tried has an index of its own: it is found however many others are due before it.
func dueParked(part store.DuePart) string {
	switch part {
	case store.Untried:
		return dueSelect(" AND p.tries = 0", "d.priority DESC, d.next_attempt_at, d.position", "p.priority DESC")
	case store.Tried:
		return dueSelect(" AND p.tries <> 0", "d.tried_at NULLS FIRST, d.next_attempt_at, d.position", "p.tried_at NULLS FIRST")
	}
	return dueSelect("", "d.priority DESC, d.next_attempt_at", "p.priority DESC")
}

// nextDue is when the next one is due, in seconds from now.
const nextDue = `
SELECT extract(epoch FROM min(d.next_attempt_at) - now())::float8
FROM unnest($2::text[]) AS s (sink) CROSS JOIN LATERAL (
	SELECT p.next_attempt_at FROM {parked} p WHERE p.pipeline = $1 AND p.sink = s.sink AND p.next_attempt_at > now()
	ORDER BY p.next_attempt_at LIMIT 1) d`

// Due returns the first deliveries of lanes that are due, and how long until the next one is. Where the limit (or 16 MiB of
// payloads) cut the answer short, the next one is due at once: 1 ms.
func (s *stateStore) Due(ctx context.Context, sinks []string, limit int, probe bool) ([]checkpoint.Parked, time.Duration, error) {
	if err := s.finish(ctx); err != nil {
		return nil, 0, err
	}
	var next *float64
	b := &pgx.Batch{}
	// Plans are made for tables as they were then. Due is called every second or so: no plan is older than that.
	b.Queue("DISCARD PLANS")
	if sinks = s.withParked(sinks); len(sinks) == 0 {
		if err := s.send(ctx, b); err != nil {
			return nil, 0, s.fault("look for due deliveries", err)
		}
		return nil, 0, nil
	}
	b.Queue(s.q(nextDue), s.cfg.Pipeline, sinks).QueryRow(func(r pgx.Row) error { return r.Scan(&next) })
	ps, cut, err := store.Due(limit, probe, func(part store.DuePart, limit int) (found []checkpoint.Parked, cut bool, err error) {
		b.Queue(s.q(dueParked(part)), s.cfg.Pipeline, sinks, limit, dueBytes, part.Window(tablesOf(&s.tables), limit)).Query(func(rows pgx.Rows) (err error) {
			found, err = collectParked(rows)
			return err
		})
		err = s.send(ctx, b)
		b = &pgx.Batch{}
		cut = len(found) == limit
		for _, n := range payloadBySink(found) {
			cut = cut || n >= dueBytes/max(len(sinks), 1)
		}
		return found, cut, err
	})
	if err != nil {
		return nil, 0, s.fault("look for due deliveries", err)
	}
	ps, again, err := s.complete(ctx, ps, false)
	wait := time.Duration(-1)
	if next != nil {
		wait = max(0, time.Duration(*next*float64(time.Second)))
	}
	return ps, store.NextLook(cut, again, wait), err
}

// withParked are those of the sinks that have parked deliveries: whoever holds the lock knows.
func (s *stateStore) withParked(sinks []string) []string {
	return slices.DeleteFunc(slices.Clone(sinks), func(name string) bool { return !s.sinks[name] })
}

// payloadBySink adds up the bytes of payloads.
func payloadBySink(ps []checkpoint.Parked) map[string]int {
	bytes := make(map[string]int)
	for i := range ps {
		bytes[ps[i].Sink] += len(ps[i].Message.Payload)
	}
	return bytes
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
	rows, err := s.conn.Query(ctx, s.q(`SELECT DISTINCT source_table, message_id FROM (
		SELECT source_table, message_id FROM {parked} WHERE pipeline = $1 AND unfinished LIMIT $2) u`), s.cfg.Pipeline, unfinishedChunk)
	if err != nil {
		return s.fault("look for unfinished messages", err)
	}
	var keys []store.MessageKey
	var k store.MessageKey
	if _, err := pgx.ForEachRow(rows, []any{&k.Table, &k.ID}, func() error {
		keys = append(keys, k)
		return nil
	}); err != nil {
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

// pageKeys reads a lane's deliveries after a position without their payloads, and where the sink ” holds the group up.
const pageKeys = `
SELECT p.source_table, p.message_id, p.state = 'dead' OR z.position < p.position, coalesce(octet_length(p.payload), 0)
FROM {parked} p LEFT JOIN LATERAL (
	SELECT q.position FROM {parked} q WHERE p.sink <> '' AND q.pipeline = $1 AND q.sink = '' AND q.message_group = $3 AND q.blocks
	ORDER BY q.position LIMIT 1) z ON true
WHERE p.pipeline = $1 AND p.sink = $2 AND p.message_group = $3 AND p.blocks AND p.position > $4
ORDER BY p.position, p.message_id LIMIT $5`

// pageParked reads deliveries of one sink by key.
const pageParked = `
SELECT ` + parkedColumns + `
FROM unnest($3::text[], $4::text[]) AS k (source_table, message_id) CROSS JOIN LATERAL (SELECT * FROM {parked} q
	WHERE q.pipeline = $1 AND q.message_id = k.message_id AND q.source_table = k.source_table AND q.sink = $2 OFFSET 0) p
ORDER BY p.position, p.message_id`

// Page returns what is parked in a lane after a position, in order, up to the first delivery that waits for an operator: a dead
// one, one of its group at the sink ” or, where the lane is held, the first.
func (s *stateStore) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	if lane.Group == "" || limit <= 0 {
		return nil, false, nil
	}
	rows, err := s.conn.Query(ctx, s.q(pageKeys), s.cfg.Pipeline, lane.Sink, lane.Group, after.String(), limit+1)
	if err != nil {
		return nil, false, s.fault("read a lane", err)
	}
	var tables, ids []string
	var table, id string
	var stop *bool
	var size, total int
	seen, ended := 0, s.held.Has(lane)
	_, err = pgx.ForEachRow(rows, []any{&table, &id, &stop, &size}, func() error {
		seen++
		ended = ended || stop != nil && *stop || len(ids) == limit || len(ids) > 0 && total+size > bytes
		if !ended {
			tables, ids, total = append(tables, table), append(ids, id), total+size
		}
		return nil
	})
	if err != nil {
		return nil, false, s.fault("read a lane", err)
	}
	more := seen > len(ids)
	if len(ids) == 0 {
		return nil, more, nil
	}
	rows, err = s.conn.Query(ctx, s.q(pageParked), s.cfg.Pipeline, lane.Sink, tables, ids)
	if err != nil {
		return nil, false, s.fault("read a lane", err)
	}
	page, err := collectParked(rows)
	if err != nil {
		return nil, false, s.fault("read a lane", err)
	}
	page, again, err := s.complete(ctx, page, true)
	return page, more || again > 0, err
}
