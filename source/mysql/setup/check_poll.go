package setup

import (
	"context"

	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
)

// writable looks whether the server is the primary.
func (c *checker) writable(ctx context.Context) error {
	values, err := server.Variables(ctx, c.conn, "read_only", "super_read_only")
	if err != nil {
		return err
	}
	c.primary(values)
	return nil
}

// polled looks whether the tables can be polled in order. Where there is none yet, it looks for the right that polling takes.
func (c *checker) polled(ctx context.Context) error {
	err := prepare.Polled(&c.Checker, len(c.cfg.Tables), c.tables, func(t *catalog.Table) (fatal, other []check.Reason, err error) {
		_, fatal, other, err = polling.Problems(ctx, c.conn, t)
		return fatal, other, err
	})
	if err != nil || len(c.tables) > 0 {
		return err
	}
	right, err := polling.MayListTransactions(ctx, c.conn)
	if err == nil && right != nil {
		c.Add(check.Problem, right.Fix, "%s", right.What)
	}
	return err
}
