package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

var _ checkpoint.Cleaner = (*stateStore)(nil)

// Clean removes delivered rows whose retention is over, in windows by id. What is old is judged by the row's own columns, in the
// statement that removes it; a row that is locked is passed over until the next time.
func (s *stateStore) Clean(ctx context.Context, cursor string) (removed int, next string, err error) {
	by := cleaner{s}
	c := store.Cleaning{
		Window: func(at *store.Cursor) ([]string, int, error) {
			return by.cleanWindow(ctx, s.tables.byName[at.Table], at)
		},
		Remove: func(table string, old []string) (int, error) { return by.removeOld(ctx, s.tables.byName[table], old) },
		Fault:  storeFault,
	}
	return c.Do(s.tables.configured(), cursor)
}

// configured are tables as they are configured, with their schema.
func (ts *tables) configured() []*outbox.Table {
	out := make([]*outbox.Table, len(ts.order))
	for i, t := range ts.order {
		out[i] = &t.Table
	}
	return out
}

// A cleaner removes old rows on a store's session.
type cleaner struct{ *stateStore }

// cleanWindow looks at the next rows, and returns the ids of those that are old. The cursor moves on.
func (s cleaner) cleanWindow(ctx context.Context, t *table, at *store.Cursor) (old []string, seen int, err error) {
	by, place := t.id.order()
	after, err := t.after(at)
	if err != nil {
		return nil, 0, err
	}
	where := "t." + t.id.column + " IS NOT NULL" + after
	b := s.batch()
	b.each(func(r row) error {
		id, err := t.id.read(r, 0)
		seen++
		at.After, at.Place = []byte(id), r.text(2)
		if r.bool(1) && err == nil && id != "" && t.findable(id) {
			old = append(old, id)
		}
		return err
	}, "SELECT "+t.id.selected("t.")+", ?, "+place+" FROM "+t.forced()+" WHERE ? ORDER BY "+by+" LIMIT ?", raw(t.old()), raw(where), store.CleanWindow)
	if err := s.send(ctx, b); !passingTrouble(err) {
		return old, seen, err
	}
	return nil, 0, nil // it is locked as a whole: the next time will do
}

// after is the further condition for rows behind a cursor; "" for all.
func (t *table) after(at *store.Cursor) (string, error) {
	by, _ := t.id.order()
	switch {
	case at.Place != "":
		n, err := strconv.ParseUint(at.Place, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%w: read cursor: %w", source.ErrStop, err)
		}
		return " AND " + by + " > " + strconv.FormatUint(n, 10), nil
	case len(at.After) > 0:
		after, err := t.id.literal(nil, string(at.After))
		if err != nil {
			return "", fmt.Errorf("%w: %w", source.ErrStop, err)
		}
		return " AND " + by + " > " + string(after), nil
	}
	return "", nil
}

// old is the condition by which a row of alias t was delivered longer ago than the table's retention.
func (t *table) old() string {
	cond := "COALESCE(t." + quoteIdent(t.Columns.DeliveredAt) + " < UTC_TIMESTAMP(6) - INTERVAL " +
		strconv.FormatInt(t.Retention.Microseconds(), 10) + " MICROSECOND, FALSE)"
	if t.Columns.Status != "" {
		cond += " AND COALESCE(t." + quoteIdent(t.Columns.Status) + " = " + quoteLiteral(t.Words.Delivered) + ", FALSE)"
	}
	return cond + t.ours()
}

// ours is the further condition by which a row of alias t is this pipeline's; "" where all are.
func (t *table) ours() string { return oursCondition(&t.Table, "t") }

// oursCondition is the further condition by which a row is this pipeline's; "" where all are. Tenants are compared as bytes, as
// the log has them; NULL is written "".
func oursCondition(t *outbox.Table, alias string) string {
	if len(t.Tenants) == 0 || t.Columns.Tenant == "" {
		return ""
	}
	var quoted []string
	for _, tenant := range t.Tenants {
		quoted = append(quoted, "_binary"+quoteLiteral(tenant))
	}
	return " AND CAST(CONVERT(COALESCE(" + alias + "." + quoteIdent(t.Columns.Tenant) + ", '') USING utf8mb4) AS BINARY) IN (" + strings.Join(quoted, ", ") + ")"
}

// removeOld removes rows of which nothing is parked. Nobody else parks or settles anything of this pipeline, so what was looked at
// in the same transaction holds. Locked rows are passed over.
func (s cleaner) removeOld(ctx context.Context, t *table, ids []string) (removed int, err error) {
	err = s.removeChunks(ctx, t, ids, &removed)
	if err == nil {
		return removed, nil
	}
	if rerr := s.rollback(ctx); rerr != nil {
		return 0, rerr
	}
	if passingTrouble(err) {
		return 0, nil // the next time will do
	}
	return 0, err
}

func (s cleaner) removeChunks(ctx context.Context, t *table, ids []string, removed *int) error {
	b := s.batch()
	b.exec("BEGIN")
	parked := make(map[string]bool)
	for first := 0; first < len(ids); first += keyChunk {
		b.each(func(r row) error {
			parked[r.text(0)] = true
			return nil
		}, "SELECT p.message_id FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereMessages, s.cfg.Pipeline, list(ids[first:min(first+keyChunk, len(ids))]), bin(t.String()))
	}
	if err := s.send(ctx, b); err != nil {
		return err
	}
	var free []string
	for first := 0; first < len(ids); first += rowChunk {
		var some []string
		for _, id := range ids[first:min(first+rowChunk, len(ids))] {
			if !parked[id] {
				some = append(some, id)
			}
		}
		if len(some) == 0 {
			continue
		}
		if err := t.queueLook(b, some, "FOR UPDATE SKIP LOCKED", func(id string) { free = append(free, id) }); err != nil {
			return err
		}
	}
	if err := s.send(ctx, b); err != nil {
		return err
	}
	for first := 0; first < len(free); first += rowChunk {
		picks, err := t.picks(free[first:min(first+rowChunk, len(free))])
		if err != nil {
			return err
		}
		for _, p := range picks {
			b.queue(func(a answer) error {
				*removed += a.affected
				return nil
			}, "DELETE t FROM ? WHERE ? AND ?", p.from, p.where, raw(t.old()))
		}
	}
	b.exec("COMMIT")
	return s.send(ctx, b)
}
