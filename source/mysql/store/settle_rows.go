package store

import (
	"context"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/relational"
)

// rowWork is what happens to rows of one table.
type rowWork struct {
	table  *usertable.Table
	delete bool
	// alike: all rows get the same, in one statement.
	alike bool
	rows  []relational.RowChange
	// done counts the rows that statements found. There are, after a look, the ids that are there and locked by this
	// transaction.
	done  int
	there map[string]bool
	// locked: this transaction has locked all of the rows, and passed over those that others have locked.
	locked bool
}

// workOf cuts rows into statements. Their ids are in order, so that their locks are taken in one order.
func (a *attempt) workOf(all []relational.Rows) (work []*rowWork) {
	for _, r := range all {
		t := a.s.tables.ByName[r.Table]
		slices.SortStableFunc(r.Changes, func(x, y relational.RowChange) int {
			if t.ID.Form == usertable.IDInt && len(x.ID) != len(y.ID) {
				return len(x.ID) - len(y.ID)
			}
			return strings.Compare(x.ID, y.ID)
		})
		for chunk := range slices.Chunk(r.Changes, usertable.MaxRows) {
			work = append(work, &rowWork{table: t, delete: r.Delete, alike: r.Alike, rows: chunk})
		}
	}
	return work
}

// doPlain sends a batch with what is to happen to rows of messages without parked deliveries. As a rule all of them are
// there. If some are not, the application has removed them, or the statement has passed over them because their
// transaction is not over: a locking read passes over none, it waits, and then they are there.
func (a *attempt) doPlain(ctx context.Context, b *session.Batch, work []*rowWork) error {
	if a.SkipLocked {
		return a.doKnown(ctx, b, work)
	}
	for _, w := range work {
		if err := w.queue(b); err != nil {
			return err
		}
	}
	if err := a.s.Send(ctx, b); err != nil {
		return err
	}
	var short []*rowWork
	for _, w := range work {
		if w.done >= len(w.rows) {
			continue
		}
		short = append(short, w)
		if err := w.queueLook(b, "FOR UPDATE"); err != nil {
			return err
		}
	}
	if err := a.s.Send(ctx, b); err != nil || len(short) == 0 {
		return err
	}
	for _, w := range short {
		found := w.done
		if w.delete {
			found += len(w.there)
		} else {
			found = len(w.there)
		}
		a.Out.Gone += max(len(w.rows)-found, 0)
		if found > w.done {
			if err := w.queue(b); err != nil {
				return err
			}
		}
	}
	return a.s.Send(ctx, b)
}

// doKnown sends a batch, and deals with rows of which it finds out first whether they are there.
func (a *attempt) doKnown(ctx context.Context, b *session.Batch, work []*rowWork) error {
	how := "FOR UPDATE"
	if a.SkipLocked {
		how = "FOR UPDATE SKIP LOCKED"
	}
	for _, w := range work {
		if a.LockedTables[w.table.String()] {
			continue
		}
		if err := w.queueLook(b, how); err != nil {
			return err
		}
	}
	if err := a.s.Send(ctx, b); err != nil {
		return err
	}
	unjudged := &unjudgedRows{ids: make(map[*usertable.Table][]string)}
	for _, w := range work {
		a.sort(w, unjudged)
		w.locked = true
	}
	if len(unjudged.ids) > 0 {
		return unjudged
	}
	for _, w := range work {
		if err := w.queue(b); err != nil {
			return err
		}
	}
	return a.s.Send(ctx, b)
}

// sort leaves those rows in the work that are there, and deals with the others: gone, or locked and to be tried again.
func (a *attempt) sort(w *rowWork, unjudged *unjudgedRows) {
	tableLocked := a.LockedTables[w.table.String()]
	w.rows = slices.DeleteFunc(w.rows, func(r relational.RowChange) bool {
		if w.there[r.ID] {
			return false
		}
		verdict, judged := a.verdicts[store.MessageKey{Table: w.table.String(), ID: r.ID}]
		switch {
		case tableLocked, a.SkipLocked && judged && verdict == verdictThere:
			a.MetLocked = true
			if r.Index < 0 {
				r.Message.Locked = true
			} else {
				a.Skipped[r.Index] = true
			}
		case a.SkipLocked && !judged:
			unjudged.ids[w.table] = append(unjudged.ids[w.table], r.ID)
		case r.Index >= 0:
			a.Out.Gone++
		}
		return true
	})
}

// ids are those of the rows.
func (w *rowWork) ids() []string {
	ids := make([]string, len(w.rows))
	for i := range w.rows {
		ids[i] = w.rows[i].ID
	}
	return ids
}

// queueLook asks which rows are there, and locks them.
func (w *rowWork) queueLook(b *session.Batch, how string) error {
	return w.table.QueueLook(b, w.ids(), how, func(id string) {
		if w.there == nil {
			w.there = make(map[string]bool, len(w.rows))
		}
		w.there[id] = true
	})
}

// queue adds the statements for the rows.
func (w *rowWork) queue(b *session.Batch) error {
	if len(w.rows) == 0 {
		return nil
	}
	count := func(a session.Answer) error {
		w.done += a.Affected
		return nil
	}
	if w.alike {
		return w.queueAll(b, w.ids(), w.rows[0].RowChange, count)
	}
	for i := range w.rows {
		if err := w.queueAll(b, []string{w.rows[i].ID}, w.rows[i].RowChange, count); err != nil {
			return err
		}
	}
	return nil
}

// queueAll adds the statements for rows that all get the same.
func (w *rowWork) queueAll(b *session.Batch, ids []string, r *store.RowChange, count func(session.Answer) error) error {
	if w.delete && !w.locked {
		if sql, err := w.table.Deletion(ids); err != nil {
			return err
		} else if sql != "" {
			b.Queue(count, "?", sql)
			return nil
		}
	}
	picks, err := w.table.Picks(ids)
	if err != nil {
		return err
	}
	for _, p := range picks {
		if w.delete {
			b.Queue(count, "DELETE t FROM ? WHERE ?", p.From, p.Where)
		} else {
			b.Queue(count, "UPDATE ? SET ? WHERE ?", p.From, w.table.Assignments(r), p.Where)
		}
	}
	return nil
}
