package mysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// readRows reads rows of a table (alias t) as messages, by id; where limits them. Position and time of the commit are not set.
func (t *table) readRows(ctx context.Context, s *relaySession, ids []string, where string) ([]*outbox.Message, error) {
	reader, err := t.rowReader(ctx, s)
	if err != nil {
		return nil, err
	}
	return t.readSome(ctx, s, reader, ids, where)
}

// readUpTo is readRows in the order in which rows are swept, up to the row that makes them so many bytes. Order and sizes of the rows are
// found out first, so that the others are not read.
func (t *table) readUpTo(ctx context.Context, s *relaySession, ids []string, where string, bytes int) ([]*outbox.Message, error) {
	reader, err := t.rowReader(ctx, s)
	if err != nil {
		return nil, err
	}
	rows, err := t.listRows(ctx, s, reader, ids, where)
	if err != nil {
		return nil, err
	}
	var ms []*outbox.Message
	for len(rows) > 0 && bytes > 0 {
		var ids []string
		for size := 0; len(ids) < len(rows) && size < bytes; {
			r := &rows[len(ids)]
			ids, size = append(ids, r.id), size+r.bytes
		}
		some, err := t.readSome(ctx, s, reader, ids, where)
		if err != nil {
			return nil, err
		}
		byID := make(map[string][]*outbox.Message, len(some))
		for _, m := range some {
			byID[m.ID] = append(byID[m.ID], m)
			bytes -= m.Size()
		}
		for _, id := range ids {
			ms = append(ms, byID[id]...)
		}
		rows = rows[len(ids):]
	}
	return ms, nil
}

// rowReader is a reader of a table as it is now.
func (t *table) rowReader(ctx context.Context, s *relaySession) (*rowReader, error) {
	info, err := describeTable(ctx, s.sess, &t.Table)
	if err != nil {
		return nil, storeFault("read rows", err)
	}
	return rowReaderOf(info, min(maxMessageOr(s.cfg.MaxMessage), s.maxPacket-packetSlack))
}

// A listedRow is what is known of a row before it is read.
type listedRow struct {
	id, place string
	bytes     int // about Size of its message
}

// listRows lists rows in the order in which they are swept. An id that is not unique is listed once.
func (t *table) listRows(ctx context.Context, s *relaySession, reader *rowReader, ids []string, where string) ([]listedRow, error) {
	picks, err := t.picksOf(ids)
	if err != nil {
		return nil, err
	}
	var rows []listedRow
	seen := make(map[string]bool, len(ids))
	b := s.batch()
	for _, p := range picks {
		b.each(func(r row) error {
			l := listedRow{id: r.text(0), place: r.text(1), bytes: new(outbox.Message).Size()}
			if n := int(r.num(2)); n <= reader.MaxMessage { // else it is not sent
				l.bytes += n
			}
			if !seen[l.id] {
				seen[l.id], rows = true, append(rows, l)
			}
			return nil
		}, "SELECT "+reader.id("t")+", "+reader.table.place("t")+", "+reader.size("t")+" FROM ? WHERE ? AND ? ORDER BY "+reader.table.order("t"),
			p.from, p.where, raw(where))
	}
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("list rows of table "+t.String(), err)
	}
	if len(picks) > 1 { // each is in order: numbers, or times of one length
		slices.SortStableFunc(rows, func(a, b listedRow) int {
			return cmp.Or(cmp.Compare(len(a.place), len(b.place)), cmp.Compare(a.place, b.place), cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
		})
	}
	return rows, nil
}

// picksOf picks the rows that can be in the table.
func (t *table) picksOf(ids []string) ([]pick, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !t.findable(id) })
	if len(ids) == 0 {
		return nil, nil
	}
	picks, err := t.picks(ids)
	if err != nil {
		return nil, fmt.Errorf("%w: read rows: %w", source.ErrStop, err)
	}
	return picks, nil
}

// readSome reads rows.
func (t *table) readSome(ctx context.Context, s *relaySession, reader *rowReader, ids []string, where string) ([]*outbox.Message, error) {
	picks, err := t.picksOf(ids)
	if err != nil {
		return nil, err
	}
	if where == "" {
		where = "TRUE"
	}
	var ms []*outbox.Message
	b := s.batch()
	for _, p := range picks {
		b.each(func(r row) error {
			m, err := reader.message(r)
			if err != nil {
				return err
			}
			ms = append(ms, m)
			return nil
		}, "SELECT "+reader.list("t")+" FROM ? WHERE ? AND ? ORDER BY "+reader.table.order("t"), p.from, p.where, raw(where))
	}
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("read rows of table "+t.String(), err)
	}
	return ms, nil
}
