package store

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/store"
)

var _ checkpoint.Cleaner = (*Store)(nil)

// Clean removes delivered rows whose retention is over, in windows by id. What is old is judged by the row's own columns, in the
// statement that removes it; a row that is locked is passed over until the next time.
func (s *Store) Clean(ctx context.Context, cursor string) (removed int, next string, err error) {
	by := cleaner{s}
	c := store.Cleaning{
		Window: func(at *store.Cursor) ([]string, int, error) {
			return by.cleanWindow(ctx, s.tables.ByName[at.Table], at)
		},
		Remove: func(table string, old []string) (int, error) { return by.removeOld(ctx, s.tables.ByName[table], old) },
		Fault:  server.Fault,
	}
	return c.Do(s.Configured(), cursor)
}

// A cleaner removes old rows on a store's session.
type cleaner struct{ *Store }

// cleanWindow looks at the next rows, and returns the ids of those that are old. The cursor moves on.
func (s cleaner) cleanWindow(ctx context.Context, t *usertable.Table, at *store.Cursor) (old []string, seen int, err error) {
	by, place := t.ID.Order()
	after, err := t.After(at)
	if err != nil {
		return nil, 0, err
	}
	where := "t." + t.ID.Column + " IS NOT NULL" + after
	b := s.Batch()
	b.Each(func(r session.Row) error {
		id, err := t.ID.Read(r, 0)
		seen++
		at.After, at.Place = []byte(id), r.Text(2)
		if r.Bool(1) && err == nil && id != "" && t.Findable(id) {
			old = append(old, id)
		}
		return err
	}, "SELECT "+t.ID.Selected("t.")+", ?, "+place+" FROM "+t.Forced()+" WHERE ? ORDER BY "+by+" LIMIT ?", quote.Raw(t.Old()), quote.Raw(where), store.CleanWindow)
	if err := s.Send(ctx, b); !server.Passing(err) {
		return old, seen, err
	}
	return nil, 0, nil // it is locked as a whole: the next time will do
}

// removeOld removes rows of which nothing is parked. Nobody else parks or settles anything of this pipeline, so what was looked at
// in the same transaction holds. Locked rows are passed over.
func (s cleaner) removeOld(ctx context.Context, t *usertable.Table, ids []string) (removed int, err error) {
	err = s.removeChunks(ctx, t, ids, &removed)
	if err == nil {
		return removed, nil
	}
	if rerr := s.Rollback(ctx); rerr != nil {
		return 0, rerr
	}
	if server.Passing(err) {
		return 0, nil // the next time will do
	}
	return 0, err
}

func (s cleaner) removeChunks(ctx context.Context, t *usertable.Table, ids []string, removed *int) error {
	b := s.Batch()
	s.Begin(b) // it deletes rows: only the holder of the lock may
	parked := make(map[string]bool)
	for first := 0; first < len(ids); first += keyChunk {
		b.Each(func(r session.Row) error {
			parked[r.Text(0)] = true
			return nil
		}, "SELECT p.message_id FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereMessages, s.Config.Pipeline, quote.List(ids[first:min(first+keyChunk, len(ids))]), quote.Bin(t.String()))
	}
	if err := s.Send(ctx, b); err != nil {
		return err
	}
	var free []string
	for first := 0; first < len(ids); first += usertable.MaxRows {
		var some []string
		for _, id := range ids[first:min(first+usertable.MaxRows, len(ids))] {
			if !parked[id] {
				some = append(some, id)
			}
		}
		if len(some) == 0 {
			continue
		}
		if err := t.QueueLook(b, some, "FOR UPDATE SKIP LOCKED", func(id string) { free = append(free, id) }); err != nil {
			return err
		}
	}
	if err := s.Send(ctx, b); err != nil {
		return err
	}
	for first := 0; first < len(free); first += usertable.MaxRows {
		picks, err := t.Picks(free[first:min(first+usertable.MaxRows, len(free))])
		if err != nil {
			return err
		}
		for _, p := range picks {
			b.Queue(func(a session.Answer) error {
				*removed += a.Affected
				return nil
			}, "DELETE t FROM ? WHERE ? AND ?", p.From, p.Where, quote.Raw(t.Old()))
		}
	}
	b.Exec("COMMIT")
	return s.Send(ctx, b)
}
