package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/store"
)

// polled looks whether the tables can be polled in order.
func (c *checker) polled(ctx context.Context) error {
	if len(c.cfg.Tables) > 1 {
		c.add(Problem, "give each table a pipeline of its own", "source.read is poll, and there are %d tables, whose sequences have no common order", len(c.cfg.Tables))
	}
	for _, t := range c.tables {
		_, fatal, other, err := pollFlaws(ctx, c.conn, t)
		if err != nil {
			return err
		}
		for _, f := range fatal {
			c.add(Problem, f.cure, "%s", f.what)
		}
		for _, f := range other {
			c.add(Warning, f.cure, "%s", f.what)
		}
	}
	return nil
}

// leftOver looks for the slot from when the log was read: it would keep the server's log for ever.
func (c *checker) leftOver(ctx context.Context) error {
	var there bool
	if err := c.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database() AND NOT active)",
		c.cfg.Slot).Scan(&there); err != nil {
		return err
	}
	if there && c.cfg.Slot != "" {
		c.add(Warning, "SELECT pg_drop_replication_slot("+quoteLiteral(c.cfg.Slot)+")", "source.read is poll, and nobody reads slot %s: "+
			"the server keeps its log for it, until its disk is full", c.cfg.Slot)
	}
	return nil
}

// A PollReport is how far polling is.
type PollReport = store.PollReport

// reportPoll tells what was drawn, and who has drawn numbers and not ended.
func (s *stateStore) reportPoll(ctx context.Context, r *Report) error {
	for i := range s.cfg.Tables {
		info, err := describeTable(ctx, s.conn.PgConn(), &s.cfg.Tables[i])
		if err != nil {
			return err
		}
		seq, err := sequenceOf(ctx, s.conn, info)
		if err != nil {
			return err
		}
		if seq == nil || !seq.readable {
			return nil // check says so
		}
		var last int64
		if err := s.conn.QueryRow(ctx, "SELECT "+seq.last()+" FROM "+seq.name+" s").Scan(&last); err != nil {
			return s.fault("read the sequence", err)
		}
		report := &PollReport{Sequence: seq.name, Last: uint64(max(last, 0))}
		rows, err := s.conn.Query(ctx, "SELECT coalesce('pid ' || h.pid, 'prepared ' || h.virtualtransaction), a.xact_start FROM ("+holdersSQL+
			") h LEFT JOIN pg_stat_activity a ON a.pid = h.pid ORDER BY a.xact_start NULLS FIRST", seq.oid)
		if err != nil {
			return s.fault("list transactions that have drawn numbers", err)
		}
		var since *time.Time
		var who string
		if _, err := pgx.ForEachRow(rows, []any{&who, &since}, func() error {
			if since != nil {
				who += fmt.Sprintf(" since %s", since.Format(time.RFC3339))
			}
			report.Open = append(report.Open, who)
			return nil
		}); err != nil {
			return s.fault("list transactions that have drawn numbers", err)
		}
		r.Poll = report
	}
	return nil
}
