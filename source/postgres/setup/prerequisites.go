package setup

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
)

// prerequisites reports everything that would stop Init or the first position, before Init creates anything. If the pipeline has a checkpoint, it
// checks nothing: the first position was taken already.
func prerequisites(ctx context.Context, cfg session.Config, conn *pgx.Conn) error {
	c := &checker{cfg: cfg, conn: conn}
	s := pgstore.On(cfg, conn)
	if err := s.FindTables(ctx); err == nil {
		c.state = s
	} else if pgerr.State(err) != "" {
		return err
	}
	if have, err := c.hasCheckpoint(ctx); err != nil || have {
		return err
	}
	questions := []prepare.Question{c.server, c.settings, c.roleRights, c.lock, c.applicationTables, c.checkExistingPublication, c.unusedSlot, c.firstStart}
	if cfg.Poll {
		questions = []prepare.Question{c.server, c.lock, c.applicationTables, c.polled, c.firstStart}
	}
	return c.Prerequisites(ctx, "nothing was created, because this has to be fixed first", questions...)
}

// hasCheckpoint reports whether a position was ever taken; false if the relay's tables are missing. It asks the database once.
func (c *checker) hasCheckpoint(ctx context.Context) (bool, error) {
	if c.position != nil || c.state == nil {
		return c.position != nil && *c.position, nil
	}
	have, err := c.state.Positioned(ctx)
	if err != nil {
		return false, err
	}
	c.position = &have
	return have, nil
}

// applicationTables finds the tables that are there, and those that are missing and not ours to make.
func (c *checker) applicationTables(ctx context.Context) error {
	for i := range c.cfg.Tables {
		t := &c.cfg.Tables[i]
		info, err := catalog.Describe(ctx, c.conn.PgConn(), t)
		switch {
		case err == nil:
			c.tables = append(c.tables, info)
			if err := c.checkUsable(ctx, info); err != nil {
				return err
			}
		case !errors.Is(err, source.ErrStop):
			return err
		case !ddl.OwnShape(t.Shape):
			c.Foreign(t, sqltext.Table(t))
		}
	}
	return nil
}

// checkUsable looks for what would stop the relay at the table.
func (c *checker) checkUsable(ctx context.Context, info *catalog.Table) error {
	for _, look := range []func(context.Context, *catalog.Table) error{c.kindOfTable, c.columns} {
		if err := look(ctx, info); err != nil {
			return err
		}
	}
	t, err := c.resolve(ctx, info)
	if err != nil || t == nil {
		return err
	}
	return c.movedRows(ctx, t)
}

// unusedSlot checks whether the slot can be made: there is none of its name, or one that this pipeline left half made.
func (c *checker) unusedSlot(ctx context.Context) error {
	s, err := upstream.Find(ctx, &c.cfg, c.conn.PgConn())
	if err != nil || s == nil {
		return err
	}
	o, err := pgstore.SlotClaims{Cfg: &c.cfg, State: c.state}.Of(ctx, c.conn, s)
	switch {
	case err != nil:
		return err
	case o.Refused != "":
		c.Add(check.Problem, o.Fix, "slot %s %s", c.cfg.Slot, o.Refused)
	case s.Active && c.cfg.TakeOver:
		c.Add(check.Problem, "stop Debezium for good: two readers of a slot lose messages to each other", "slot %s, which is to be taken over, is being read (PID %d)", c.cfg.Slot, s.ActivePID)
	case s.Active:
		c.Add(check.Problem, "stop that reader, or choose another source.slot", "slot %s is there already, and is being read (PID %d)", c.cfg.Slot, s.ActivePID)
	}
	return nil
}
