package mysql

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/source/store"
)

// writable looks whether the server is the primary.
func (c *checker) writable(ctx context.Context) error {
	values, err := variables(ctx, c.conn, "read_only", "super_read_only")
	if err != nil {
		return err
	}
	if on(values["read_only"]) || on(values["super_read_only"]) {
		c.add(Problem, "let source.url lead to the primary", "the server is read-only: it is a replica, or being switched over")
	}
	return nil
}

// polled looks whether the tables can be polled in order. Where there is none yet, it looks for the right that polling takes.
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
	if len(c.tables) > 0 {
		return nil
	}
	right, err := mayListTransactions(ctx, c.conn)
	if err == nil && right != nil {
		c.add(Problem, right.cure, "%s", right.what)
	}
	return err
}

// A PollReport is how far polling is.
type PollReport = store.PollReport

// reportPoll tells what was drawn, and which transactions are open that may have drawn numbers.
func (s *stateStore) reportPoll(ctx context.Context, r *Report) error {
	for _, sql := range uncached(s.sess.server) {
		if _, err := s.sess.exec(ctx, sql); err != nil {
			return fmt.Errorf("set up session: %w", err)
		}
	}
	for i := range s.cfg.Tables {
		info, err := describeTable(ctx, s.sess, &s.cfg.Tables[i])
		if err != nil {
			return err
		}
		t := &pollTable{cfg: &s.cfg, conn: s.sess, table: info, looks: newLooks()}
		last, err := t.last(ctx)
		if err != nil {
			return err
		}
		report := &PollReport{Sequence: fmt.Sprintf("%s.%s", info, info.Columns.Seq), Last: last}
		right, err := mayListTransactions(ctx, s.sess)
		if err != nil {
			return err
		}
		if right == nil {
			list, _, _, err := t.Holders(ctx)
			if err != nil {
				return err
			}
			for _, h := range list {
				report.Open = append(report.Open, h.About)
			}
		}
		r.Poll = report
	}
	return nil
}
