package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/operator"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
)

// What the kit asks of a database about its store.

func (d *kitDatabase) Store(ctx context.Context) (checkpoint.Store, error) {
	return mystore.Open(ctx, d.relay())
}

// query runs one query on a connection of its own.
func (d *kitDatabase) query(ctx context.Context, sql string, on func(session.Row) error) error {
	s, err := session.Dial(ctx, d.Cfg, d.Cfg.URL)
	if err != nil {
		return err
	}
	b := s.Batch()
	b.Each(on, sql)
	return errors.Join(s.Send(ctx, b), s.Conn.Close(ctx))
}

func (d *kitDatabase) Rows(ctx context.Context, t sourcetest.Table) (rows []sourcetest.Row, err error) {
	info, err := describeKit(ctx, d, t)
	if err != nil {
		return nil, err
	}
	c := t.Columns
	columns := ", '', 0, '', 0"
	if c.Status != "" {
		columns = fmt.Sprintf(", %s, %s, %s, %s IS NOT NULL", quote.Ident(c.Status), quote.Ident(c.Attempts), quote.Ident(c.LastError), quote.Ident(c.DeliveredAt))
	}
	receipt := ", ''"
	if c.Receipt != "" {
		receipt = ", " + quote.Ident(c.Receipt)
	}
	err = d.query(ctx, "SELECT "+info.Selected("")+columns+receipt+" FROM "+quote.Table(&t.Table)+" ORDER BY "+quote.Ident(c.ID), func(r session.Row) error {
		id, err := info.Read(r, 0)
		rows = append(rows, sourcetest.Row{ID: id, Status: r.Text(1), Attempts: int(r.Num(2)), LastError: r.Text(3), Delivered: r.Bool(4), Receipt: r.Text(5)})
		return err
	})
	return rows, err
}

// describeKit is how ids of a table travel.
func describeKit(ctx context.Context, d *kitDatabase, t sourcetest.Table) (usertable.IDType, error) {
	s, err := session.Dial(ctx, d.Cfg, d.Cfg.URL)
	if err != nil {
		return usertable.IDType{}, err
	}
	found, err := usertable.Resolve(ctx, s, t.Table)
	if err == nil && found == nil {
		err = errors.New("no such table")
	}
	if err != nil {
		return usertable.IDType{}, errors.Join(err, s.Conn.Close(ctx))
	}
	return found.ID, s.Conn.Close(ctx)
}

func (d *kitDatabase) Reset(ctx context.Context, t sourcetest.Table, ids ...string) error {
	var literals []string
	for _, id := range ids {
		literals = append(literals, mysqltest.IDExpr(t, id))
	}
	return d.My.Exec(ctx, d.DB, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s IN (%s)", quote.Table(&t.Table), quote.Ident(t.Columns.Status),
		quote.Text(t.Words.Pending), quote.Ident(t.Columns.ID), strings.Join(literals, ", ")))
}

func (d *kitDatabase) Parked(ctx context.Context) (ps []checkpoint.Parked, err error) {
	err = d.query(ctx, "SELECT "+mystore.ParkedColumns()+" FROM {parked} p WHERE p.pipeline = "+quote.Text(d.Cfg.Pipeline)+
		" AND p.state <> 'delivered' ORDER BY p.position, p.sink", mystore.ParkedReader(func(r *store.ParkedRow, now time.Time) error {
		p, err := r.Delivery(now)
		ps = append(ps, p)
		return err
	}))
	return ps, err
}

func (d *kitDatabase) Ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	return operator.New(d.relay()).Ask(ctx, r)
}

func (d *kitDatabase) Answer(ctx context.Context, id int64) (sourcetest.Answer, error) {
	result, done, err := operator.New(d.relay()).Result(ctx, id)
	if err != nil || result == nil {
		return sourcetest.Answer{}, err
	}
	return sourcetest.Answer{Done: done, Changed: result.Changed, Refused: result.Refused, Error: result.Error}, nil
}
