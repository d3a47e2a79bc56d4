package usertable

import (
	"fmt"
	"strconv"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// MaxRows is the most rows of one statement.
const MaxRows = 250

// QueueLook asks which rows with the ids are there, with a locking read such as FOR UPDATE, and hands over the ids that it finds.
func (t *Table) QueueLook(b *session.Batch, ids []string, how string, on func(id string)) error {
	picks, err := t.Picks(ids)
	if err != nil {
		return err
	}
	for _, p := range picks {
		b.Each(func(r session.Row) error {
			id, err := t.ID.Read(r, 0)
			on(id)
			return err
		}, "SELECT "+t.ID.Selected("t.")+" FROM ? WHERE ? "+how, p.From, p.Where)
	}
	return nil
}

// After is the further condition for rows behind a cursor; "" for all.
func (t *Table) After(at *store.Cursor) (string, error) {
	by, _ := t.ID.Order()
	switch {
	case at.Place != "":
		n, err := strconv.ParseUint(at.Place, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%w: read cursor: %w", source.ErrStop, err)
		}
		return " AND " + by + " > " + strconv.FormatUint(n, 10), nil
	case len(at.After) > 0:
		after, err := t.ID.Literal(nil, string(at.After))
		if err != nil {
			return "", fmt.Errorf("%w: %w", source.ErrStop, err)
		}
		return " AND " + by + " > " + string(after), nil
	}
	return "", nil
}

// Old is the condition by which a row of alias t was delivered longer ago than the table's retention.
func (t *Table) Old() string {
	cond := "COALESCE(t." + quote.Ident(t.Columns.DeliveredAt) + " < UTC_TIMESTAMP(6) - INTERVAL " +
		strconv.FormatInt(t.Retention.Microseconds(), 10) + " MICROSECOND, FALSE)"
	if t.Columns.Status != "" {
		cond += " AND COALESCE(t." + quote.Ident(t.Columns.Status) + " = " + quote.Text(t.Words.Delivered) + ", FALSE)"
	}
	return cond + t.ours()
}
