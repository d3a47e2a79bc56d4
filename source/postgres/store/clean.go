package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
)

var _ checkpoint.Cleaner = (*Store)(nil)

// Clean removes delivered rows whose retention is over, in windows by id. What is old is judged by the row's own columns, in the
// statement that removes it; a row that is locked is passed over until the next time.
func (s *Store) Clean(ctx context.Context, cursor string) (removed int, next string, err error) {
	c := store.Cleaning{
		Window: func(at *store.Cursor) ([]string, int, error) {
			return cleaning{s, s.tables.ByName[at.Table]}.window(ctx, at)
		},
		Remove: func(table string, old []string) (int, error) {
			return cleaning{s, s.tables.ByName[table]}.remove(ctx, old)
		},
		Fault: s.Fault,
	}
	return c.Do(s.Configured(), cursor)
}

// cleaning removes old rows of one table.
type cleaning struct {
	*Store
	table *usertable.Table
}

// window looks at the next rows, and returns the ids of those that are old. The cursor moves on.
func (s cleaning) window(ctx context.Context, at *store.Cursor) (old []string, seen int, err error) {
	t := s.table
	id := "t." + sqltext.Ident(t.Columns.ID)
	where, args := id+" IS NOT NULL", []any{store.CleanWindow}
	if len(at.After) > 0 {
		where, args = where+" AND "+id+t.ID.Above+"$2::text::"+t.Types[t.Columns.ID], append(args, string(at.After))
	}
	rows, err := s.Conn.Query(ctx, "SELECT "+id+"::text, "+t.Old("t.")+" FROM "+t.SQL+" AS t WHERE "+where+" ORDER BY "+id+" LIMIT $1", args...)
	if err != nil {
		return nil, 0, unlessPassing(err)
	}
	var text string
	var isOld bool
	_, err = pgx.ForEachRow(rows, []any{&text, &isOld}, func() error {
		seen++
		at.After = []byte(text)
		if isOld && t.Findable(text) {
			old = append(old, text)
		}
		return nil
	})
	return old, seen, unlessPassing(err)
}

// unlessPassing returns err, or nil if a statement failed because of others that ran at the same time (a lock on the whole table, a deadlock):
// the next clean-up will do.
func unlessPassing(err error) error {
	if pgerr.Passing(err) {
		return nil
	}
	return err
}

// remove removes rows of which nothing is parked. Nobody else parks or settles anything of this pipeline, so what was looked
// at in the same transaction holds.
func (s cleaning) remove(ctx context.Context, ids []string) (removed int, err error) {
	t := s.table
	param, err := t.ID.Array(ids)
	if err != nil {
		return 0, err
	}
	id := sqltext.Ident(t.Columns.ID)
	err = s.InTx(ctx, func() error {
		b := &pgx.Batch{}
		b.Queue(s.path.Set())
		b.Queue(s.SQL(`DELETE FROM `+t.SQL+` AS t WHERE t.`+id+t.ID.Equals+`ANY (ARRAY(SELECT l.`+id+` FROM `+t.SQL+` AS l WHERE l.`+id+t.ID.Equals+
			`ANY ($1::`+t.ID.Cast+`) AND `+t.Old("l.")+` AND NOT EXISTS (SELECT FROM {parked} p WHERE p.pipeline OPERATOR(pg_catalog.=) $2
			AND p.message_id OPERATOR(pg_catalog.=) l.`+id+`::pg_catalog.text AND p.source_table OPERATOR(pg_catalog.=) $3) FOR UPDATE SKIP LOCKED))`),
			param, s.Cfg.Pipeline, t.String()).Exec(func(tag pgconn.CommandTag) error {
			removed = int(tag.RowsAffected())
			return nil
		})
		return s.send(ctx, b)
	})
	if pgerr.Passing(err) {
		return 0, nil // the next time will do
	}
	return removed, err
}
