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
		c.add(store.Problem, "let source.url lead to the primary", "the server is read-only: it is a replica, or being switched over")
	}
	return nil
}

// polled looks whether the tables can be polled in order. Where there is none yet, it looks for the right that polling takes.
func (c *checker) polled(ctx context.Context) error {
	if len(c.cfg.Tables) > 1 {
		c.add(store.Problem, "give each table a pipeline of its own", "source.read is poll, and there are %d tables, whose sequences have no common order", len(c.cfg.Tables))
	}
	for _, t := range c.tables {
		_, fatal, other, err := pollFlaws(ctx, c.conn, t)
		if err != nil {
			return err
		}
		for _, f := range fatal {
			c.add(store.Problem, f.cure, "%s", f.what)
		}
		for _, f := range other {
			c.add(store.Warning, f.cure, "%s", f.what)
		}
	}
	if len(c.tables) > 0 {
		return nil
	}
	right, err := mayListTransactions(ctx, c.conn)
	if err == nil && right != nil {
		c.add(store.Problem, right.cure, "%s", right.what)
	}
	return err
}

// reportPoll tells what was drawn, and which transactions are open that may have drawn numbers.
func reportPoll(ctx context.Context, cfg *config, conn *session) (report *store.PollReport, err error) {
	for _, sql := range uncached(conn.server) {
		if _, err := conn.exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("set up session: %w", err)
		}
	}
	for i := range cfg.Tables {
		info, err := describeTable(ctx, conn, &cfg.Tables[i])
		if err != nil {
			return nil, err
		}
		t := &pollTable{cfg: cfg, conn: conn, table: info, looks: newLooks()}
		last, err := t.last(ctx)
		if err != nil {
			return nil, err
		}
		report = &store.PollReport{Sequence: fmt.Sprintf("%s.%s", info, info.Columns.Seq), Last: last}
		right, err := mayListTransactions(ctx, conn)
		if err != nil {
			return nil, err
		}
		if right != nil {
			continue
		}
		list, _, _, err := t.Holders(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range list {
			report.Open = append(report.Open, h.About)
		}
	}
	return report, nil
}
