package usertable

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
)

// Read reads rows of a table (alias t) as messages, by id; where limits them. Position and time of the commit are not set.
func (t *Table) Read(ctx context.Context, s *session.Session, ids []string, where string) ([]*outbox.Message, error) {
	reader, err := t.rowReader(ctx, s)
	if err != nil {
		return nil, err
	}
	return t.readSome(ctx, s, reader, ids, where)
}

// ReadUpTo is Read in the order in which rows are swept, up to the row that makes them so many bytes. Order and sizes of the rows are
// found out first, so that the others are not read.
func (t *Table) ReadUpTo(ctx context.Context, s *session.Session, ids []string, where string, bytes int) ([]*outbox.Message, error) {
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
func (t *Table) rowReader(ctx context.Context, s *session.Session) (*catalog.Reader, error) {
	info, err := catalog.Describe(ctx, s.Conn, &t.Table)
	if err != nil {
		return nil, server.Fault("read rows", err)
	}
	return catalog.NewReader(info, min(source.MaxMessage(s.Config.MaxMessage), s.MaxPacket-session.PacketSlack))
}

// A listedRow is what is known of a row before it is read.
type listedRow struct {
	id, place string
	bytes     int // about Size of its message
}

// listRows lists rows in the order in which they are swept. An id that is not unique is listed once.
func (t *Table) listRows(ctx context.Context, s *session.Session, reader *catalog.Reader, ids []string, where string) ([]listedRow, error) {
	picks, err := t.picksOf(ids)
	if err != nil {
		return nil, err
	}
	var rows []listedRow
	seen := make(map[string]bool, len(ids))
	b := s.Batch()
	for _, p := range picks {
		b.Each(func(r session.Row) error {
			l := listedRow{id: r.Text(0), place: r.Text(1), bytes: new(outbox.Message).Size()}
			if n := int(r.Num(2)); n <= reader.MaxMessage { // else it is not sent
				l.bytes += n
			}
			if !seen[l.id] {
				seen[l.id], rows = true, append(rows, l)
			}
			return nil
		}, "SELECT "+reader.ID("t")+", "+reader.Table.Place("t")+", "+reader.Size("t")+" FROM ? WHERE ? AND ? ORDER BY "+reader.Table.Order("t"),
			p.From, p.Where, quote.Raw(where))
	}
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("list rows of table "+t.String(), err)
	}
	if len(picks) > 1 { // each is in order: numbers, or times of one length
		slices.SortStableFunc(rows, func(a, b listedRow) int {
			return cmp.Or(cmp.Compare(len(a.place), len(b.place)), cmp.Compare(a.place, b.place), cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
		})
	}
	return rows, nil
}

// picksOf picks the rows that can be in the table.
func (t *Table) picksOf(ids []string) ([]Pick, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !t.Findable(id) })
	if len(ids) == 0 {
		return nil, nil
	}
	picks, err := t.Picks(ids)
	if err != nil {
		return nil, fmt.Errorf("%w: read rows: %w", source.ErrStop, err)
	}
	return picks, nil
}

// readSome reads rows.
func (t *Table) readSome(ctx context.Context, s *session.Session, reader *catalog.Reader, ids []string, where string) ([]*outbox.Message, error) {
	picks, err := t.picksOf(ids)
	if err != nil {
		return nil, err
	}
	if where == "" {
		where = "TRUE"
	}
	var ms []*outbox.Message
	b := s.Batch()
	for _, p := range picks {
		b.Each(func(r session.Row) error {
			m, err := reader.Message(r)
			if err != nil {
				return err
			}
			ms = append(ms, m)
			return nil
		}, "SELECT "+reader.SelectList("t")+" FROM ? WHERE ? AND ? ORDER BY "+reader.Table.Order("t"), p.From, p.Where, quote.Raw(where))
	}
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("read rows of table "+t.String(), err)
	}
	return ms, nil
}
