package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

var _ checkpoint.Cleaner = (*stateStore)(nil)

// Clean removes delivered rows whose retention is over, in windows by id. What is old is judged by the row's own columns, in the
// statement that removes it; a row that is locked is passed over until the next time.
func (s *stateStore) Clean(ctx context.Context, cursor string) (removed int, next string, err error) {
	c := store.Cleaning{
		Window: func(at *store.Cursor) ([]string, int, error) {
			return s.cleanWindow(ctx, s.tables.byName[at.Table], at)
		},
		Remove: func(table string, old []string) (int, error) { return s.removeOld(ctx, s.tables.byName[table], old) },
		Fault:  s.fault,
	}
	return c.Do(tablesOf(&s.tables), cursor)
}

// cleanWindow looks at the next rows, and returns the ids of those that are old. The cursor moves on.
func (s *stateStore) cleanWindow(ctx context.Context, t *table, at *store.Cursor) (old []string, seen int, err error) {
	id := "t." + quoteIdent(t.Columns.ID)
	where, args := id+" IS NOT NULL", []any{store.CleanWindow}
	if len(at.After) > 0 {
		where, args = where+" AND "+id+t.id.above+"$2::text::"+t.types[t.Columns.ID], append(args, string(at.After))
	}
	rows, err := s.conn.Query(ctx, "SELECT "+id+"::text, "+t.old("t.")+" FROM "+t.sql+" AS t WHERE "+where+" ORDER BY "+id+" LIMIT $1", args...)
	if err != nil {
		return nil, 0, unlessPassing(err)
	}
	var text string
	var isOld bool
	_, err = pgx.ForEachRow(rows, []any{&text, &isOld}, func() error {
		seen++
		at.After = []byte(text)
		if isOld && t.findable(text) {
			old = append(old, text)
		}
		return nil
	})
	return old, seen, unlessPassing(err)
}

// unlessPassing is err, but for a table that others have locked as a whole: the next time will do.
func unlessPassing(err error) error {
	if passingTrouble(err) {
		return nil
	}
	return err
}

// old is the condition by which a row was delivered longer ago than the table's retention.
func (t *table) old(prefix string) string {
	cond := "coalesce(" + prefix + quoteIdent(t.Columns.DeliveredAt) + " OPERATOR(pg_catalog.<) (pg_catalog.now() OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => " +
		strconv.FormatInt(int64(t.Retention.Seconds()), 10) + ")), false)"
	if t.Columns.Status != "" {
		cond += " AND coalesce(" + prefix + quoteIdent(t.Columns.Status) + "::pg_catalog.text OPERATOR(pg_catalog.=) " + quoteLiteral(t.Words.Delivered) + ", false)"
	}
	return cond + t.ours(prefix)
}

// ours is the further condition by which a row is this pipeline's; "" where all are.
func (t *table) ours(prefix string) string { return oursCondition(&t.Table, prefix) }

// removeOld removes rows of which nothing is parked. Nobody else parks or settles anything of this pipeline, so what was looked
// at in the same transaction holds.
func (s *stateStore) removeOld(ctx context.Context, t *table, ids []string) (removed int, err error) {
	param, err := t.id.array(ids)
	if err != nil {
		return 0, err
	}
	id := quoteIdent(t.Columns.ID)
	err = s.inTx(ctx, func() error {
		b := &pgx.Batch{}
		b.Queue(s.path.set())
		b.Queue(s.q(`DELETE FROM `+t.sql+` AS t WHERE t.`+id+t.id.equals+`ANY (ARRAY(SELECT l.`+id+` FROM `+t.sql+` AS l WHERE l.`+id+t.id.equals+
			`ANY ($1::`+t.id.cast+`) AND `+t.old("l.")+` AND NOT EXISTS (SELECT FROM {parked} p WHERE p.pipeline OPERATOR(pg_catalog.=) $2
			AND p.message_id OPERATOR(pg_catalog.=) l.`+id+`::pg_catalog.text AND p.source_table OPERATOR(pg_catalog.=) $3) FOR UPDATE SKIP LOCKED))`),
			param, s.cfg.Pipeline, t.String()).Exec(func(tag pgconn.CommandTag) error {
			removed = int(tag.RowsAffected())
			return nil
		})
		return s.send(ctx, b)
	})
	if passingTrouble(err) {
		return 0, nil // the next time will do
	}
	return removed, err
}

// listLiterals are texts as a list of SQL.
func listLiterals(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quoteLiteral(text)
	}
	return strings.Join(quoted, ", ")
}
