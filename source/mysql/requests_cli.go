package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// What operators see and ask for, beside the relay or without it. Each function connects by itself, and takes no lock but
// for Execute.

// openReader opens a store that only looks, or writes requests: it has no lock.
func openReader(ctx context.Context, cfg Config) (*store, error) { return dialStore(ctx, cfg, cfg.URL) }

// Ask writes a request into tailbox_request, and returns its id. One that could never be carried out is refused.
func Ask(ctx context.Context, cfg Config, r *checkpoint.Request) (id int64, err error) {
	if err := sqlstore.Validate(r); err != nil {
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
	b.exec("INSERT INTO {request} (pipeline, verb, selection, reason, `by`) VALUES (?, ?, ?, ?, COALESCE(?, CURRENT_USER()))",
		cfg.Pipeline, string(r.Verb), string(selection), r.Reason, orNull(r.By))
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
	return s.progress(ctx, id)
}

// Execute carries out the open requests up to an id where no relay runs; with one, it fails with checkpoint.ErrLocked.
// Requests to accept a gap are left for the next start.
func Execute(ctx context.Context, cfg Config, upTo int64) (err error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	for {
		requests, err := s.Requests(ctx)
		if err != nil {
			return err
		}
		progress := false
		for i := range requests {
			r := &requests[i]
			if r.ID > upTo || r.Verb == checkpoint.VerbAcceptGap {
				continue
			}
			progress = true
			if err := s.carryOut(ctx, r); err != nil {
				return fmt.Errorf("carry out request %d: %w", r.ID, err)
			}
		}
		if !progress {
			return nil
		}
	}
}

// carryOut does all parts of a request. With the lock held here no lane has a run in flight.
func (s *store) carryOut(ctx context.Context, r *checkpoint.Request) error {
	for {
		lanes, err := s.Lanes(ctx, r, sqlstore.RequestChunk)
		if err != nil {
			return err
		}
		applied, err := s.Apply(ctx, r, lanes)
		if err != nil || applied.Done {
			return err
		}
	}
}

const waitPoll = 100 * time.Millisecond

// Wait waits until a request is done: by the relay that runs or, where none does, by Execute. A request to accept a gap
// is left to the next start where no relay runs: the result is nil then.
func Wait(ctx context.Context, cfg Config, id int64) (*RequestResult, error) {
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		result, done, err := Result(ctx, cfg, id)
		if err != nil || done {
			return result, err
		}
		if turn%10 == 0 {
			switch err := Execute(ctx, cfg, id); {
			case errors.Is(err, checkpoint.ErrLocked):
			case err != nil:
				return nil, err
			default:
				result, done, err := Result(ctx, cfg, id)
				if err != nil || done {
					return result, err
				}
				return nil, nil // accept-gap
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for request %d: %w; the relay carries it out all the same", id, ctx.Err())
		case <-tick.C:
		}
	}
}

// A Listed is a parked delivery as operators see it.
type Listed = sqlstore.Listed

// A WaitingLane is a lane that does not flow, and why.
type WaitingLane = sqlstore.WaitingLane

// listBytes bounds the payloads of one list.
const listBytes = 64 << 20

// ListParked lists what a selection selects, with whole messages, in the order in which a request would go through it: by
// sink, group and position. At most limit deliveries, and no more than 64 MiB of payloads; more tells whether some are left
// out. Limit 0 means the selection's own limit, or all.
func ListParked(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int) (list []Listed, more bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	if err := s.remember(ctx); err != nil {
		return nil, false, err
	}
	r := &checkpoint.Request{Verb: checkpoint.VerbReplay, Selection: sel}
	if limit > 0 && (sel.Limit == 0 || limit < sel.Limit) {
		r.Selection.Limit = limit + 1
	}
	progress := &RequestResult{}
	bytes := 0
	for {
		c, err := s.selectChunk(ctx, r, progress)
		if err != nil {
			return nil, false, err
		}
		found, err := s.listed(ctx, c.Rows)
		if err != nil {
			return nil, false, err
		}
		for i := range found {
			if limit > 0 && len(list) == limit || bytes > listBytes {
				return list, true, nil
			}
			list, bytes = append(list, found[i]), bytes+len(found[i].Message.Payload)
		}
		progress.Changed, progress.After = len(list), c.Last
		if c.End {
			return list, false, nil
		}
	}
}

// listed reads deliveries whole, in the order of rows.
func (s *store) listed(ctx context.Context, rows []sqlstore.SelectedRow) ([]Listed, error) {
	found := make(map[sqlstore.ParkedKey]*Listed, len(rows))
	if err := s.readKeys(ctx, keys(rows), ", p.parked_at, p.changed_at, p.next_attempt_at", func(p checkpoint.Parked, r row) error {
		l := &Listed{Parked: p}
		for i, to := range []*time.Time{&l.ParkedAt, &l.ChangedAt, &l.NextAttemptAt} {
			var err error
			if *to, err = r.time(parkedWidth + i); err != nil {
				return err
			}
		}
		found[sqlstore.KeyOf(&p)] = l
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
	var firsts []sqlstore.SelectedRow
	for _, lane := range lanes {
		if h := heads[lane]; h != nil {
			list = append(list, WaitingLane{Sink: lane.Sink, Group: lane.Group, Deliveries: counts[lane], Held: s.isHeld(lane)})
			firsts = append(firsts, sqlstore.SelectedRow{ParkedKey: sqlstore.ParkedKey{Sink: lane.Sink, Group: lane.Group, Position: h.position,
				ID: h.key.ID, Table: h.key.Table}})
		}
	}
	whole, err := s.listed(ctx, firsts)
	if err != nil {
		return nil, err
	}
	if len(whole) != len(list) {
		return nil, fmt.Errorf("list lanes: %w", errors.New("they changed meanwhile: try again"))
	}
	for i := range whole {
		whole[i].Message.Payload = nil
		list[i].First = &whole[i]
	}
	return append(sqlstore.EmptyHeld(s.held, list, &sel), list...), nil
}

// waitingLanes names lanes with blocking deliveries, in order.
func (s *store) waitingLanes(ctx context.Context, sel *checkpoint.Selection, limit int) (lanes []checkpoint.Lane, err error) {
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
