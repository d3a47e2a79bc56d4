package setup

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/check"
)

// failover checks whether the slot would survive a failover, and looks at the standbys that the server waits for.
func (c *checker) failover(ctx context.Context) error {
	if c.recovery {
		return nil
	}
	slot, err := upstream.Find(ctx, &c.cfg, c.conn.PgConn())
	if err != nil {
		return err
	}
	if what, fix := upstream.FailoverIdle(&c.cfg, c.version, slot); what != "" {
		c.Add(check.Warning, fix, "%s", what)
	}
	list, err := upstream.Standbys(ctx, &c.cfg, c.conn.PgConn())
	if err != nil {
		return err
	}
	if why := upstream.AwayWarning(list); why != "" {
		c.Add(check.Problem, upstream.AwayFix, "Postgres sends no message: it waits for standbys that synchronized_standby_slots names: %s", why)
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
	c.Add(check.Warning, "ALTER SYSTEM SET synchronized_standby_slots = '"+strings.Join(names, ", ")+"', then SELECT pg_reload_conf()",
		"synchronized_standby_slots is empty: the relay may deliver a message whose transaction no standby has, and which a failover loses")
	return nil
}

// commitTimes warns of tables whose rows a sweep could not put in the order of their commits.
func (c *checker) commitTimes(ctx context.Context) error {
	value, err := c.setting(ctx, "track_commit_timestamp")
	if err != nil {
		return err
	}
	const order = "tailbox sweeps rows in the order in which their transactions began to write, which may differ from the order of their commits"
	for _, t := range c.tables {
		switch {
		case t.OnDelivered == outbox.Keep && t.Pending("t") == "" || t.Sequenced():
			continue // nothing is swept, or in the sequence's order
		case value != "on":
			c.Add(check.Warning, "ALTER SYSTEM SET track_commit_timestamp = on, then restart the server; or name a sequence column under source.tables.columns.seq",
				"track_commit_timestamp is off, and table %s has no sequence: if the slot is ever lost, "+order, t)
			continue
		}
		unknown, err := c.unknownTimes(ctx, t)
		if err != nil {
			return err
		}
		if unknown > 0 {
			c.Add(check.Warning, "let a relay deliver them while their slot is there, such as before pg_upgrade or a dump",
				"the server does not know the commit time of %d pending rows of table %s: pg_upgrade and dumps do not carry it. If the slot is lost, "+order, unknown, t)
		}
	}
	return nil
}

// unknownTimes counts pending rows whose commit time the server does not know.
func (c *checker) unknownTimes(ctx context.Context, t *catalog.Table) (n int, err error) {
	where := t.Pending("t")
	if where == "" {
		where = "true"
	}
	err = c.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FILTER (WHERE pg_catalog.pg_xact_commit_timestamp(x) IS NULL) FROM (SELECT t.xmin AS x FROM %s t WHERE %s LIMIT %d) r",
		sqltext.Table(&t.Table), where, countLimit)).Scan(&n)
	if pgerr.State(err) == "42501" {
		return 0, nil // found already
	}
	return n, err
}
