package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// What operators see and ask for, beside the relay or without it. Each function connects by itself, and takes no lock but
// for Execute.

// openReader opens a store that only looks, or writes requests: it has no lock.
func openReader(ctx context.Context, cfg Config) (*stateStore, error) {
	s, err := dialStore(ctx, cfg, cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := s.current(ctx); err != nil {
		return nil, errors.Join(err, s.sess.close(ctx))
	}
	return s, nil
}

// Ask writes a request into tailbox_request, and returns its id. One that could never be carried out is refused.
func Ask(ctx context.Context, cfg Config, r *checkpoint.Request) (id int64, err error) {
	if err := store.Validate(r); err != nil {
		return 0, fmt.Errorf("ask for %s: %w", r.Verb, err)
	}
	s, err := openReader(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	b := s.batch()
	// Who asks, and when, is the database's to say.
	b.exec("INSERT INTO {request} (pipeline, verb, selection, reason) VALUES (?, ?, ?, ?)", cfg.Pipeline, string(r.Verb), string(selection), r.Reason)
	b.each(func(r row) error {
		id = r.num(0)
		return nil
	}, "SELECT LAST_INSERT_ID()")
	if err := s.send(ctx, b); err != nil {
		return 0, s.fault("write request", err)
	}
	return id, nil
}

// Result reads what a request did so far, and whether it is done.
func Result(ctx context.Context, cfg Config, id int64) (result *RequestResult, done bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	return s.Progress(ctx, id)
}

// Execute carries out the open requests up to an id where no relay runs; with one, it fails with checkpoint.ErrLocked.
// Requests to accept a gap are left for the next start.
func Execute(ctx context.Context, cfg Config, upTo int64) (err error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return store.Execute(ctx, s, upTo)
}

// Wait waits until a request is done: by the relay that runs or, where none does, by Execute. A request to accept a gap
// is left to the next start where no relay runs: the result is nil then.
func Wait(ctx context.Context, cfg Config, id int64) (*RequestResult, error) {
	return store.Wait(ctx, id, func(ctx context.Context) (*RequestResult, bool, error) { return Result(ctx, cfg, id) },
		func(ctx context.Context) error { return Execute(ctx, cfg, id) })
}

// A Listed is a parked delivery as operators see it.
type Listed = store.Listed

// A WaitingLane is a lane that does not flow, and why.
type WaitingLane = store.WaitingLane

// ListParked lists what a selection selects, in the order in which a request would go through it: by sink, group and position. At
// most limit deliveries; more tells whether some are left out. Limit 0 means the selection's own limit, or all. Whole messages are
// listed up to 64 MiB of payloads; else they come without their payloads.
func ListParked(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int, whole bool) (list []Listed, more bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	if err := s.remember(ctx); err != nil {
		return nil, false, err
	}
	return store.ListParked(ctx, s, sel, limit, func(ctx context.Context, rows []store.SelectedRow) ([]Listed, error) {
		return s.listed(ctx, rows, whole)
	})
}

// listed reads deliveries, in the order of rows: whole, or without payloads.
func (s *stateStore) listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]Listed, error) {
	found := make(map[store.ParkedKey]*Listed, len(rows))
	columns := parkedColumns
	if !whole {
		columns = strings.Replace(columns, "p.payload", "NULL", 1)
	}
	if err := s.readColumns(ctx, keys(rows), columns+", p.parked_at, p.changed_at, p.next_attempt_at", func(p checkpoint.Parked, r row) error {
		l := &Listed{Parked: p}
		for i, to := range []*time.Time{&l.ParkedAt, &l.ChangedAt, &l.NextAttemptAt} {
			var err error
			if *to, err = r.time(parkedWidth + i); err != nil {
				return err
			}
		}
		found[store.KeyOf(&p)] = l
		return nil
	}); err != nil {
		return nil, s.fault("list parked deliveries", err)
	}
	list := make([]Listed, 0, len(rows))
	for i := range rows {
		if l := found[rows[i].ParkedKey]; l != nil {
			list = append(list, *l)
		}
	}
	return list, nil
}

// ListLanes lists the lanes that wait, with the reason, of the sink and groups of a selection; the rest of it does not matter.
// Limit bounds the lanes; 0 means all. Held lanes with nothing parked come first.
func ListLanes(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int) (list []WaitingLane, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	if err := s.remember(ctx); err != nil {
		return nil, err
	}
	lanes, err := s.waitingLanes(ctx, &sel, limit)
	if err != nil {
		return nil, err
	}
	heads, counts := make(map[checkpoint.Lane]*laneHead), make(map[checkpoint.Lane]int)
	b := s.batch()
	s.queueHeadsOf(b, lanes, heads)
	for _, lane := range lanes {
		b.each(func(r row) error {
			counts[lane] = int(r.num(0))
			return nil
		}, `SELECT COUNT(*) FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND sink = ? AND message_group = ?`,
			cfg.Pipeline, lane.Sink, bin(lane.Group))
	}
	if err := s.send(ctx, b); err != nil {
		return nil, s.fault("list lanes", err)
	}
	var firsts []store.SelectedRow
	for _, lane := range lanes {
		if h := heads[lane]; h != nil {
			list = append(list, WaitingLane{Sink: lane.Sink, Group: lane.Group, Deliveries: counts[lane], Held: s.held.Has(lane)})
			firsts = append(firsts, store.SelectedRow{ParkedKey: store.ParkedKey{Sink: lane.Sink, Group: lane.Group, Position: h.position,
				ID: h.key.ID, Table: h.key.Table}})
		}
	}
	found, err := s.listed(ctx, firsts, false)
	if err != nil {
		return nil, err
	}
	return store.WithFirst(list, found, s.held, &sel)
}

// waitingLanes names lanes with blocking deliveries, in order.
func (s *stateStore) waitingLanes(ctx context.Context, sel *checkpoint.Selection, limit int) (lanes []checkpoint.Lane, err error) {
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
		return nil, s.fault("list lanes", err)
	}
	return lanes, nil
}
