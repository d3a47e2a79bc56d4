package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
)

// failoverIdle says that source.failover does nothing, and what would; "" if it does something, or is not set. Slot is nil where there is none yet.
func (c *Config) failoverIdle(version int, slot *slotState) (what, cure string) {
	switch {
	case !c.Failover:
		return "", ""
	case version < 170000:
		return "source.failover does nothing: servers before Postgres 17 do not synchronise slots to standbys",
			"upgrade to Postgres 17, or keep the slot by the extension pg_failover_slots or Patroni's permanent slots; without the slot a failover is a lost slot"
	case slot != nil && !slot.Failover:
		return fmt.Sprintf("source.failover does nothing for slot %s, which was made without it", c.Slot),
			fmt.Sprintf("stop the relay, then: psql 'dbname=%s replication=database' -c 'ALTER_REPLICATION_SLOT %s (FAILOVER true)'", slot.Database, quoteIdent(c.Slot))
	}
	return "", ""
}

// failover looks whether the slot would survive a failover, and at the standbys that the server waits for.
func (c *checker) failover(ctx context.Context) error {
	if c.recovery {
		return nil
	}
	slot, err := c.cfg.slot(ctx, c.conn.PgConn())
	if err != nil {
		return err
	}
	if what, cure := c.cfg.failoverIdle(c.version, slot); what != "" {
		c.add(Warning, cure, "%s", what)
	}
	list, err := c.cfg.standbys(ctx, c.conn.PgConn())
	if err != nil {
		return err
	}
	if why := awayWarning(list); why != "" {
		c.add(Problem, awayCure, "Postgres sends no message: it waits for standbys that synchronized_standby_slots names: %s", why)
	}
	if !c.cfg.Failover || c.version < 170000 {
		return nil
	}
	setting, err := c.setting(ctx, "synchronized_standby_slots")
	if err != nil || setting != "" {
		return err
	}
	rows, err := c.conn.Query(ctx, "SELECT slot_name::text FROM pg_catalog.pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary ORDER BY active DESC, slot_name LIMIT 5")
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{"the physical slot of the standby"}
	}
	c.add(Warning, "ALTER SYSTEM SET synchronized_standby_slots = '"+strings.Join(names, ", ")+"', then SELECT pg_reload_conf()",
		"synchronized_standby_slots is empty: the relay may deliver a message whose transaction no standby has, and which a failover loses")
	return nil
}

// commitTimes warns of tables of which nothing would tell a sweep the order of commits.
func (c *checker) commitTimes(ctx context.Context) error {
	value, err := c.setting(ctx, "track_commit_timestamp")
	if err != nil {
		return err
	}
	const order = "rows are swept in the order in which their transactions began to write, which may not be that of their commits"
	for _, t := range c.tables {
		switch {
		case t.OnDelivered == outbox.Keep && t.pendingCondition("t") == "" || t.sequenced():
			continue // nothing is swept, or in the sequence's order
		case value != "on":
			c.add(Warning, "ALTER SYSTEM SET track_commit_timestamp = on, then restart the server; or name a sequence column under source.tables.columns.seq",
				"track_commit_timestamp is off, and table %s has no sequence: if the slot is ever lost, "+order, t)
			continue
		}
		unknown, err := c.unknownTimes(ctx, t)
		if err != nil {
			return err
		}
		if unknown > 0 {
			c.add(Warning, "let a relay deliver them while their slot is there, such as before pg_upgrade or a dump",
				"of %d pending rows of table %s the server does not know the commit time: neither pg_upgrade nor a dump carries it. If they have to be swept, "+order, unknown, t)
		}
	}
	return nil
}

// unknownTimes counts pending rows whose commit time the server does not know.
func (c *checker) unknownTimes(ctx context.Context, t *tableInfo) (n int, err error) {
	where := t.pendingCondition("t")
	if where == "" {
		where = "true"
	}
	err = c.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FILTER (WHERE pg_catalog.pg_xact_commit_timestamp(x) IS NULL) FROM (SELECT t.xmin AS x FROM %s t WHERE %s LIMIT %d) r",
		tableName(&t.Table), where, countLimit)).Scan(&n)
	if sqlState(err) == "42501" {
		return 0, nil // found already
	}
	return n, err
}

// sequenced tells whether numbers tell the order in which rows were written.
func (t *tableInfo) sequenced() bool {
	if _, ok := t.column(t.Columns.Seq); ok && t.Columns.Seq != "" {
		return true
	}
	id, ok := t.column(t.Columns.ID)
	return ok && (id.kind == kindInt2 || id.kind == kindInt4 || id.kind == kindInt8)
}
