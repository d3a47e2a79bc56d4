// Package operator shows operators the state of a pipeline and takes their requests, beside a running relay and without its lock: status, lists
// of parked deliveries, and the gap behind a checkpoint.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// New is what operators see of a pipeline, and ask for.
func New(cfg server.Config) operate.Operator {
	return operate.Operator{
		Read: func(ctx context.Context) (operate.Reader, error) {
			s, err := openReader(ctx, cfg)
			return reader{s}, err
		},
		Open: func(ctx context.Context) (checkpoint.Store, error) { return mystore.Open(ctx, cfg) },
	}
}

// openReader opens a store that only looks, or writes requests: it has no lock.
func openReader(ctx context.Context, cfg server.Config) (*mystore.Store, error) {
	s, err := session.Dial(ctx, cfg, cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(limitAnswers(ctx, s.Conn), schema.Current(ctx, s.Conn, s.Schema)); err != nil {
		return nil, errors.Join(err, s.Conn.Close(ctx))
	}
	return mystore.New(s), nil
}

// limitAnswers makes the server end a question soon after ctx, if that has a deadline: a server does not see that the connection
// of a running statement is gone. The second more is for the error of ctx, which says more, to come first.
func limitAnswers(ctx context.Context, conn *server.Conn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	limit := time.Until(deadline) + time.Second
	set := fmt.Sprintf("SET max_execution_time = %d", limit.Milliseconds())
	if conn.Server.MariaDB {
		set = fmt.Sprintf("SET max_statement_time = %.3f", limit.Seconds())
	}
	if _, err := conn.Exec(ctx, set); err != nil {
		return server.Fault("bound the time of questions", err)
	}
	return nil
}

// A reader implements operate.Reader: a store that has no lock.
type reader struct{ *mystore.Store }

// Begin implements operate.Reader.
func (s reader) Begin(ctx context.Context) (context.Context, error) {
	s.Forget()
	return ctx, limitAnswers(ctx, s.Conn)
}

// Leave implements operate.Reader.
func (s reader) Leave(ctx context.Context) error { return s.Conn.Close(ctx) }

// Ask implements operate.Reader.
func (s reader) Ask(ctx context.Context, r *checkpoint.Request, by string) (id int64, err error) {
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	b := s.Batch()
	columns, args := "pipeline, verb, selection, reason", []any{s.Config.Pipeline, string(r.Verb), string(selection), r.Reason}
	if by != "" { // clients may not write the column
		columns, args = columns+", `by`", append(args, by)
	}
	b.Exec("INSERT INTO {request} ("+columns+") VALUES (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	b.Each(func(r session.Row) error {
		id = r.Num(0)
		return nil
	}, "SELECT LAST_INSERT_ID()")
	if err := s.Send(ctx, b); err != nil {
		return 0, server.Fault("write request", err)
	}
	return id, nil
}

// Asked implements operate.Reader.
func (s reader) Asked(ctx context.Context, before int64, limit int, whole bool) (list []store.Asked, err error) {
	b := s.Batch()
	b.Each(func(r session.Row) (err error) {
		a := store.Asked{Request: checkpoint.Request{ID: r.Num(0), Verb: checkpoint.Verb(r.Text(1)), Reason: r.Text(3), By: r.Text(4)}}
		if a.RequestedAt, err = r.Time(5); err != nil {
			return err
		}
		if a.DoneAt, err = r.Time(6); err != nil {
			return err
		}
		a.ReadAsked(r.Text(2), r.TextOrNil(7))
		list = append(list, a)
		return nil
	}, "SELECT id, verb, IF(? OR LENGTH(selection) <= ?, selection, ?), reason, `by`, requested_at, done_at, result FROM {request} "+
		"WHERE pipeline = ? AND id < ? ORDER BY id DESC LIMIT ?", whole, store.MostSelection, store.OmittedSelection, s.Config.Pipeline, before, limit)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("list requests", err)
	}
	return list, nil
}

// Listed implements operate.Reader.
func (s reader) Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error) {
	found := make(map[store.ParkedKey]*store.Listed, len(rows))
	columns := mystore.ParkedColumns()
	if !whole {
		columns = mystore.BareColumns()
	}
	if err := s.ReadParked(ctx, store.KeysOf(rows), columns, func(r *store.ParkedRow, now time.Time) error {
		l, err := r.Listed(now)
		if err != nil {
			return err
		}
		found[store.KeyOf(&l.Parked)] = &l
		return nil
	}); err != nil {
		return nil, server.Fault("list parked deliveries", err)
	}
	list := make([]store.Listed, 0, len(rows))
	for i := range rows {
		if l := found[rows[i].ParkedKey]; l != nil {
			list = append(list, *l)
		}
	}
	return list, nil
}

// WaitingLanes implements operate.Reader.
func (s reader) WaitingLanes(ctx context.Context, sel *checkpoint.Selection, after checkpoint.Lane, limit int) (list []operate.WaitingLane, firsts []store.SelectedRow, next *checkpoint.Lane, err error) {
	lanes, err := s.lanesThatWait(ctx, sel, after, limit)
	if err != nil {
		return nil, nil, nil, err
	}
	heads, counts := make(map[checkpoint.Lane]*store.LaneHead), make(map[checkpoint.Lane]int)
	b := s.Batch()
	s.QueueHeadsOf(b, lanes, heads)
	for _, lane := range lanes {
		b.Each(func(r session.Row) error {
			counts[lane] = int(r.Num(0))
			return nil
		}, `SELECT COUNT(*) FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND sink = ? AND message_group = ?`,
			s.Config.Pipeline, lane.Sink, quote.Bin(lane.Group))
	}
	if err := s.Send(ctx, b); err != nil {
		return nil, nil, nil, server.Fault("list lanes", err)
	}
	for _, lane := range lanes {
		if h := heads[lane]; h != nil {
			list = append(list, operate.WaitingLane{Sink: lane.Sink, Group: lane.Group, Deliveries: counts[lane]})
			firsts = append(firsts, store.SelectedRow{ParkedKey: store.ParkedKey{Sink: lane.Sink, Group: lane.Group, Position: h.Position,
				ID: h.ID, Table: h.Table}})
		}
	}
	return list, firsts, operate.NextLane(lanes, limit), nil
}

// lanesThatWait names lanes with blocking deliveries behind a place, in order.
func (s reader) lanesThatWait(ctx context.Context, sel *checkpoint.Selection, after checkpoint.Lane, limit int) (lanes []checkpoint.Lane, err error) {
	where := quote.Raw("TRUE")
	if name, limited := sel.AtSink(); limited {
		where += quote.Raw(" AND sink = " + quote.Text(name))
	}
	if len(sel.Groups) > 0 {
		where += quote.Raw(" AND message_group IN (" + string(quote.Append(nil, quote.List(sel.Groups))) + ")")
	}
	if after != (checkpoint.Lane{}) {
		sink, group := quote.Text(after.Sink), string(quote.Append(nil, quote.Bin(after.Group)))
		where += quote.Raw(" AND (sink > " + sink + " OR sink = " + sink + " AND message_group > " + group + ")")
	}
	if limit <= 0 {
		limit = 1 << 40
	}
	b := s.Batch()
	b.Each(func(r session.Row) error {
		lanes = append(lanes, checkpoint.Lane{Sink: r.Text(0), Group: r.Text(1)})
		return nil
	}, `SELECT DISTINCT sink, message_group FROM {parked} FORCE INDEX (tailbox_parked_lane) WHERE pipeline = ? AND blocks = 1 AND ?
		ORDER BY sink, message_group LIMIT ?`, s.Config.Pipeline, where, limit)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("list lanes", err)
	}
	return lanes, nil
}
