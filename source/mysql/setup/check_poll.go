package setup

import (
	"context"

	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/check"
)

// writable looks whether the server is the primary.
func (c *checker) writable(ctx context.Context) error {
	values, err := server.Variables(ctx, c.conn, "read_only", "super_read_only")
	if err != nil {
		return err
	}
	if server.IsOn(values["read_only"]) || server.IsOn(values["super_read_only"]) {
		c.add(check.Problem, "let source.url lead to the primary", "the server is read-only: it is a replica, or being switched over")
	}
	return nil
}

// polled looks whether the tables can be polled in order. Where there is none yet, it looks for the right that polling takes.
func (c *checker) polled(ctx context.Context) error {
	if len(c.cfg.Tables) > 1 {
		c.add(check.Problem, "give each table a pipeline of its own", "source.read is poll, and there are %d tables, whose sequences have no common order", len(c.cfg.Tables))
	}
	for _, t := range c.tables {
		_, fatal, other, err := polling.Problems(ctx, c.conn, t)
		if err != nil {
			return err
		}
		for _, f := range fatal {
			c.add(check.Problem, f.Cure, "%s", f.What)
		}
		for _, f := range other {
			c.add(check.Warning, f.Cure, "%s", f.What)
		}
	}
	if len(c.tables) > 0 {
		return nil
	}
	right, err := polling.MayListTransactions(ctx, c.conn)
	if err == nil && right != nil {
		c.add(check.Problem, right.Cure, "%s", right.What)
	}
	return err
}
