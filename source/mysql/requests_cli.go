package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// Operator is what operators see of a pipeline, and ask for.
func Operator(cfg config) store.Operator {
	return store.Operator{
		Read: func(ctx context.Context) (store.Reader, context.Context, error) {
			s, err := openReader(ctx, cfg)
			return reader{s}, ctx, err
		},
		Open: func(ctx context.Context) (checkpoint.Store, error) { return Open(ctx, cfg) },
	}
}

// openReader opens a store that only looks, or writes requests: it has no lock.
func openReader(ctx context.Context, cfg config) (*stateStore, error) {
	s, err := dialRelay(ctx, cfg, cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := current(ctx, s.sess, s.schema); err != nil {
		return nil, errors.Join(err, s.sess.close(ctx))
	}
	return newStore(s), nil
}

// A reader implements store.Reader: a store that has no lock.
type reader struct{ *stateStore }

// Leave implements store.Reader.
func (s reader) Leave(ctx context.Context) error { return s.sess.close(ctx) }

// Ask implements store.Reader.
func (s reader) Ask(ctx context.Context, r *checkpoint.Request) (id int64, err error) {
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	b := s.batch()
	b.exec("INSERT INTO {request} (pipeline, verb, selection, reason) VALUES (?, ?, ?, ?)", s.cfg.Pipeline, string(r.Verb), string(selection), r.Reason)
	b.each(func(r row) error {
		id = r.num(0)
		return nil
	}, "SELECT LAST_INSERT_ID()")
	if err := s.send(ctx, b); err != nil {
		return 0, storeFault("write request", err)
	}
	return id, nil
}

// Listed implements store.Reader.
func (s reader) Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error) {
	found := make(map[store.ParkedKey]*store.Listed, len(rows))
	columns := parkedColumns()
	if !whole {
		columns = bareColumns()
	}
	if err := s.readParked(ctx, keys(rows), columns, func(r *store.ParkedRow, now time.Time) error {
		l, err := r.Listed(now)
		if err != nil {
			return err
		}
		found[store.KeyOf(&l.Parked)] = &l
		return nil
	}); err != nil {
		return nil, storeFault("list parked deliveries", err)
	}
	list := make([]store.Listed, 0, len(rows))
	for i := range rows {
		if l := found[rows[i].ParkedKey]; l != nil {
			list = append(list, *l)
		}
	}
	return list, nil
}

// WaitingLanes implements store.Reader.
func (s reader) WaitingLanes(ctx context.Context, sel *checkpoint.Selection, limit int) (list []store.WaitingLane, firsts []store.SelectedRow, err error) {
	lanes, err := s.lanesThatWait(ctx, sel, limit)
	if err != nil {
		return nil, nil, err
	}
	heads, counts := make(map[checkpoint.Lane]*store.LaneHead), make(map[checkpoint.Lane]int)
	b := s.batch()
	s.queueHeadsOf(b, lanes, heads)
	for _, lane := range lanes {
		b.each(func(r row) error {
			counts[lane] = int(r.num(0))
			return nil
		}, `SELECT COUNT(*) FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND sink = ? AND message_group = ?`,
			s.cfg.Pipeline, lane.Sink, bin(lane.Group))
	}
	if err := s.send(ctx, b); err != nil {
		return nil, nil, storeFault("list lanes", err)
	}
	for _, lane := range lanes {
		if h := heads[lane]; h != nil {
			list = append(list, store.WaitingLane{Sink: lane.Sink, Group: lane.Group, Deliveries: counts[lane]})
			firsts = append(firsts, store.SelectedRow{ParkedKey: store.ParkedKey{Sink: lane.Sink, Group: lane.Group, Position: h.Position,
				ID: h.ID, Table: h.Table}})
		}
	}
	return list, firsts, nil
}

// lanesThatWait names lanes with blocking deliveries, in order.
func (s reader) lanesThatWait(ctx context.Context, sel *checkpoint.Selection, limit int) (lanes []checkpoint.Lane, err error) {
	where := raw("TRUE")
	if name, limited := sel.AtSink(); limited {
		where += raw(" AND sink = " + quoteLiteral(name))
	}
	if len(sel.Groups) > 0 {
		where += raw(" AND message_group IN (" + string(appendLiteral(nil, list(sel.Groups))) + ")")
	}
	if limit <= 0 {
		limit = 1 << 40
	}
	b := s.batch()
	b.each(func(r row) error {
		lanes = append(lanes, checkpoint.Lane{Sink: r.text(0), Group: r.text(1)})
		return nil
	}, `SELECT DISTINCT sink, message_group FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND ?
		ORDER BY sink, message_group LIMIT ?`, s.cfg.Pipeline, where, limit)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("list lanes", err)
	}
	return lanes, nil
}
