package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/outbox"
)

// rowChunk is the most rows of one statement.
const rowChunk = 5000

// A rowChange is what is to happen to one row of the user's table.
type rowChange struct {
	id    string
	index int    // in Settlement.Rows; -1 for a message whose row was settled before
	txn   uint64 // as in Row
	msg   *message
	// The rest is for an update. Delivered sets delivered_at.
	word      string
	attempts  int
	next      pgtype.Timestamptz
	err       string
	delivered bool
}

// rowWork is one statement for rows of one table.
type rowWork struct {
	table  *table
	delete bool
	rows   []rowChange
	found  []bool
}

// onDelivered is what the row of a delivered message gets; false where its table is left alone.
func (t *table) onDelivered(c *rowChange, dropped bool) (del, touch bool) {
	switch {
	case t.OnDelivered == outbox.Delete:
		return true, true
	case t.OnDelivered != outbox.Mark || !t.updatable():
		return false, false
	}
	c.word, c.delivered = t.Words.Delivered, true
	if dropped {
		// Without a status column delivered_at alone says that nothing is to be done any more.
		c.word, c.delivered = t.Words.Dead, t.col(t.Columns.Status) == ""
	}
	return false, true
}

// updatable tells whether the table has a column that an update would set, viewable whether one of them shows the state of
// parked deliveries.
func (t *table) updatable() bool { return t.viewable() || t.col(t.Columns.DeliveredAt) != "" }

func (t *table) viewable() bool {
	if t.OnDelivered == outbox.Keep {
		return false
	}
	for _, name := range []string{t.Columns.Status, t.Columns.Attempts, t.Columns.NextAttemptAt, t.Columns.LastError} {
		if t.col(name) != "" {
			return true
		}
	}
	return false
}

// queuePlainRows adds the rows without parked deliveries, table by table.
func (a *attempt) queuePlainRows(b *pgx.Batch) error {
	byTable := make(map[*table][]rowChange, len(a.s.tables.order))
	for i := range a.in.Rows {
		r := &a.in.Rows[i]
		t := a.s.tables.byName[r.Table]
		if t == nil || r.Parked {
			continue // a table that left the configuration is left alone
		}
		c := rowChange{id: r.ID, index: i, txn: r.Txn, attempts: 1}
		if _, touch := t.onDelivered(&c, false); touch {
			byTable[t] = append(byTable[t], c)
		}
	}
	for _, t := range a.s.tables.order {
		if err := a.queueRows(b, t, t.OnDelivered == outbox.Delete, byTable[t]); err != nil {
			return err
		}
	}
	return nil
}

// queueRows adds the statements for rows of one table. They are matched by their place in the parameters, so that neither
// the form of an id nor a table without a unique index matters.
func (a *attempt) queueRows(b *pgx.Batch, t *table, del bool, rows []rowChange) error {
	for len(rows) > 0 {
		n := min(len(rows), rowChunk)
		w := &rowWork{table: t, delete: del, rows: rows[:n], found: make([]bool, n)}
		rows = rows[n:]
		a.work = append(a.work, w)
		if a.lockedTables[t.String()] {
			continue
		}
		args, err := w.args()
		if err != nil {
			return onTable(t.String(), err)
		}
		b.Queue(w.sql(a.passLocked), args...).Query(w.scan)
	}
	return nil
}

func (w *rowWork) scan(rows pgx.Rows) error {
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
		w.found[n] = true
		return nil
	})
	return onTable(w.table.String(), err)
}

// args are the ids, and for an update the values beside them.
func (w *rowWork) args() ([]any, error) {
	ids, err := w.ids(func(int) bool { return true })
	if err != nil || w.delete {
		return []any{ids}, err
	}
	words, errs := make([]string, len(w.rows)), make([]string, len(w.rows))
	attempts, delivered := make([]int32, len(w.rows)), make([]bool, len(w.rows))
	next := make([]pgtype.Timestamptz, len(w.rows))
	for i := range w.rows {
		r := &w.rows[i]
		words[i], errs[i], attempts[i], delivered[i], next[i] = r.word, r.err, int32(r.attempts), r.delivered, r.next
	}
	return []any{ids, words, attempts, next, errs, delivered}, nil
}

// ids are those of the rows that are wanted, as a parameter.
func (w *rowWork) ids(want func(int) bool) (any, error) {
	var ids []string
	for i := range w.rows {
		if want(i) {
			ids = append(ids, w.rows[i].id)
		}
	}
	return w.table.id.array(ids)
}

// sql is the statement. passLocked leaves locked rows out.
func (w *rowWork) sql(passLocked bool) string {
	t := w.table
	id := quoteIdent(t.Columns.ID)
	from := "unnest($1::" + t.id.cast + ") WITH ORDINALITY AS v (id, n)"
	if !w.delete {
		from = "unnest($1::" + t.id.cast + ", $2::text[], $3::int[], $4::timestamptz[], $5::text[], $6::bool[]) " +
			"WITH ORDINALITY AS v (id, word, attempts, next, err, delivered, n)"
	}
	if passLocked {
		from = "(SELECT v.* FROM " + from + " JOIN " + t.sql + " AS l ON l." + id + " = v.id FOR UPDATE OF l SKIP LOCKED) AS v"
	}
	if w.delete {
		return "DELETE FROM " + t.sql + " AS t USING " + from + " WHERE t." + id + " = v.id RETURNING v.n - 1"
	}
	return "UPDATE " + t.sql + " AS t SET " + strings.Join(t.assignments(), ", ") + " FROM " + from + " WHERE t." + id +
		" = v.id RETURNING v.n - 1"
}

// assignments set the columns that the table has. Texts are cast to the column's type: that cuts them to its length, and
// makes words values of an enum.
func (t *table) assignments() []string {
	var set []string
	c := &t.Columns
	if col := t.col(c.Status); col != "" {
		set = append(set, col+" = v.word::"+t.types[c.Status])
	}
	attempts := t.col(c.Attempts)
	if attempts != "" {
		set = append(set, attempts+" = CASE WHEN v.delivered THEN greatest(coalesce(t."+attempts+", 0), v.attempts) ELSE v.attempts END")
	}
	if col := t.col(c.LastAttemptAt); col != "" {
		when := "v.delivered"
		if attempts != "" {
			when += " OR v.attempts > coalesce(t." + attempts + ", 0)"
		}
		set = append(set, col+" = CASE WHEN "+when+" THEN now() ELSE t."+col+" END")
	}
	if col := t.col(c.NextAttemptAt); col != "" {
		set = append(set, col+" = v.next")
	}
	if col := t.col(c.LastError); col != "" {
		set = append(set, col+" = nullif(v.err, '')::"+t.types[c.LastError])
	}
	if col := t.col(c.DeliveredAt); col != "" {
		set = append(set, col+" = CASE WHEN v.delivered THEN now() ELSE t."+col+" END")
	}
	return set
}

// judgeMissing finds out about rows that were not there: gone, not visible yet, or passed over because they are locked.
func (a *attempt) judgeMissing(ctx context.Context) error {
	present, err := a.presentRows(ctx)
	if err != nil {
		return err
	}
	for _, w := range a.work {
		for i := range w.rows {
			if w.found[i] {
				continue
			}
			r := &w.rows[i]
			locked := a.lockedTables[w.table.String()] || present[r]
			switch {
			case locked && r.index < 0:
				a.metLocked, r.msg.locked = true, true
			case locked:
				a.metLocked, a.skipped[r.index] = true, true
			case r.index < 0 || r.txn == 0 || a.snap.visible(r.txn):
				if r.index >= 0 {
					a.out.Gone++
				}
			default:
				a.skipped[r.index] = true
			}
		}
	}
	return nil
}

// presentRows looks, where locked rows were passed over, which of the missing are there.
func (a *attempt) presentRows(ctx context.Context) (map[*rowChange]bool, error) {
	if !a.passLocked {
		return nil, nil
	}
	present := make(map[*rowChange]bool)
	b := &pgx.Batch{}
	for _, w := range a.work {
		var missing []*rowChange
		for i := range w.rows {
			if !w.found[i] {
				missing = append(missing, &w.rows[i])
			}
		}
		if len(missing) == 0 || a.lockedTables[w.table.String()] {
			continue
		}
		ids, err := w.ids(func(i int) bool { return !w.found[i] })
		if err != nil {
			return nil, err
		}
		b.Queue("SELECT v.n - 1 FROM unnest($1::"+w.table.id.cast+") WITH ORDINALITY AS v (id, n) WHERE EXISTS (SELECT FROM "+
			w.table.sql+" AS t WHERE t."+quoteIdent(w.table.Columns.ID)+" = v.id)", ids).Query(func(rows pgx.Rows) error {
			var n int64
			_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
				present[missing[n]] = true
				return nil
			})
			return onTable(w.table.String(), err)
		})
	}
	if err := a.s.send(ctx, b); err != nil {
		return nil, fmt.Errorf("look for locked rows: %w", err)
	}
	return present, nil
}

// nextAttempt is a time for a column that shows it.
func nextAttempt(t *time.Time) pgtype.Timestamptz {
	if t == nil {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: *t, Valid: true}
}
