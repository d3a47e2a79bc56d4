package store

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// newestDead lists dead letters, the one that died last first, with whether each is among those that a selection narrows down to.
const newestDead = `
SELECT p.sink, p.message_group, p.position, p.message_id, p.source_table, p.changed_at,
	` + matching + ` AND ($16::text[] IS NULL OR p.message_group = ANY ($16)) AND ($17::text[] IS NULL OR p.message_id = ANY ($17) OR coalesce(p.sent_id = ANY ($17), false))
FROM {parked} p
WHERE p.pipeline = $1 AND p.state = 'dead' AND p.changed_at >= $10 AND p.changed_at < $11
	AND (p.changed_at, p.message_id, p.source_table, p.sink) < ($12, $13, $14, $15)
ORDER BY p.changed_at DESC, p.message_id DESC, p.source_table DESC, p.sink DESC LIMIT $18`

// timeBound is a time for a comparison; the zero time lies before or after all others.
func timeBound(t time.Time, zero pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: zero}
	}
	return pgtype.Timestamptz{Valid: true, Time: t}
}

// Newest implements operate.Reader.
func (s reader) Newest(ctx context.Context, sel *checkpoint.Selection, during operate.Span, after *operate.DeadKey, look int) (seen []operate.DeadRow, err error) {
	if after == nil {
		after = &operate.DeadKey{}
	}
	rows, err := s.Conn.Query(ctx, s.SQL(newestDead), append(matchingArgs(s.Cfg.Pipeline, sel), timeBound(during.Since, pgtype.NegativeInfinity), timeBound(during.Until, pgtype.Infinity),
		timeBound(after.At, pgtype.Infinity), after.ID, after.Table, after.Sink, sel.Groups, sel.IDs, look)...)
	if err != nil {
		return nil, s.Fault("list dead letters", err)
	}
	var row operate.DeadRow
	if _, err := pgx.ForEachRow(rows, []any{&row.Sink, &row.Group, &row.Position, &row.ID, &row.Table, &row.At, &row.Matches}, func() error {
		seen = append(seen, row)
		return nil
	}); err != nil {
		return nil, s.Fault("list dead letters", err)
	}
	return seen, nil
}

const (
	// countFailures counts deliveries by what they have in common: first those that are in the states asked for, the most frequent first. It adds how
	// many were looked at.
	countFailures = `
SELECT class, type, sink, fits, count(*) AS n, min(changed_at), max(changed_at), max(message_id), sum(count(*)) OVER ()::bigint
FROM (SELECT CASE WHEN $3 THEN coalesce(error_class, '') ELSE '' END AS class, CASE WHEN $4 THEN type ELSE '' END AS type,
	CASE WHEN $5 THEN sink ELSE '' END AS sink, changed_at, message_id, `
	countFailuresEnd = ` LIMIT $2) p GROUP BY class, type, sink, fits ORDER BY fits DESC, n DESC, class, type, sink LIMIT $6`
	// countDead looks at the newest dead letters, along the index of them alone. countAny looks at what is parked, in no order.
	countDead = countFailures + `true AS fits FROM {parked} WHERE pipeline = $1 AND state = 'dead' ORDER BY changed_at DESC` + countFailuresEnd
	countAny  = countFailures + `state = ANY ($7::text[]) AS fits FROM {parked} WHERE pipeline = $1` + countFailuresEnd
)

// Summarize implements operate.Reader.
func (s reader) Summarize(ctx context.Context, states []checkpoint.State, by []operate.Cause) (*operate.Summary, error) {
	sql, args := countDead, []any{s.Cfg.Pipeline, operate.MostCounted(states), slices.Contains(by, operate.ByClass), slices.Contains(by, operate.ByType),
		slices.Contains(by, operate.BySink), operate.MostFailures + 1}
	if !operate.OnlyDead(states) {
		sql, args = countAny, append(args, store.StatesOf(&checkpoint.Request{Selection: checkpoint.Selection{States: states}}))
	}
	rows, err := s.Conn.Query(ctx, s.SQL(sql), args...)
	if err != nil {
		return nil, s.Fault("count failures", err)
	}
	found := &operate.Summary{}
	var f operate.Failure
	var fits bool
	counted := 0
	if _, err := pgx.ForEachRow(rows, []any{&f.Class, &f.Type, &f.Sink, &fits, &f.Count, &f.First, &f.Last, &f.ExampleID, &counted}, func() error {
		found.Add(&f, fits, counted >= operate.MostCounted(states))
		return nil
	}); err != nil {
		return nil, s.Fault("count failures", err)
	}
	return found, nil
}
