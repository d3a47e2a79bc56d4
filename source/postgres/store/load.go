package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/migration"
)

// countStart reads the pipeline's row, makes it where there is none, and counts the start as unclean. With $5 the row keeps the slot
// that it names.
const countStart = `
INSERT INTO {checkpoint} AS c (pipeline, schema_version, slot, publication, unclean_starts, lease_epoch) VALUES ($1, $2, $3, $4, 1, 1)
ON CONFLICT (pipeline) DO UPDATE SET slot = CASE WHEN $5 THEN c.slot ELSE excluded.slot END, publication = excluded.publication, unclean_starts = c.unclean_starts + 1, lease_epoch = c.lease_epoch + 1, updated_at = now()
RETURNING source_id, resume, settled_above::text, started, log, last_commit, sweep_pending, unclean_starts - 1`

// acceptedGap finds the requests that accept the gap behind the present checkpoint. Those for another one are about a gap that
// is over, and say nothing about this one.
const acceptedGap = `
SELECT coalesce(max(r.id), 0) FROM {request} r JOIN {checkpoint} c ON c.pipeline = r.pipeline AND r.selection ->> 'from' = c.resume
WHERE r.pipeline = $1 AND r.done_at IS NULL AND r.verb = 'accept-gap'`

// blockedLanes names the lanes with blocking deliveries. It steps from lane to lane along the index, so its cost depends on the number of lanes, not
// of deliveries.
const blockedLanes = `
WITH RECURSIVE lane AS (
	(SELECT sink, message_group FROM {parked} WHERE pipeline = $1 AND blocks ORDER BY sink, message_group LIMIT 1)
	UNION ALL
	SELECT n.sink, n.message_group FROM lane l CROSS JOIN LATERAL (
		SELECT p.sink, p.message_group FROM {parked} p
		WHERE p.pipeline = $1 AND p.blocks AND (p.sink, p.message_group) > (l.sink, l.message_group)
		ORDER BY p.sink, p.message_group LIMIT 1) n
)
SELECT sink, message_group FROM lane`

// parkedSinks names the sinks with parked deliveries, stepping along the two indexes in the same way. Dropped deliveries, and delivered ones that
// wait for their row, do not count.
const parkedSinks = `
WITH RECURSIVE lane (sink) AS (
	(SELECT sink FROM {parked} WHERE pipeline = $1 AND blocks ORDER BY sink LIMIT 1)
	UNION ALL
	SELECT n.sink FROM lane l CROSS JOIN LATERAL (SELECT p.sink FROM {parked} p
		WHERE p.pipeline = $1 AND p.blocks AND p.sink > l.sink ORDER BY p.sink LIMIT 1) n
), aside (sink) AS (
	(SELECT sink FROM {parked} WHERE pipeline = $1 AND NOT blocks ORDER BY sink LIMIT 1)
	UNION ALL
	SELECT n.sink FROM aside l CROSS JOIN LATERAL (SELECT p.sink FROM {parked} p
		WHERE p.pipeline = $1 AND NOT p.blocks AND p.sink > l.sink ORDER BY p.sink LIMIT 1) n
)
SELECT sink FROM lane UNION
SELECT sink FROM aside a WHERE EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.sink = a.sink AND NOT p.blocks
	AND p.state NOT IN ('dropped', 'delivered'))
ORDER BY 1`

// CountStart implements relational.State.
func (s *Store) CountStart(ctx context.Context) (*checkpoint.Loaded, error) {
	claim, err := s.claim(ctx)
	if err != nil {
		return nil, err
	}
	out := &checkpoint.Loaded{}
	var row checkpointRow
	b := &pgx.Batch{}
	b.Queue(s.SQL(countStart), s.Cfg.Pipeline, migration.Version, claim.slot, claim.publication, claim.keep).QueryRow(func(r pgx.Row) error {
		return r.Scan(&row.sourceID, &row.resume, &row.settledAbove, &row.started, &row.log, &row.lastCommit, &row.sweepPending,
			&row.unclean)
	})
	b.Queue(s.SQL(blockedLanes), s.Cfg.Pipeline).Query(func(rows pgx.Rows) error { return scanLanes(rows, &out.Blocked) })
	b.Queue(s.SQL(parkedSinks), s.Cfg.Pipeline).Query(func(rows pgx.Rows) (err error) {
		out.ParkedSinks, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	b.Queue(s.SQL(acceptedGap), s.Cfg.Pipeline).QueryRow(func(r pgx.Row) error { return r.Scan(&s.Gap) })
	if err := s.send(ctx, b); err != nil {
		return nil, s.Fault("load state", err)
	}
	if out.Checkpoint, err = row.checkpoint(); err != nil {
		return nil, fmt.Errorf("%w: load state: %w", source.ErrStop, err)
	}
	if orEmpty(row.started) != "" {
		if out.Started, err = checkpoint.ParseCrashCandidate(*row.started); err != nil {
			return nil, fmt.Errorf("%w: load state: started: %w", source.ErrStop, err)
		}
	}
	out.UncleanStarts = row.unclean
	return out, nil
}

// SourceID implements relational.State.
func (s *Store) SourceID(ctx context.Context) (string, error) { return upstream.IDOf(ctx, s.Conn) }

// A claim is what Load writes of slot and publication: nil = none. With keep, the row's slot stays.
type claim struct {
	slot, publication any
	keep              bool
}

func (s *Store) claim(ctx context.Context) (claim, error) {
	if s.Cfg.Poll {
		// If the slot from before polling still exists, it stays the pipeline's own.
		slot, err := upstream.Find(ctx, &s.Cfg, s.Conn.PgConn())
		return claim{keep: slot != nil}, err
	}
	own, err := s.SlotClaims().Claim(ctx)
	if err != nil {
		return claim{}, err
	}
	s.taking = !own
	if s.taking {
		return claim{publication: s.Cfg.Publication, keep: true}, nil
	}
	return claim{slot: s.Cfg.Slot, publication: s.Cfg.Publication}, nil
}

// RecallParked implements relational.State.
func (s *Store) RecallParked(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue(s.SQL(parkedSinks), s.Cfg.Pipeline).Query(func(rows pgx.Rows) error {
		var sink string
		_, err := pgx.ForEachRow(rows, []any{&sink}, func() error {
			s.Sinks[sink] = true
			return nil
		})
		return err
	})
	b.Queue(s.SQL(`SELECT EXISTS (SELECT FROM {parked} WHERE pipeline = $1 AND unfinished)`),
		s.Cfg.Pipeline).QueryRow(func(r pgx.Row) error { return r.Scan(&s.Unfinished) })
	return s.send(ctx, b)
}

// scanLanes appends the lanes of a query that returns sink and group.
func scanLanes(rows pgx.Rows, to *[]checkpoint.Lane) error {
	var l checkpoint.Lane
	_, err := pgx.ForEachRow(rows, []any{&l.Sink, &l.Group}, func() error {
		*to = append(*to, l)
		return nil
	})
	return err
}
