package store

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

const (
	replayParked = `
UPDATE {parked} p SET state = 'waiting', blocks = NOT p.alone, attempts = 0, tries = 0, failed_epoch = 0, failed_call = 0, tried_at = NULL,
	replays = p.replays + 1, last_error = NULL, error_class = NULL, next_attempt_at = CASE WHEN p.alone THEN now() END, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	dropParked = `
UPDATE {parked} p SET state = 'dropped', blocks = false, next_attempt_at = NULL, error_class = 'dropped', last_error = $5, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	skipParked = `
UPDATE {parked} p SET blocks = false, state = 'dead', next_attempt_at = NULL, changed_at = CASE p.state WHEN 'dead' THEN p.changed_at ELSE now() END
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`
)

// rewriteParked replaces what deliveries carry.
func rewriteParked() string {
	var sets []string
	columns := rewritten(new(store.ParkedRow))
	for _, c := range columns {
		if c.Part != store.State {
			sets = append(sets, c.Name+" = "+parameterValue(&c, "v."+c.Name))
		}
	}
	return "UPDATE {parked} p SET " + strings.Join(sets, ", ") + " FROM " + unnest(columns, 2) + parkedAt + "WHERE p.ctid = at.ctid"
}

// rewritten are the columns that rewriteParked is given: the key, and what it replaces.
func rewritten(row *store.ParkedRow) []store.Column {
	return slices.DeleteFunc(row.Columns(), func(c store.Column) bool {
		return c.Part == store.State && !slices.Contains([]string{"sink", "source_table", "message_id"}, c.Name)
	})
}

// Alter implements relational.Statements.
func (s *Store) Alter(ctx context.Context, verb checkpoint.Verb, of []checkpoint.Key, why string) error {
	if len(of) == 0 {
		return nil
	}
	sinks, tables, ids := keyArrays(of)
	args := []any{s.Cfg.Pipeline, sinks, tables, ids}
	sql := replayParked
	switch verb {
	case checkpoint.VerbDrop:
		sql, args = dropParked, append(args, s.encoding.Fit(why))
	case checkpoint.VerbSkip:
		sql = skipParked
	}
	_, err := s.Conn.Exec(ctx, s.SQL(sql), args...)
	return err
}

// Rewrite implements relational.Statements.
func (s *Store) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	b := &pgx.Batch{}
	for i := range changed {
		s.queueRewrite(b, changed[i].Parked)
	}
	return s.send(ctx, b)
}

func (s *Store) queueRewrite(b *pgx.Batch, p *checkpoint.Parked) {
	a := &rowArrays{encoding: s.encoding}
	a.bind(rewritten(&a.row))
	a.row.Sink, a.row.ID = p.Sink, p.RowID()
	a.row.Carry(p)
	a.appendRow()
	b.Queue(s.SQL(rewriteParked()), append([]any{s.Cfg.Pipeline}, a.arrays...)...)
}
