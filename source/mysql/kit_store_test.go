package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
)

// What the kit asks of a database about its store.

func (d *kitDatabase) Store(ctx context.Context) (checkpoint.Store, error) {
	return Open(ctx, d.relay())
}

// query runs one query on a connection of its own.
func (d *kitDatabase) query(ctx context.Context, sql string, on func(row) error) error {
	s, err := dialRelay(ctx, d.cfg, d.cfg.URL)
	if err != nil {
		return err
	}
	b := s.batch()
	b.each(on, sql)
	return errors.Join(s.send(ctx, b), s.sess.close(ctx))
}

func (d *kitDatabase) Rows(ctx context.Context, t sourcetest.Table) (rows []sourcetest.Row, err error) {
	info, err := describeKit(ctx, d, t)
	if err != nil {
		return nil, err
	}
	c := t.Columns
	columns := ", '', 0, '', 0"
	if c.Status != "" {
		columns = fmt.Sprintf(", %s, %s, %s, %s IS NOT NULL", quoteIdent(c.Status), quoteIdent(c.Attempts), quoteIdent(c.LastError), quoteIdent(c.DeliveredAt))
	}
	receipt := ", ''"
	if c.Receipt != "" {
		receipt = ", " + quoteIdent(c.Receipt)
	}
	err = d.query(ctx, "SELECT "+info.selected("")+columns+receipt+" FROM "+tableName(&t.Table)+" ORDER BY "+quoteIdent(c.ID), func(r row) error {
		id, err := info.read(r, 0)
		rows = append(rows, sourcetest.Row{ID: id, Status: r.text(1), Attempts: int(r.num(2)), LastError: r.text(3), Delivered: r.bool(4), Receipt: r.text(5)})
		return err
	})
	return rows, err
}

// describeKit is how ids of a table travel.
func describeKit(ctx context.Context, d *kitDatabase, t sourcetest.Table) (idType, error) {
	s, err := dialRelay(ctx, d.cfg, d.cfg.URL)
	if err != nil {
		return idType{}, err
	}
	found, err := resolveTable(ctx, s, t.Table)
	if err == nil && found == nil {
		err = errors.New("no such table")
	}
	if err != nil {
		return idType{}, errors.Join(err, s.sess.close(ctx))
	}
	return found.id, s.sess.close(ctx)
}

func (d *kitDatabase) Reset(ctx context.Context, t sourcetest.Table, ids ...string) error {
	var literals []string
	for _, id := range ids {
		literals = append(literals, idExpr(t, id))
	}
	return d.my.Exec(ctx, d.db, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s IN (%s)", tableName(&t.Table), quoteIdent(t.Columns.Status),
		quoteLiteral(t.Words.Pending), quoteIdent(t.Columns.ID), strings.Join(literals, ", ")))
}

func (d *kitDatabase) Parked(ctx context.Context) (ps []checkpoint.Parked, err error) {
	err = d.query(ctx, "SELECT "+parkedColumns()+" FROM {parked} p WHERE p.pipeline = "+quoteLiteral(d.cfg.Pipeline)+
		" AND p.state <> 'delivered' ORDER BY p.position, p.sink", parkedReader(func(r *store.ParkedRow, now time.Time) error {
		p, err := r.Delivery(now)
		ps = append(ps, p)
		return err
	}))
	return ps, err
}

func (d *kitDatabase) Ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	return Operator(d.relay()).Ask(ctx, r)
}

func (d *kitDatabase) Answer(ctx context.Context, id int64) (sourcetest.Answer, error) {
	result, done, err := Operator(d.relay()).Result(ctx, id)
	if err != nil || result == nil {
		return sourcetest.Answer{}, err
	}
	return sourcetest.Answer{Done: done, Changed: result.Changed, Refused: result.Refused, Error: result.Error}, nil
}
