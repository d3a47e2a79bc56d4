package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// readRows reads rows of a table (alias t) as messages, by id; where limits them. They come in the order in which rows are
// swept. Position and time of the commit are not set.
func (s *store) readRows(ctx context.Context, t *table, ids []string, where string) ([]*outbox.Message, error) {
	info, err := describeTable(ctx, s.sess, &t.Table)
	if err != nil {
		return nil, s.fault("read rows", err)
	}
	reader, err := rowReaderOf(info, min(maxMessageOr(s.cfg.MaxMessage), s.maxPacket-packetSlack))
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !t.findable(id) })
	if len(ids) == 0 {
		return nil, nil
	}
	picks, err := t.picks(ids)
	if err != nil {
		return nil, fmt.Errorf("%w: read rows: %w", source.ErrStop, err)
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
		}, "SELECT "+reader.list("t")+" FROM ? WHERE ? AND ? ORDER BY "+info.order("t"), p.from, p.where, raw(where))
	}
	if err := s.send(ctx, b); err != nil {
		return nil, s.fault("read rows of table "+t.String(), err)
	}
	return ms, nil
}

// readByID is readRows as a map.
func (s *store) readByID(ctx context.Context, t *table, ids []string, where string) (map[string]*outbox.Message, error) {
	ms, err := s.readRows(ctx, t, ids, where)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*outbox.Message, len(ms))
	for _, m := range ms {
		found[m.ID] = m
	}
	return found, nil
}
