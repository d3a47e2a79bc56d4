package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/relational"
)

// rowChunk is the most rows of one statement.
const rowChunk = 5000

// rowWork is one statement for rows of one table.
type rowWork struct {
	table  *usertable.Table
	delete bool
	// alike: all rows get the same, so that an array of ids is all that travels. That is the common case and the fast one.
	alike bool
	// counted: the statement only tells how many rows were there, which is enough if none is missing. miscounted: some are missing.
	counted, miscounted bool
	rows                []relational.RowChange
	found               []bool
}

// queueRows adds the statements for rows.
func (a *attempt) queueRows(b *pgx.Batch, all []relational.Rows) error {
	for _, r := range all {
		t := a.s.tables.ByName[r.Table]
		for rows := range slices.Chunk(r.Changes, rowChunk) {
			// If ids can be equal though their texts differ (padding, case), a row is matched by its place in the array only.
			w := &rowWork{table: t, delete: r.Delete, alike: r.Alike && t.ID.Exact, rows: rows, found: make([]bool, len(rows))}
			w.counted = w.alike && !a.named
			a.work = append(a.work, w)
			if a.LockedTables[t.String()] {
				continue
			}
			args, err := w.args()
			if err != nil {
				return store.OnTable(t.String(), err)
			}
			b.Queue(w.sql(a.SkipLocked), args...).Query(w.scan)
		}
	}
	return nil
}

// args are the ids, and for an update the values: one of each, or one a row.
func (w *rowWork) args() ([]any, error) {
	ids, err := w.ids(func(int) bool { return true })
	if err != nil || w.delete {
		return []any{ids}, err
	}
	if w.alike {
		r := &w.rows[0]
		return []any{ids, r.State, int32(r.Attempts), int32(r.Failures), NextAttempt(r.Next), r.Err, r.Delivered}, nil
	}
	states, errs := make([]string, len(w.rows)), make([]string, len(w.rows))
	attempts, failures, delivered := make([]int32, len(w.rows)), make([]int32, len(w.rows)), make([]bool, len(w.rows))
	next := make([]pgtype.Timestamptz, len(w.rows))
	for i := range w.rows {
		r := &w.rows[i]
		states[i], errs[i], attempts[i], failures[i] = r.State, r.Err, int32(r.Attempts), int32(r.Failures)
		delivered[i], next[i] = r.Delivered, NextAttempt(r.Next)
	}
	args := []any{ids, states, attempts, failures, next, errs, delivered}
	if w.table.View.Receipts {
		receipts := make([]string, len(w.rows))
		for i := range w.rows {
			receipts[i] = w.rows[i].Receipt
		}
		args = append(args, receipts)
	}
	return args, nil
}

// ids are those of the rows that are wanted, as a parameter.
func (w *rowWork) ids(want func(int) bool) (any, error) {
	ids := make([]string, 0, len(w.rows))
	for i := range w.rows {
		if want(i) {
			ids = append(ids, w.rows[i].ID)
		}
	}
	return w.table.ID.Array(ids)
}

// sql is the statement. passLocked leaves locked rows out.
func (w *rowWork) sql(passLocked bool) string {
	if w.alike {
		return w.alikeSQL(passLocked)
	}
	t := w.table
	id := sqltext.Ident(t.Columns.ID)
	from := "pg_catalog.unnest($1::" + t.ID.Cast + ") WITH ORDINALITY AS v (id, n)"
	if !w.delete {
		further, names := "", ""
		if t.View.Receipts {
			further, names = ", $8::pg_catalog.text[]", ", receipt"
		}
		// With several arguments unnest is part of the language: it cannot have a schema.
		from = "unnest($1::" + t.ID.Cast + ", $2::pg_catalog.text[], $3::int[], $4::int[], $5::pg_catalog.timestamptz[], $6::pg_catalog.text[], $7::boolean[]" + further + ") " +
			"WITH ORDINALITY AS v (id, state, attempts, failures, next, err, delivered" + names + ", n)"
	}
	if passLocked {
		from = "(SELECT v.* FROM " + from + " JOIN " + t.SQL + " AS l ON l." + id + t.ID.Equals + "v.id FOR UPDATE OF l SKIP LOCKED) AS v"
	}
	// Each row is looked up by its id, whatever the planner thinks of a table that has no statistics yet: it might compare
	// every row with every id. What another session changes in between is not found, see presentRows.
	from += " CROSS JOIN LATERAL (SELECT q.ctid, q.tableoid FROM " + t.SQL + " AS q WHERE q." + id + t.ID.Equals + "v.id OFFSET 0) AS at"
	where := " WHERE t.ctid OPERATOR(pg_catalog.=) at.ctid AND t.tableoid OPERATOR(pg_catalog.=) at.tableoid RETURNING v.n"
	if w.delete {
		return "DELETE FROM " + t.SQL + " AS t USING " + from + where
	}
	return "UPDATE " + t.SQL + " AS t SET " + t.Assignments() + " FROM " + from + where
}

// alikeSQL is the statement where all rows get the same. It returns their ids, unless they are only counted.
func (w *rowWork) alikeSQL(passLocked bool) string {
	t := w.table
	id := sqltext.Ident(t.Columns.ID)
	ids := "$1::" + t.ID.Cast
	if passLocked {
		ids = "ARRAY(SELECT l." + id + " FROM " + t.SQL + " AS l WHERE l." + id + t.ID.Equals + "ANY (" + ids + ") FOR UPDATE SKIP LOCKED)"
	}
	verb := "DELETE FROM " + t.SQL + " AS t"
	if !w.delete {
		// The table need not have a column for each value, so they are named and typed in one place.
		verb = "UPDATE " + t.SQL + " AS t SET " + t.Assignments() +
			" FROM (VALUES ($2::pg_catalog.text, $3::int, $4::int, $5::pg_catalog.timestamptz, $6::pg_catalog.text, $7::boolean)) AS v (state, attempts, failures, next, err, delivered)"
	}
	sql := verb + " WHERE t." + id + t.ID.Equals + "ANY (" + ids + ")"
	if w.counted {
		return sql
	}
	return sql + " RETURNING t." + id + "::pg_catalog." + t.ID.Wire
}

// scan notes which rows were there.
func (w *rowWork) scan(rows pgx.Rows) error {
	switch {
	case w.counted:
		return store.OnTable(w.table.String(), w.count(rows))
	case w.alike:
		return store.OnTable(w.table.String(), w.scanIDs(rows))
	}
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
		w.found[n-1] = true
		return nil
	})
	return store.OnTable(w.table.String(), err)
}

// count notes that all rows were there, or that some were not.
func (w *rowWork) count(rows pgx.Rows) error {
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	if w.miscounted = rows.CommandTag().RowsAffected() != int64(len(w.rows)); !w.miscounted {
		w.foundAll()
	}
	return nil
}

func (w *rowWork) foundAll() {
	for i := range w.found {
		w.found[i] = true
	}
}

// scanIDs notes which rows were there by the ids that came back. If all did, nothing is compared.
func (w *rowWork) scanIDs(rows pgx.Rows) error {
	var all []byte
	var ends []int
	for rows.Next() {
		all = append(all, rows.RawValues()[0]...)
		ends = append(ends, len(all))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(ends) == len(w.rows) {
		w.foundAll()
		return nil
	}
	back, start := make(map[string]bool, len(ends)), 0
	for _, end := range ends {
		back[string(all[start:end])] = true
		start = end
	}
	for i := range w.rows {
		raw, err := w.table.ID.Binary(w.rows[i].ID)
		if err != nil {
			return err
		}
		w.found[i] = back[raw]
	}
	return nil
}

// judgeMissing finds out about rows that were not there: gone, not visible yet, or passed over because they are locked.
func (a *attempt) judgeMissing(ctx context.Context) error {
	if slices.ContainsFunc(a.work, func(w *rowWork) bool { return w.miscounted }) {
		return errMiscounted
	}
	present, err := a.presentRows(ctx)
	if err != nil {
		return err
	}
	if len(present) > 0 && !a.SkipLocked {
		return errMoved
	}
	for _, w := range a.work {
		for i := range w.rows {
			if w.found[i] {
				continue
			}
			a.missed = true
			r := &w.rows[i]
			locked := a.LockedTables[w.table.String()] || present[r]
			switch {
			case locked && r.Index < 0:
				a.MetLocked, r.Message.Locked = true, true
			case locked:
				a.MetLocked, a.Skipped[r.Index] = true, true
			case r.Index < 0 || r.Txn == 0 || a.snap.visible(r.Txn):
				if r.Index >= 0 {
					a.Out.Gone++
				}
			default:
				a.Skipped[r.Index] = true
			}
		}
	}
	return nil
}

// presentSQL finds the rows that are there, and tells which of them other sessions have locked. From then on, this one has locked the others.
func (w *rowWork) presentSQL() string {
	same := " WHERE t." + sqltext.Ident(w.table.Columns.ID) + w.table.ID.Equals + "v.id"
	from := "pg_catalog.unnest($1::" + w.table.ID.Cast + ") WITH ORDINALITY AS v (id, n)"
	return "SELECT v.n, v.n <> ALL (ARRAY(SELECT v.n FROM " + from + ", " + w.table.SQL + " AS t" + same + " FOR UPDATE OF t SKIP LOCKED)) FROM " + from +
		" WHERE EXISTS (SELECT FROM " + w.table.SQL + " AS t" + same + ")"
}

// missing are the rows of w that were not found, as work of its own. places tells where they are in w.
func (w *rowWork) missing() (m *rowWork, places []int) {
	m = &rowWork{table: w.table, delete: w.delete}
	for i, found := range w.found {
		if !found {
			m.rows, places = append(m.rows, w.rows[i]), append(places, i)
		}
	}
	m.found = make([]bool, len(m.rows))
	return m, places
}

// presentRows looks which of the missing rows are there: locked rows were passed over, or another session changed a row while its statement waited for it,
// so that the row is no longer where the statement had found it.
func (a *attempt) presentRows(ctx context.Context) (map[*relational.RowChange]bool, error) {
	present := make(map[*relational.RowChange]bool)
	var released []func() // What notes rows that were settled after all.
	b, again := &pgx.Batch{}, &pgx.Batch{}
	for _, w := range a.work {
		m, places := w.missing()
		if len(places) == 0 || a.LockedTables[w.table.String()] || w.alike && !a.SkipLocked {
			continue
		}
		args, err := m.args()
		if err != nil {
			return nil, store.OnTable(w.table.String(), err)
		}
		b.Queue(m.presentSQL(), args[0]).Query(func(rows pgx.Rows) error {
			var n int64
			var locked bool
			unlocked := false
			_, err := pgx.ForEachRow(rows, []any{&n, &locked}, func() error {
				if locked || !a.SkipLocked {
					present[&w.rows[places[n-1]]] = true
				} else {
					unlocked = true
				}
				return nil
			})
			if unlocked {
				again.Queue(m.sql(true), args...).Query(m.scan)
				released = append(released, func() {
					for i, place := range places {
						w.found[place] = m.found[i]
					}
				})
			}
			return store.OnTable(w.table.String(), err)
		})
	}
	if b.Len() == 0 {
		return present, nil
	}
	if err := a.s.send(ctx, b); err != nil {
		return nil, fmt.Errorf("look for locked rows: %w", err)
	}
	// A lock was released after a statement had passed its row over. This one holds the row until the end. If it still is as it was, a trigger keeps it so.
	b = &pgx.Batch{}
	a.queueTouching(b, again)
	if err := a.s.send(ctx, b); err != nil {
		return nil, err
	}
	for _, note := range released {
		note()
	}
	return present, nil
}

// NextAttempt is a time for a column that shows it.
func NextAttempt(t *time.Time) pgtype.Timestamptz {
	if t == nil {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: *t, Valid: true}
}
