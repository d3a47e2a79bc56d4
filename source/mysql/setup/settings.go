package setup

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/check"
)

// databases looks whether the log holds the databases of the tables.
func (c *checker) databases(ctx context.Context) error {
	f, err := c.cfg.Unlogged(ctx, c.conn)
	switch {
	case err != nil && (server.Code(err) != 0 || errors.Is(err, source.ErrStop)): // no log, or no right to ask: both are found elsewhere
		return nil
	case err == nil && f != nil:
		c.Add(check.Problem, f.Fix, "%s", f.What)
	}
	return err
}
