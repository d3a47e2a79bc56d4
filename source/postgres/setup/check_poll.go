package setup

import (
	"context"

	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
)

// polled checks whether the tables can be polled in order.
func (c *checker) polled(ctx context.Context) error {
	return prepare.Polled(&c.Checker, len(c.cfg.Tables), c.tables, func(t *catalog.Table) (fatal, other []check.Reason, err error) {
		_, fatal, other, err = polling.Problems(ctx, c.conn, t)
		return fatal, other, err
	})
}

// forgottenSlot looks for the slot from when the log was read: it would keep the server's log for ever.
func (c *checker) forgottenSlot(ctx context.Context) error {
	var there bool
	if err := c.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database() AND NOT active)",
		c.cfg.Slot).Scan(&there); err != nil {
		return err
	}
	if there && c.cfg.Slot != "" {
		c.Add(check.Warning, "SELECT pg_drop_replication_slot("+sqltext.Literal(c.cfg.Slot)+")", "source.read is poll, and nobody reads slot %s: "+
			"the server keeps its log for it, until its disk is full", c.cfg.Slot)
	}
	return nil
}
